"""The training loop: what it optimises, and what it never does; its plan; where memory runs out."""

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
import torch
from small_problem import (
    cross_entropy,
    fit,
    make_model,
    make_panel,
    make_plan,
    make_run,
    weights_of,
)
from torch import Tensor, nn

from tsformer._devices import resolve_device
from tsformer.data.panel import shuffled
from tsformer.training import forward
from tsformer.training.inference import place
from tsformer.training.loop import make_optimizer
from tsformer.training.plan import Pretrained


def test_each_step_has_the_rate_of_the_schedule():
    rates, plan = [], make_plan(warmup=0.3)

    class Looks(torch.optim.AdamW):
        def step(self, *args, **kwargs):
            rates.append(float(self.param_groups[0]["lr"]))
            return super().step(*args, **kwargs)

    with mock.patch("torch.optim.AdamW", Looks):
        history = fit(make_model(), *make_panel(), plan)
    assert rates == pytest.approx([plan.rate(step, 20) for step in range(20)])
    assert [row["lr"] for row in history] == pytest.approx(rates[4::5])


def test_loss_is_the_mean_over_series_not_over_batches():
    """Seven series in batches of four: the last batch is smaller."""
    panel, targets = make_panel(7)
    model = make_model(dropout=0.0, stem="linear", encoding="fixed")
    expected = cross_entropy(forward(model, panel), targets).mean().item()
    history = fit(model, panel, targets, make_plan(n_epochs=1, learning_rate=1e-12))
    assert history[0]["loss"] == pytest.approx(expected, rel=1e-5)


def test_only_matrices_of_layers_decay():
    model = make_model("learnable+lspe+erpe", pooling="attention", stem="conv")
    groups = make_optimizer(model, make_plan(weight_decay=0.3)).param_groups
    decay = {id(p): group["weight_decay"] for group in groups for p in group["params"]}
    names = {key: decay[id(parameter)] for key, parameter in model.named_parameters()}
    assert len(names) == len(decay)
    assert set(names.values()) == {0.0, 0.3}
    decayed = {key for key, value in names.items() if value == 0.3}
    assert {"head.weight", "blocks.0.attention.qkv.weight", "pooling.score.weight"} < decayed
    assert {"encoding.parts.1.0.ffn.0.weight", "encoding.parts.1.0.ffn.3.weight"} < decayed
    assert sum("branches" in key for key in decayed) == 8
    assert not [key for key in decayed if key.endswith("bias") or "norm" in key or "table" in key]


def test_lr_scale_slows_pretrained_parameters():
    ends = {}
    for scale in (None, 1.0, 1e-6):
        model = make_model(dropout=0.0)
        names = frozenset(dict(model.named_parameters())) - {"head.weight", "head.bias"}
        before = weights_of(model)
        pretrained = None if scale is None else Pretrained(names, lr_scale=scale)
        history = fit(model, *make_panel(), make_plan(pretrained=pretrained))
        ends[scale] = history[-1]["loss"]
        after = weights_of(model)
        moved = max((before[name] - after[name]).abs().max().item() for name in names)
        assert (moved < 1e-5) == (scale == 1e-6)
    # The norm of the gradient is summed in another order.
    assert ends[1.0] == pytest.approx(ends[None], rel=1e-4)


@pytest.mark.parametrize("ragged", [False, True])
def test_update_bn_of_head_has_no_dropout(ragged):
    model = make_model(head_norm="batch", dropout=0.5).train()
    panel, targets = make_panel(24, ragged=ragged)
    make_run(model, (panel, targets), make_plan(batch_size=5)).update_averages()
    pooled = []
    generator = torch.Generator().manual_seed(0)
    for index in shuffled(len(panel), 5, generator):
        model.eval()
        for norm in (model.stem.first.norm, model.stem.second.norm):
            norm.train()
        pooled.append(model.embed(*panel.take(index)).mean(0))
    torch.testing.assert_close(model.head_norm.running_mean, torch.stack(pooled).mean(0))


