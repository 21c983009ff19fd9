"""Objectives: hidden values and the loss; views and NT-Xent."""

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from tsformer.augmentation import Batch
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import Padded
from tsformer.model import ModelConfig
from tsformer.objectives import Contrastive, InputLayout, Masked, Posed
from tsformer.objectives.base import PretrainingTransformer
from tsformer.objectives.masked import spans


@pytest.mark.parametrize(("ratio", "span"), [(0.15, 3.0), (0.5, 1.0), (0.3, 5.0)])
def test_spans_have_geometric_lengths(ratio, span):
    """In one long series: geometric lengths of means `span` and ``span (1 - ratio) / ratio``."""
    hidden = spans(1, 20_000, 4, ratio=ratio, span=span)
    assert hidden.shape == (1, 20_000, 4)
    assert hidden.float().mean().item() == pytest.approx(ratio, rel=0.05)
    inner = []
    for channel in hidden[0].T.tolist():
        inner += [(state, len([*run])) for state, run in itertools.groupby(channel)][1:-1]
    lengths = {state: np.array([n for s, n in inner if s == state]) for state in (True, False)}
    for state, mean in ((True, span), (False, span * (1 - ratio) / ratio)):
        assert lengths[state].mean() == pytest.approx(mean, rel=0.1)
        # P(n = 1) of a geometric distribution is one over its mean.
        assert (lengths[state] == 1).mean() == pytest.approx(1 / mean, abs=0.03)


def test_behind_a_stride_whole_tokens_are_hidden():
    x = torch.ones(50, 23, 2)
    posed = Masked(ratio=0.4).pose(Batch(x), InputLayout(2, stride=5))
    hidden = posed.batch.values == 0
    for start in range(0, 23, 5):
        token = hidden[:, start : start + 5]
        assert torch.equal(token.any(dim=1), token.all(dim=1))
    assert 0 < hidden.sum() < hidden.numel()
    assert torch.equal(posed.target, x)
    assert torch.equal(posed.counted, hidden)
    sizes = {"n_channels": 2, "n_outputs": 2, "max_len": 23, "d_model": 8, "n_heads": 2}
    config = ModelConfig(**sizes, stem="patch", stem_params={"stride": 5})
    model = PretrainingTransformer(config, Masked()).eval()
    steps = model(x)
    assert steps.shape == x.shape
    of_tokens = model.head(model.encode(x))  # step by step, and both channels of each
    torch.testing.assert_close(steps[:, 5:7].flatten(1), of_tokens[:, 1, :4])


def test_the_mean_loss_is_that_of_the_hidden_values():
    outputs, target = torch.randn(5, 7, 3), torch.randn(5, 7, 3)
    counted = torch.rand(5, 7, 3) < 0.3
    counted[2] = False  # nothing hidden in one series
    losses = Masked().losses(outputs, Posed(Batch(target), target, counted))
    torch.testing.assert_close(losses.mean(), F.mse_loss(outputs[counted], target[counted]))
    assert losses[2] == 0
    nothing = Masked().losses(outputs, Posed(Batch(target), target, counted & False))
    assert not nothing.any()


def prepared(x: np.ndarray, views: str) -> tuple[Scaler, Batch, InputLayout]:
    lengths = np.full(len(x), x.shape[1])
    scaler = Scaler("channel", views=views)
    panel = scaler.fit(Padded(x, lengths)).transform(Padded(x, lengths))
    flagged = tuple(scaler.gap_channels.tolist())
    layout = InputLayout(x.shape[2], differenced="+" in views, flagged=flagged)
    return scaler, Batch(*panel.take(torch.arange(len(x)))), layout


