"""Members trained as one end as each would alone, with callbacks and errors of their own."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from device_waits import Watch
from marks import slow_except
from small_ensemble import assert_as_alone, fit, make_members
from small_problem import (
    Remembers,
    accuracy,
    cross_entropy,
    equal,
    make_model,
    make_panel,
    make_plan,
    weights_of,
)
from torch import nn

from tsformer.data.panel import Panel
from tsformer.encodings import names
from tsformer.model.norms import MaskedBatchNorm, PooledBatchNorm
from tsformer.training import (
    Callback,
    History,
    NonFiniteLossError,
    TrainingState,
    Validation,
    forward,
    train_ensemble,
)
from tsformer.training.ensemble.vectorized import ModelStack, _Data, _VectorizedLoop
from tsformer.training.run import TrainingRun


@pytest.mark.parametrize("encoding", slow_except([*names(), "tape+erpe"]))
def test_every_encoding_trains_as_alone(encoding):
    # Of 11 series in batches of 4 one batch has 3, and not that of all members at once.
    assert_as_alone(make_members(encoding), *make_panel(11, ragged=True))


def test_series_of_equal_length_train_as_alone():
    assert_as_alone(make_members("tape+erpe"), *make_panel(11))


@pytest.mark.parametrize(
    "config",
    [
        {"stem": "linear", "pooling": "attention", "norm_first": False},
        {"stem": "patch", "pooling": "max", "n_layers": 2},
        {"stem_params": {"norm": "layer"}},
    ],
)
def test_every_part_trains_as_alone(config):
    assert_as_alone(make_members("rope", n=3, **config), *make_panel(11, ragged=True))


def test_weights_times_and_clipping_are_each_members_own():
    panel, targets = make_panel(11)
    generator = torch.Generator().manual_seed(0)
    times = torch.rand(11, 12, generator=generator).cumsum(1)
    seen = torch.rand(11, 12, generator=generator) < 0.8
    panel = Panel(panel.values, panel.lengths, seen.logical_or(torch.arange(12) == 11), times)
    weights = torch.linspace(0.1, 1.9, 11)
    plan = make_plan(n_epochs=2, max_grad_norm=0.1)
    assert_as_alone(make_members("rope"), panel, targets, plan=plan, weights=weights)


def test_half_precision_trains_as_alone_up_to_rounding():
    plan = make_plan(n_epochs=2, bfloat16=True)
    assert_as_alone(make_members("rope"), *make_panel(), plan=plan, tolerance=0.02)


def test_each_stops_early_for_itself():
    models = make_members("rope", n=3)
    plan = make_plan(n_epochs=12, n_iter_no_change=2, learning_rate=2e-2)
    panel, targets = make_panel(seed=1)
    panel, mixed = replace(panel, values=panel.values.double()), targets.clone()
    mixed[::3] = 1 - mixed[::3]
    assert_as_alone(models, *make_panel(), plan=plan, validation=Validation(panel, mixed, accuracy))


def test_dropout_is_drawn_for_each():
    models = make_members("rope", dropout=0.5)
    models[1].load_state_dict(models[0].state_dict())
    plans = [make_plan(n_epochs=1, batch_size=20)] * 2  # one step, on the same batch
    panel, targets = make_panel()
    fit_as_one = train_ensemble(models, panel, targets, cross_entropy, plans, vectorized=True)
    assert fit_as_one[0][0]["loss"] != fit_as_one[1][0]["loss"]


def test_models_own_their_tensors_again():
    models = make_members("rope", n=3)
    fit(models, *make_panel(), vectorized=True)
    for model in models:
        assert not model.training
        assert all(p.is_leaf and p.requires_grad for p in model.parameters())
    size = len(pickle.dumps(make_model("rope")))
    assert abs(len(pickle.dumps(models[1])) - size) < 0.1 * size
    before = weights_of(models[1])
    nn.init.zeros_(models[0].head.weight)
    assert equal(weights_of(models[1]), before)


def test_no_step_waits_for_a_device():
    panel, targets = make_panel(ragged=True)
    plans = [make_plan(seed=seed) for seed in range(2)]
    models = [model.train() for model in make_members("tape+erpe")]
    states = [TrainingState(*own) for own in zip(models, plans, strict=True)]
    runs = [TrainingRun(state, cross_entropy) for state in states]
    data = _Data(panel, targets, torch.ones(20))
    loop = _VectorizedLoop(runs, data, ModelStack(models))
    index = torch.arange(16)
    totals = torch.zeros(2)
    shares = [([0, 1], index, index)]
    loop.step(shares, totals)  # AdamW creates its state in the first
    inputs = panel.take(index)  # reads lengths, which always are on the host
    data.panel = SimpleNamespace(symbolic=False, n_flags=0, take=lambda *_, **__: inputs)
    with Watch() as watch:
        loop.step(shares, totals)
    assert watch.seen == set()
    assert totals.min() > 0


class Narrow(nn.Module):
    """A block whose members, trained as one, fit into memory only so many at a time."""

    def __init__(self, block: nn.Module, most: list[int]):
        super().__init__()
        self.block, self.most = block, most

    def forward(self, x, *rest):
        member_axis = torch._C._functorch.maybe_get_bdim(x)
        if member_axis >= 0:  # under vmap
            n_members = torch._C._functorch.get_unwrapped(x).shape[member_axis]
            if n_members > self.most[0] and torch.is_grad_enabled():
                raise torch.OutOfMemoryError(f"{n_members} members do not fit")
        return self.block(x, *rest)


def test_members_that_do_not_fit_at_once_take_their_steps_in_groups():
    # Of 11 series in batches of 4 one batch has 3, and not that of all members at once.
    panel, targets = make_panel(11, ragged=True)
    options = {"weights": torch.linspace(0.5, 1.5, 11), "plan": make_plan(n_epochs=2)}
    ends = []
    for most in ([5], [2]):
        models = [model.double() for model in make_members("rope", n=5)]
        for model in models:
            model.blocks[0] = Narrow(model.blocks[0], most)
        wide = replace(panel, values=panel.values.double())
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            histories = fit(models, wide, targets, vectorized=True, **options)
        in_groups = [each for each in seen if "members at a time did not" in str(each.message)]
        assert len(in_groups) == (most == [2]), "it is said once"
        ends.append(([weights_of(model) for model in models], histories))
    (whole, rows), (groups, others) = ends
    for own, other in zip(whole, groups, strict=True):
        for name, value in own.items():
            torch.testing.assert_close(other[name], value, rtol=1e-4, atol=1e-6)
    for own, other in zip(rows, others, strict=True):
        assert [row["loss"] for row in own] == pytest.approx([row["loss"] for row in other])


def test_not_even_one_member_fits():
    models = make_members("rope")
    for model in models:
        model.blocks[0] = Narrow(model.blocks[0], [0])
    with (
        pytest.warns(UserWarning, match="of 2 members at a time did not fit"),
        pytest.raises(MemoryError, match="of 4 series of one member does not fit into the memory"),
    ):
        fit(models, *make_panel(), vectorized=True)


# Callbacks and endings


def test_callbacks_follow_their_member_and_stop_it():
    class Stops(Callback):
        def on_epoch_end(self, state):
            self.weights = weights_of(state.model)
            state.stop = True

    models, remembers, stops = make_members("rope"), Remembers(), Stops()
    histories = fit(models, *make_panel(), callbacks=[[remembers], [stops]], vectorized=True)
    assert [len(history) for history in histories] == [4, 1]
    assert equal(weights_of(models[0]), remembers.weights[-1])
    assert equal(weights_of(models[1]), stops.weights)


class Raises(Callback):
    def __init__(self, error: type[BaseException]):
        self.error = error

    def on_epoch_end(self, state):
        if state.epoch == 2:
            raise self.error


@pytest.mark.parametrize("vectorized", [True, False])
def test_ctrl_c_keeps_what_was_trained(vectorized):
    models, panel_and_targets = make_members("rope", n=3), make_panel()
    callbacks = [[], [Raises(KeyboardInterrupt)], []]
    with pytest.warns(UserWarning, match=r"interrupted after 2 of 4 epochs"):
        histories = fit(models, *panel_and_targets, callbacks=callbacks, vectorized=vectorized)
    lengths = [2, 2, 1] if vectorized else [4, 2]  # of those that were begun
    assert [len(history) for history in histories] == lengths
    assert histories[1].interrupted
    assert not any(model.training for model in models[: len(histories)])


def test_a_member_with_a_non_finite_loss_is_named_and_leaves_the_others_alone():
    class Spoils(Callback):
        def on_epoch_end(self, state):
            self.weights = weights_of(state.model)
            nn.init.constant_(state.model.head.bias, float("nan"))

    models, spoils, (panel, targets) = make_members("rope", n=3), Spoils(), make_panel()
    with pytest.raises(NonFiniteLossError, match="of member 1 became nan in epoch 2 of 4; its we"):
        fit(models, panel, targets, callbacks=[[], [spoils], []], vectorized=True)
    assert equal(weights_of(models[1]), spoils.weights)
    for model in models:
        assert forward(model, panel).isfinite().all()


def test_training_continues():
    models, histories = make_members("rope"), [History(), History()]
    panel, targets = make_panel()
    for _ in range(2):
        fit(models, panel, targets, histories=histories, vectorized=True)
    assert [[row["epoch"] for row in history] for history in histories] == [[*range(1, 9)]] * 2


@pytest.mark.parametrize("norm", [MaskedBatchNorm, PooledBatchNorm])
def test_batch_norms_are_computed_in_float32(norm):
    """On a GPU torch has no gradient of a batch norm of 16-bit features under vmap."""
    x = torch.randn(2, 6, 4, 5)[..., slice(None) if norm is MaskedBatchNorm else 0]
    with ModelStack([norm(4) for _ in range(2)]) as stack:
        outputs = stack((x.bfloat16(), None), range(2))
        expected = stack((x.bfloat16().float(), None), range(2))
    assert outputs.dtype == torch.float32
    torch.testing.assert_close(outputs, expected)