def test_update_bn_of_head_weights_series():
    model = make_model(stem="linear", head_norm="batch").eval()
    panel, targets = make_panel(24)
    weights = torch.linspace(0, 3, 24).square() / 3
    make_run(model, (panel, targets), make_plan(batch_size=5), weights=weights).update_averages()
    with torch.no_grad():
        embedded = model.embed(panel.values)
    expected = (embedded * weights[:, None]).sum(0) / weights.sum()
    torch.testing.assert_close(model.head_norm.running_mean, expected)


def test_series_without_weight_change_nothing():
    panel, targets, n_zero = *make_panel(20), 3
    weights = torch.where(torch.arange(20) < n_zero, 0.0, 20 / (20 - n_zero))
    values = panel.values.clone()
    values[:n_zero] += 100.0
    models = [make_model(stem="linear", head_norm="batch") for _ in range(2)]
    for model, data in zip(models, (panel, replace(panel, values=values)), strict=True):
        fit(model, data, targets, make_plan(), weights=weights)
    states, expected = (model.state_dict() for model in models)
    for name, value in expected.items():
        torch.testing.assert_close(states[name], value, rtol=1e-5, atol=1e-6)


def test_rate_rises_to_its_peak_and_falls_to_zero_along_a_cosine():
    def rates(n_steps: int, **options) -> np.ndarray:
        plan = make_plan(learning_rate=0.5, **options)
        return np.array([plan.rate(step, n_steps) for step in range(n_steps + 1)])

    expected = 0.25 * (1 + np.cos(np.pi * np.arange(91) / 90))
    np.testing.assert_allclose(rates(100), [*(0.05 * np.arange(1, 11)), *expected], atol=1e-12)
    assert rates(100, warmup=0.5).argmax() == 49
    for n_steps in (1, 2, 3):
        assert rates(n_steps)[0] == 0.5
        assert (rates(n_steps)[:-1] > 0).all()


@pytest.mark.skipif(torch.accelerator.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize(
    "device", ["gpu", torch.device("cuda:1"), "mps", "CPU", "meta", "tpu", None]
)
def test_a_device_that_is_not_there_is_not_offered(device):
    with pytest.raises(ValueError):
        resolve_device(device)


@pytest.mark.parametrize(("cuda", "mps"), [(True, True), (False, True), (False, False)])
def test_auto_is_the_first_device_that_is_there(cuda, mps, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    assert resolve_device("auto") == torch.device("cuda" if cuda else "mps" if mps else "cpu")


@pytest.mark.parametrize(("n_bytes", "expected"), [(50, "on the GPU"), (51, "pinned")])
def test_series_of_more_than_half_of_the_free_memory_stay_on_the_host(
    n_bytes, expected, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (100, 1000))
    panel = mock.Mock(n_bytes=n_bytes)
    panel.pinned.return_value, panel.to.return_value = "pinned", "on the GPU"
    assert place(panel, torch.device("cuda")) == expected


class Small(nn.Module):
    """A block that fits only so many series into memory."""

    def __init__(self, block: nn.Module, most: int):
        super().__init__()
        self.block, self.most, self.sizes = block, most, []

    def forward(self, x: Tensor, *rest) -> Tensor:
        if len(x) > self.most:
            raise torch.OutOfMemoryError(f"{len(x)} series do not fit")
        self.sizes.append(len(x))
        return self.block(x, *rest)


def test_a_batch_that_does_not_fit_is_an_error_that_names_its_size():
    model = make_model()
    model.blocks[0] = Small(model.blocks[0], 3)
    with pytest.raises(MemoryError, match="batch_size"):
        fit(model, *make_panel(), make_plan())


def test_prediction_halves_its_batches():
    model, (panel, _) = make_model().eval(), make_panel(ragged=True)
    expected = forward(model, panel)
    model.blocks[0] = Small(model.blocks[0], 3)
    torch.testing.assert_close(forward(model, panel), expected)
    assert max(model.blocks[0].sizes) == 3
    model.blocks[0].most = 0
    with pytest.raises(MemoryError):
        forward(model, panel)
