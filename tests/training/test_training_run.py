"""How training ends early: non-finite losses, Ctrl-C, early stopping."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
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

from tsformer._torch_state import RandomStream
from tsformer.training import Callback, History, NonFiniteLossError, forward
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
    with pytest.raises(
        NonFiniteLossError, match=r"loss became nan in epoch 3 of 4; the weights of epoch 2 ar"
    ):
        fit(model, panel, targets, make_plan(), callbacks=[spoils], history=history)
    assert equal(weights_of(model), spoils.weights)
    assert len(history) == 2
    assert not model.training


@pytest.mark.parametrize(("learning_rate", "batch_size"), [(1e5, 4), (1e10, 20), (1e30, 4)])
def test_weights_kept_after_a_non_finite_loss_predict(learning_rate, batch_size):
    """The last step of an epoch can spoil the weights after all its losses were computed."""
    model, (panel, targets) = make_model(), make_panel()
    with pytest.raises(NonFiniteLossError, match=r"A lower learning_rate \(it was 1.*\) usually"):
        fit(
            model,
            panel,
            targets,
            make_plan(learning_rate=learning_rate, batch_size=batch_size, n_epochs=8),
        )
    assert forward(model, panel).isfinite().all()


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


@pytest.mark.parametrize(("at_call", "epochs"), [(1, 0), (8, 1), (12, 2)])
def test_ctrl_c_in_a_step_keeps_what_was_trained(at_call, epochs):
    model, (panel, targets) = InterruptedModel(at_call), make_panel()
    start = weights_of(model)
    with pytest.warns(
        UserWarning, match=f"interrupted after {epochs} of 4 epochs; the weights so far"
    ):
        history = fit(model, panel, targets, make_plan())
    assert history.interrupted
    assert len(history) == epochs
    assert equal(weights_of(model), start) == (at_call == 1)
    assert not model.training


def test_early_stopping_returns_to_the_best_epoch():
    model, remembers = make_model(), Remembers()
    history = fit(
        model,
        *make_panel(),
        make_plan(n_epochs=20, n_iter_no_change=3),
        validation=wrong_labels(),
        callbacks=[remembers],
    )
    losses = [row["val_loss"] for row in history]
    best = int(np.argmin(losses)) + 1
    assert history.best_epoch == best
    assert len(history) == best + 3 < 20
    assert equal(weights_of(model), remembers.weights[best - 1])
    assert not equal(weights_of(model), remembers.weights[-1])
    assert not model.training
    outputs = forward(model, wrong_labels().panel)
    got = cross_entropy(outputs, wrong_labels().targets).mean().item()
    assert got == pytest.approx(min(losses))
    assert history[best - 1]["val_score"] == accuracy(outputs, wrong_labels().targets)


def test_early_stopping_returns_to_the_best_epoch_after_ctrl_c_and_errors():
    for error, catches in (
        (KeyboardInterrupt(), pytest.warns(UserWarning, match="interrupted after 5")),
        (OSError("disk full"), pytest.raises(OSError, match="disk full")),
    ):
        model, remembers = make_model(), Remembers()

        class Fails(Callback):
            def on_epoch_end(self, state, error=error):
                if state.epoch == 5:
                    raise error

        with catches:
            fit(
                model,
                *make_panel(),
                make_plan(n_epochs=20, n_iter_no_change=10),
                validation=wrong_labels(),
                callbacks=[remembers, Fails()],
                history=(history := History()),
            )
        assert len(history) == 5
        assert history.best_epoch < 5
        assert equal(weights_of(model), remembers.weights[history.best_epoch - 1])


def stopped_at(stopping: EarlyStopping, losses: list[float]) -> int | None:
    """Return the epoch after which it stops, counted on from `start`."""
    for epoch, loss in enumerate(losses, start=stopping.start + 1):
        stopping.update(epoch, loss, {"weight": torch.tensor(float(epoch))})
        if stopping.should_stop(epoch):
            return epoch
    return None


@pytest.mark.parametrize(
    ("losses", "patience", "best", "end"),
    [
        ([3.0, 2.0, 1.0, 0.5], 1, 4, None),
        ([3.0, 1.0, 2.0, 2.0, 2.0], 2, 2, 4),
        ([3.0, 1.0, 2.0, 0.5, 2.0, 2.0], 2, 4, 6),
        ([1.0, 1.0, 1.0], 2, 1, 3),  # an equal loss is no improvement
        ([1.0, 2.0], 2, 1, None),
    ],
)
def test_best_epoch_and_end(losses, patience, best, end):
    stopping = EarlyStopping(patience)
    assert stopped_at(stopping, losses) == end
    assert stopping.best_epoch == best
    assert stopping.best_loss == min(losses)
    assert stopping.best_weights == {"weight": torch.tensor(float(best))}


def test_epochs_of_an_earlier_run_do_not_count():
    stopping = EarlyStopping(2, start=10)
    assert stopped_at(stopping, [1.0, 2.0, 3.0]) == 13
    assert stopping.best_epoch == 11


def test_nan_is_never_best_and_is_waited_for_from_the_start():
    stopping = EarlyStopping(2, start=5)
    assert stopped_at(stopping, [math.nan] * 5) == 7
    assert stopping.best_epoch is None
    assert stopping.best_weights is None
    stopping = EarlyStopping(2)
    assert stopped_at(stopping, [math.nan, 1.0, math.nan]) is None
    assert stopping.best_epoch == 2


def test_without_patience_it_does_nothing():
    stopping = EarlyStopping(None)
    assert stopped_at(stopping, [1.0] + [2.0] * 50) is None
    assert stopping == EarlyStopping(None)
