"""The training loop: what it optimises, and what it never does."""

from __future__ import annotations

from unittest import mock

import pytest
import torch
from small_problem import (
    Remembers,
    accuracy,
    cross_entropy,
    equal,
    fit,
    make_model,
    make_panel,
    make_plan,
    weights_of,
    wrong_labels,
)
from torch import Tensor

from tsformer.training import forward
from tsformer.training.loop import make_optimizer


def test_learns():
    model, (panel, targets) = make_model(), make_panel(ragged=True)
    history = fit(model, panel, targets, make_plan(n_epochs=12))
    assert history[-1]["loss"] < 0.3 * history[0]["loss"]
    new, new_targets = make_panel(seed=1)
    assert accuracy(forward(model, new), new_targets) > 0.9
    assert not model.training


def test_history_has_one_row_per_epoch():
    history = fit(make_model(), *make_panel(), make_plan())
    assert [row["epoch"] for row in history] == [1, 2, 3, 4]
    assert set(history[0]) == {"epoch", "loss", "lr", "seconds"}
    assert history[0]["lr"] > history[-1]["lr"] > 0
    assert all(row["seconds"] > 0 for row in history)
    assert not history.interrupted
    assert history.best_epoch is None


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
    optimizer = make_optimizer(model, make_plan(weight_decay=0.3))
    decay = {
        id(p): group["weight_decay"] for group in optimizer.param_groups for p in group["params"]
    }
    names = {key: decay[id(parameter)] for key, parameter in model.named_parameters()}
    assert len(names) == len(decay)
    decayed = {key for key, value in names.items() if value == 0.3}
    assert {value for key, value in names.items() if key not in decayed} == {0.0}
    assert {"head.weight", "blocks.0.attention.qkv.weight", "pooling.score.weight"} < decayed
    assert {"encoding.parts.1.0.ffn.0.weight", "encoding.parts.1.0.ffn.3.weight"} < decayed
    assert sum("branches" in key for key in decayed) == 8
    for key in names:
        if key.endswith("bias") or "norm" in key or "table" in key:
            assert key not in decayed, key


def test_a_model_in_eval_mode_trains_alike():
    models = [make_model(), make_model().eval()]
    for model in models:
        fit(model, *make_panel(), make_plan())
    assert equal(*map(weights_of, models))


def test_weights_weigh_and_ones_change_nothing():
    panel, targets = make_panel(20)
    ends = []
    for weights in (None, torch.ones(20), 2.0 * targets):
        model = make_model()
        fit(model, panel, targets, make_plan(), weights=weights)
        ends.append(model)
    assert equal(weights_of(ends[0]), weights_of(ends[1]))
    # Trained on class 1 alone, the third predicts nothing else.
    assert (forward(ends[2], panel).argmax(1) == 1).all()


def test_nothing_waits_for_the_device_inside_an_epoch(monkeypatch):
    """Each of these makes the host wait for a GPU; one per epoch is needed."""
    calls = []
    for name in ("item", "tolist", "cpu", "numpy", "__bool__", "__float__"):
        real = getattr(Tensor, name)

        def counted(self, *args, _real=real, _name=name):
            calls.append(_name)
            return _real(self, *args)

        monkeypatch.setattr(Tensor, name, counted)
    per_epoch = []
    for n in (8, 80):  # two batches per epoch, and twenty
        calls.clear()
        fit(make_model(), *make_panel(n), make_plan(n_epochs=3))
        per_epoch.append(calls.count("item") / 3)
        assert set(calls) == {"item"}
    assert per_epoch == [1, 1]


def test_validation_alone_judges_and_does_not_stop():
    model, remembers = make_model(), Remembers()
    history = fit(
        model, *make_panel(), make_plan(), validation=wrong_labels(), callbacks=[remembers]
    )
    assert len(history) == 4
    assert equal(weights_of(model), remembers.weights[-1])
    without = make_model()
    fit(without, *make_panel(), make_plan())
    assert equal(weights_of(model), weights_of(without))


def test_forward_keeps_order_and_mode():
    panel, _ = make_panel(ragged=True)
    model = make_model().train()
    outputs = forward(model, panel)
    assert model.training
    assert outputs.dtype == torch.float32
    assert not outputs.requires_grad
    model.eval()
    one_by_one = [model(*panel.take(torch.tensor([i]))) for i in range(len(panel))]
    torch.testing.assert_close(outputs, torch.cat(one_by_one))
    torch.testing.assert_close(
        forward(model, panel, function=model.embed), model.embed(*panel.take(torch.arange(20)))
    )
    rounded = forward(model, panel, bfloat16=True)
    assert not torch.equal(rounded, outputs)
    torch.testing.assert_close(rounded, outputs, rtol=0.05, atol=0.05)