@pytest.mark.parametrize(
    ("gaps", "views"), [(0.0, "values+difference"), (0.3, "values+difference"), (0.3, "values")]
)
def test_masked_input_hides_values(gaps, views):
    """Change the hidden values of the raw series: what the model reads stays as it was."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, 30, 2))
    x[:, 1:-1, 1][rng.random((6, 28)) < gaps] = np.nan
    scaler, batch, layout = prepared(x, views)
    torch.manual_seed(1)
    posed = Masked(ratio=0.3).pose(batch, layout)
    assert bool(posed.counted.any(dim=1).all())
    moved = np.where(posed.counted.numpy(), x + 5.0, x)
    lengths = np.full(6, 30)
    panel = scaler.transform(Padded(moved, lengths))  # scaled as before
    torch.manual_seed(1)
    again = Masked(ratio=0.3).pose(Batch(*panel.take(torch.arange(6))), layout)
    assert torch.equal(again.counted, posed.counted)
    assert torch.equal(again.batch.values, posed.batch.values)
    assert not torch.equal(again.target, posed.target)
    missing = torch.from_numpy(np.isnan(x))
    assert not (posed.counted & missing).any(), "an interpolated value is no measurement"


@pytest.mark.parametrize("objective", [Masked(), Contrastive()])
def test_outputs_depend_on_times_and_not_on_padding(objective):
    sizes = {"n_channels": 2, "max_len": 20, "d_model": 8, "n_heads": 2}
    config = ModelConfig(n_outputs=objective.n_outputs(2), **sizes)
    model = PretrainingTransformer(config, objective).eval()
    x, times = torch.randn(1, 12, 2), torch.rand(1, 12).cumsum(dim=1)
    mask = torch.arange(20)[None] < 12
    alone, padded = model(x, None, times), model(F.pad(x, (0, 0, 0, 8)), mask, F.pad(times, (0, 8)))
    torch.testing.assert_close(padded[:, :12], alone[:, :12], rtol=1e-4, atol=1e-5)
    assert not torch.allclose(model(x), alone, atol=1e-4)


def test_padding_does_not_count():
    mask = torch.arange(10) < torch.tensor([[4], [10]])
    x = torch.randn(2, 10, 1) * mask[..., None]
    posed = Masked(ratio=0.5).pose(Batch(x, mask), InputLayout(1))
    assert posed.counted.any()
    assert not posed.counted[~mask].any()


def brute_force(z: torch.Tensor, temperature: float) -> list[float]:
    n = len(z) // 2
    unit = [row / row.norm() for row in z.double()]

    def loss(i: int, j: int) -> float:
        scores = {k: math.exp(float(unit[i] @ unit[k]) / temperature) for k in range(2 * n)}
        return -math.log(scores[j] / (sum(scores.values()) - scores[i]))

    return [(loss(i, i + n) + loss(i + n, i)) / 2 for i in range(n)]


@pytest.mark.parametrize("temperature", [0.1, 0.7])
def test_nt_xent_is_its_formula(temperature):
    z = 3 * torch.randn(10, 4)
    losses = Contrastive(temperature=temperature).losses(z, Posed(Batch(z)))
    assert losses.tolist() == pytest.approx(brute_force(z, temperature), rel=1e-4)


def test_views_are_two_different_parts_of_each_series():
    ramps = torch.linspace(0, 1, 21)[None, :, None] + torch.arange(5)[:, None, None]
    posed = Contrastive(min_share=0.5, sigma=0.0).pose(Batch(ramps), InputLayout(1))
    first, second = posed.batch.values.split(5)
    for view in (first, second):
        shares = view[:, -1, 0] - view[:, 0, 0]
        assert 0.5 - 1e-6 <= shares.min() <= shares.max() < 1
        assert torch.equal(view.floor().amin(dim=(1, 2)), torch.arange(5.0))
    assert not torch.equal(first, second)


def test_noise_has_its_standard_deviation_and_leaves_padding_alone():
    mask = torch.arange(200) < torch.tensor([[50], [200]])
    times = torch.arange(200.0).expand(2, -1)
    posed = Contrastive(sigma=0.3).pose(Batch(torch.zeros(2, 200, 3), mask, times), InputLayout(3))
    batch = posed.batch
    assert batch.values.shape == (4, 200, 3)
    assert batch.values[batch.mask].std().item() == pytest.approx(0.3, rel=0.1)
    assert not batch.values[~batch.mask].any()
    assert torch.equal(batch.times, torch.cat([times, times]))
    shared = Contrastive().pose(Batch(torch.zeros(2, 200, 3), times=times[:1]), InputLayout(3))
    assert torch.equal(shared.batch.times, times[:1])
