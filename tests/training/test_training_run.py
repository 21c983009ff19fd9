"""How training ends early: losses, Ctrl-C, early stopping; several models, and in processes."""

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_estimators import Raises
from small_problem import (
    CPU,
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
from torch import nn

from tsformer import TSTransformer
from tsformer._random import RandomStream
from tsformer.training import Callback, History, NonFiniteLossError, forward, train_ensemble
from tsformer.training.run import EarlyStopping, LoopState, TrainingRun, TrainingState


class SpoilsTheLoss(Callback):
    def __init__(self, epoch: int):
        self.epoch = epoch

    def on_epoch_end(self, state):
        if state.epoch == self.epoch:
            self.weights = weights_of(state.model)
            nn.init.constant_(state.model.head.bias, float("nan"))


def test_nan_loss_raises_and_keeps_the_last_good_weights():
    model, (panel, targets), spoils = make_model(), make_panel(), SpoilsTheLoss(2)
    history = History()
    with pytest.raises(NonFiniteLossError, match=r"nan in epoch 3 of 4; the weights of epoch 2"):
        fit(model, panel, targets, make_plan(), callbacks=[spoils], history=history)
    assert equal(weights_of(model), spoils.weights)
    assert len(history) == 2
    assert not model.training


def test_the_weights_of_the_start_are_kept_with_those_of_two_epochs():
    run = TrainingRun(TrainingState(make_model(), make_plan(), History()), cross_entropy)
    at = LoopState(run, torch.Generator())
    for _ in range(3):
        at.end_epoch()
        run.state.history.append({})
    assert [epoch for epoch, _ in at.kept] == [0, 2, 3]


def test_a_head_that_is_not_finite_is_not_kept():
    model, (panel, _) = make_model(), make_panel()
    good = copy.deepcopy(model.state_dict())
    spoilt = good | {"head.bias": torch.full((2,), torch.nan)}
    run = TrainingRun(TrainingState(model, make_plan(), History()), cross_entropy)
    run.random = RandomStream(0, CPU)
    with pytest.raises(NonFiniteLossError, match="weights of epoch 0 are kept"):
        run.raise_non_finite(torch.nan, [(0, good), (1, spoilt)], panel)
    assert equal(weights_of(model), good)


class InterruptedModel(nn.Module):
    """Simulates Ctrl-C in the middle of a step."""

    def __init__(self, at_call: int):
        super().__init__()
        self.model, self.calls, self.at_call = make_model(), 0, at_call

    def forward(self, x, mask=None, times=None):
        self.calls += 1
        if self.calls == self.at_call:
            raise KeyboardInterrupt
        return self.model(x, mask)


@pytest.mark.parametrize(("at_call", "epochs"), [(8, 1), (12, 2)])
def test_ctrl_c_in_a_step_keeps_what_was_trained(at_call, epochs):
    model, (panel, targets) = InterruptedModel(at_call), make_panel()
    start = weights_of(model)
    with pytest.warns(UserWarning, match=f"after {epochs} of 4 epochs; the weights so far"):
        history = fit(model, panel, targets, make_plan())
    assert history.interrupted
    assert len(history) == epochs
    assert not equal(weights_of(model), start)
    assert not model.training


@pytest.mark.parametrize("earlier", [0, 1])
def test_ctrl_c_in_the_first_epoch_keeps_no_member_without_training(earlier):
    models = [*make_members(earlier), InterruptedModel(1)]
    raised = pytest.warns(UserWarning, match="after 1 of 2 members; the weights so far")
    with raised if earlier else pytest.raises(KeyboardInterrupt):
        (history,) = fit_members(models, *make_panel())
        assert history.interrupted


def test_early_stopping_returns_to_the_best_epoch():
    model, remembers, judged = make_model(), Remembers(), wrong_labels()
    plan = make_plan(n_epochs=20, n_iter_no_change=3)
    history = fit(model, *make_panel(), plan, validation=judged, callbacks=[remembers])
    losses = [row["val_loss"] for row in history]
    best = int(np.argmin(losses)) + 1
    assert history.best_epoch == best
    assert len(history) == best + 3 < 20
    assert equal(weights_of(model), remembers.weights[best - 1])
    assert not equal(weights_of(model), remembers.weights[-1])
    assert not model.training
    outputs = forward(model, judged.panel)
    got = cross_entropy(outputs, judged.targets).mean().item()
    assert got == pytest.approx(min(losses))
    assert history[best - 1]["val_score"] == accuracy(outputs, judged.targets)


def test_early_stopping_returns_to_the_best_epoch_after_ctrl_c_and_errors():
    plan = make_plan(n_epochs=20, n_iter_no_change=10)
    for error, catches in (
        (KeyboardInterrupt(), pytest.warns(UserWarning, match="interrupted after 5")),
        (OSError("disk full"), pytest.raises(OSError, match="disk full")),
    ):
        model, remembers, history = make_model(), Remembers(), History()
        options = {"validation": wrong_labels(), "callbacks": [remembers, Raises(error, 5)]}
        with catches:
            fit(model, *make_panel(), plan, history=history, **options)
        assert len(history) == 5
        assert history.best_epoch < 5
        assert equal(weights_of(model), remembers.weights[history.best_epoch - 1])


@pytest.mark.parametrize(
    ("losses", "patience", "start", "best", "end"),
    [
        ([3.0, 2.0, 1.0, 0.5], 1, 0, 4, None),
        ([3.0, 1.0, 2.0, 2.0, 2.0], 2, 0, 2, 4),
        ([3.0, 1.0, 2.0, 0.5, 2.0, 2.0], 2, 0, 4, 6),
        ([1.0, 1.0, 1.0], 2, 0, 1, 3),  # an equal loss is no improvement
        ([1.0, 2.0], 2, 0, 1, None),
        ([1.0, 2.0, 3.0], 2, 10, 11, 13),  # epochs of an earlier run do not count
        ([math.nan] * 5, 2, 5, None, 7),  # nan is never best, and is waited for from the start
        ([math.nan, 1.0, math.nan], 2, 0, 2, None),
        ([1.0] + [2.0] * 50, None, 0, None, None),  # without patience it does nothing
    ],
)
def test_best_epoch_and_end(losses, patience, start, best, end):
    stopping, stopped = EarlyStopping(patience, start=start), None
    for epoch, loss in enumerate(losses, start=start + 1):
        stopping.update(epoch, loss, {"weight": torch.tensor(float(epoch))})
        if stopping.should_stop(epoch):
            stopped = epoch
            break
    assert stopped == end
    assert stopping.best_epoch == best
    if best is None:
        assert stopping.best_weights is None
    else:
        assert stopping.best_loss == losses[best - start - 1]
        assert stopping.best_weights == {"weight": torch.tensor(float(best))}


def test_patience_starts_after_the_epochs_of_an_earlier_run():
    state = TrainingState(make_model(), make_plan(n_iter_no_change=3), History([{}, {}]))
    run = TrainingRun(state, cross_entropy, wrong_labels())
    assert run.stopping == EarlyStopping(3, start=2)


# --- several models trained one after another, and in processes -----------------------------------


def make_members(n: int = 2, **config) -> list[TSTransformer]:
    """Return models that differ in their weights."""
    models = [make_model(**config) for _ in range(n)]
    for seed, model in enumerate(models):
        generator = torch.Generator().manual_seed(seed)
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn(parameter.shape, generator=generator)
    return models


def fit_members(models, panel, targets, **options) -> list[History]:
    plans = [replace(make_plan(), seed=i) for i in range(len(models))]
    return train_ensemble(models, panel, targets, cross_entropy, plans, **options)


def test_lists_of_different_lengths_are_refused():
    panel, targets = make_panel()
    with pytest.raises(ValueError, match=r"got \{'models': 2, 'plans': 1, 'callbacks': 2"):
        train_ensemble(make_members(), panel, targets, cross_entropy, [make_plan()])


# Processes


@pytest.mark.slow  # every process imports torch
def test_processes_train_as_one_after_another():
    panel, targets = make_panel()
    models = make_members(3)
    alone = copy.deepcopy(models)
    in_turn = fit_members(alone, panel, targets, validation=wrong_labels())
    histories = fit_members(models, panel, targets, validation=wrong_labels(), n_jobs=2)
    for model, other, history, expected in zip(models, alone, histories, in_turn, strict=True):
        torch.testing.assert_close(forward(model, panel), forward(other, panel))
        assert [row["loss"] for row in history] == pytest.approx([r["loss"] for r in expected])
        assert history.best_epoch == expected.best_epoch
        assert not model.training
    nn.init.constant_(models[1].head.bias, float("nan"))
    with pytest.raises(NonFiniteLossError, match="loss became nan in epoch 1 of 4"):
        fit_members(models, panel, targets, n_jobs=2)


def test_processes_cannot_call_callbacks():
    with pytest.raises(ValueError, match=r"n_jobs=2 trains in other processes"):
        fit_members(make_members(), *make_panel(), callbacks=[[Callback()], []], n_jobs=2)
