"""`contrastive`: two views of each series, and NT-Xent between them."""

import math

import numpy as np
import pytest
import torch

from tsformer.augmentation import Batch
from tsformer.objectives import Contrastive, InputLayout, Masked, Posed
from tsformer.objectives.contrastive import nt_xent


def brute_force(z: torch.Tensor, temperature: float) -> list[float]:
    n = len(z) // 2
    unit = [row / row.norm() for row in z.double()]

    def loss(i: int, j: int) -> float:
        others = [math.exp(float(unit[i] @ unit[k]) / temperature) for k in range(2 * n) if k != i]
        return -math.log(math.exp(float(unit[i] @ unit[j]) / temperature) / sum(others))

    return [(loss(i, i + n) + loss(i + n, i)) / 2 for i in range(n)]


@pytest.mark.parametrize("temperature", [0.1, 0.7])
def test_nt_xent_is_its_formula(temperature):
    torch.manual_seed(0)
    z = 3 * torch.randn(10, 4)
    losses = Contrastive(temperature=temperature).losses(z, Posed(Batch(z)))
    assert torch.equal(losses, nt_xent(z, temperature))
    assert nt_xent(z, temperature).tolist() == pytest.approx(brute_force(z, temperature), rel=1e-4)


def test_nt_xent_single_series_is_zero():
    z = torch.randn(2, 4, requires_grad=True)
    loss = nt_xent(z, 0.2)
    loss.sum().backward()
    assert loss.item() == 0
    assert torch.equal(z.grad, torch.zeros(2, 4))


def test_views_are_two_different_parts_of_each_series():
    torch.manual_seed(0)
    ramps = torch.linspace(0, 1, 21)[None, :, None] + torch.arange(5)[:, None, None]
    posed = Contrastive(min_share=0.5, sigma=0.0).pose(Batch(ramps), InputLayout(1))
    first, second = posed.batch.values.split(5)
    for view in (first, second):
        shares = view[:, -1, 0] - view[:, 0, 0]
        assert bool((shares >= 0.5 - 1e-6).all())
        assert bool((shares < 1).all())
        assert torch.equal(view.floor().amin(dim=(1, 2)), torch.arange(5.0))
    assert not torch.equal(first, second)


def test_noise_has_its_standard_deviation_and_leaves_padding_alone():
    torch.manual_seed(0)
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


def test_a_width_of_numpy_is_saved_as_a_number():
    assert type(Contrastive(width=np.int64(8)).n_outputs(1)) is int


@pytest.mark.parametrize(
    ("objective", "options", "named"),
    [
        (Contrastive, {"temperature": 0}, "temperature.* 0"),
        (Contrastive, {"min_share": 1.0}, "min_share"),
        (Contrastive, {"sigma": -1.0}, "sigma"),
        (Contrastive, {"width": 2.5}, "width.* 2.5"),
        (Masked, {"ratio": 0.0}, "ratio.* 0.0"),
        (Masked, {"ratio": 1}, "ratio"),
        (Masked, {"span": "3"}, "span.* '3'"),
        (Masked, {"span": 0.5}, "span"),
        (Masked, {"ratio": 0.9, "span": 3.0}, "visible spans"),
    ],
)
def test_options_out_of_range_are_named(objective, options, named):
    with pytest.raises((TypeError, ValueError), match=named):
        objective(**options)
