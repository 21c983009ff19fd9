"""Runs: each validation scores what would be returned; runs that end early; several models."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch
from small_estimators import Raises, classifier, encoder, regressor
from small_problem import (
    Remembers,
    Stops,
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

from tsformer.training import (
    Callback,
    History,
    NonFiniteLossError,
    Validation,
    forward,
    train_ensemble,
    training_run,
)
from tsformer.training.plan import Pretrained


def held_out() -> Validation:
    panel, targets = make_panel(seed=1)
    return Validation(panel, targets, accuracy, torch.linspace(0.5, 1.5, 20))


def validated(row: dict[str, float]) -> dict[str, float]:
    return {name: row[name] for name in ("val_loss", "val_score")}


@pytest.mark.parametrize(
    ("config", "most"),
    [
        ({"head_norm": "batch"}, 4096),
        ({"head_norm": "batch"}, 8),
        ({"head_norm": "batch", "stem": "linear"}, 4096),
        ({"head_norm": None, "dropout": 0.5}, 4096),
    ],
)
def test_validation_each_epoch_scores_returned_model(config, most, monkeypatch):
    """Averages are recomputed over all series, or over at most 8."""
    monkeypatch.setattr(training_run, "SERIES_FOR_AVERAGES", most)
    data, judged, plan = make_panel(ragged=True), held_out(), make_plan()
    options = {"weights": torch.linspace(0.2, 1.8, 20), "validation": judged}
    rows = fit(make_model(**config), *data, plan, **options)
    assert len({row["val_loss"] for row in rows}) == len(rows)
    for epoch, row in enumerate(rows, start=1):
        model = make_model(**config)
        fit(model, *data, plan, callbacks=[Stops(epoch)], **options)
        assert judged.evaluate(model, cross_entropy, plan) == validated(row)


@pytest.mark.parametrize("estimator", [classifier, regressor, encoder, "contrastive"])
def test_val_score_of_each_epoch_is_the_score_of_the_model_returned(estimator):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(24, 2, 30)), np.arange(24) // 2 % 2
    X += y[:, None, None] * np.linspace(-1, 1, 30)
    options = {"max_epochs": 4, "early_stopping": False, "batch_size": 4, "head_norm": "batch"}
    if estimator == "contrastive":
        estimator, options = encoder, options | {"objective": "contrastive"}
    ends = {"X_val": X[::2]} if estimator is encoder else {"X_val": X[::2], "y_val": y[::2]}
    rows = estimator(**options).fit(X[1::2], y[1::2], **ends).history_
    for epoch, row in enumerate(rows, start=1):
        fitted = estimator(**options, callbacks=[Stops(epoch)]).fit(X[1::2], y[1::2], **ends)
        assert fitted.score(X[::2], y[::2]) == pytest.approx(row["val_score"], rel=1e-6)


def test_validation_changes_nothing_that_is_trained():
    """Dropout, shuffling, and batches of one series, which are normalised by the averages."""
    ends = []
    for judged in (None, held_out()):
        model, addresses = make_model(head_norm="batch", dropout=0.5), []

        class Looks(Callback):
            def on_epoch_end(self, state, addresses=addresses):
                addresses.append([x.data_ptr() for x in state.model.buffers()])

        plan = make_plan(batch_size=2)
        rows = fit(model, *make_panel(7), plan, validation=judged, callbacks=[Looks()])
        assert addresses == addresses[:1] * 4, "captured steps need buffers to stay in their place"
        ends.append((model.state_dict(), [row["loss"] for row in rows]))
    assert equal(ends[0][0], ends[1][0])
    assert ends[0][1] == ends[1][1]


def test_validation_frozen_averages_stay():
    model = make_model(head_norm="batch")
    fit(model, *make_panel(seed=1), make_plan(n_epochs=1))
    names = frozenset(name for name, _ in model.named_parameters() if "stem" in name)
    before = {name: x.clone() for name, x in model.stem.named_buffers()}
    plan, judged = make_plan(pretrained=Pretrained(names, frozen=True)), held_out()
    rows = fit(model, *make_panel(), plan, validation=judged)
    assert equal(before, dict(model.stem.named_buffers()))
    assert judged.evaluate(model, cross_entropy, plan) == validated(rows[-1])


def test_early_stopping_returns_to_the_best_epoch():
    model, remembers, judged = make_model(head_norm="batch"), Remembers(), wrong_labels()
    plan = make_plan(n_epochs=20, n_iter_no_change=3)
    history = fit(model, *make_panel(), plan, validation=judged, callbacks=[remembers])
    best = int(np.argmin([row["val_loss"] for row in history])) + 1
    assert history.best_epoch == best
    assert len(history) == best + 3 < 20
    assert not history.interrupted
    assert equal(weights_of(model), remembers.weights[best - 1])
    assert not equal(weights_of(model), remembers.weights[-1])
    assert not model.training
    assert judged.evaluate(model, cross_entropy, plan) == validated(history[best - 1])
    judged = replace(judged, weights=torch.full((20,), torch.nan))
    rows = fit(model, *make_panel(), plan, validation=judged, history=history)
    assert len(rows) == best + 3 + 3, "patience starts after the epochs of an earlier run"


class Spoils(Callback):
    """Makes the loss after an epoch NaN."""

    def __init__(self, epoch: int):
        self.epoch = epoch

    def on_epoch_end(self, state):
        if state.epoch == self.epoch:
            torch.nn.init.constant_(state.model.head.bias, torch.nan)


@pytest.mark.parametrize(
    ("callback", "catches"),
    [
        (Raises(KeyboardInterrupt(), 5), pytest.warns(UserWarning)),
        (Raises(OSError("disk full"), 5), pytest.raises(OSError)),
        (Spoils(5), pytest.raises(NonFiniteLossError)),
    ],
    ids=["Ctrl-C", "error", "nan"],
)
def test_a_training_that_ends_early_returns_to_the_best_epoch(callback, catches):
    model, judged, history = make_model(), wrong_labels(), History()
    plan = make_plan(n_epochs=20, n_iter_no_change=10)
    options = {"validation": judged, "callbacks": [callback], "history": history}
    with catches:
        fit(model, *make_panel(), plan, **options)
    assert len(history) == 5
    assert history.best_epoch < 5
    row = history[history.best_epoch - 1]
    assert judged.evaluate(model, cross_entropy, plan) == validated(row)


def test_nan_loss_returns_good_weights():
    model, spoilt, history, data = make_model(), make_model(), History(), make_panel()
    fit(model, *data, make_plan(), callbacks=[Stops(2)])
    options = {"callbacks": [Spoils(2)], "history": history}
    with pytest.raises(NonFiniteLossError):
        fit(spoilt, *data, make_plan(), **options)
    assert torch.equal(forward(spoilt, data[0]), forward(model, data[0]))
    assert len(history) == 2
    assert History().to_frame().empty  # that of a loss that was never finite
    assert not spoilt.training


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
def test_ctrl_c_in_step_keeps_ended_epochs(at_call, epochs):
    model, (panel, targets) = InterruptedModel(at_call), make_panel()
    start = weights_of(model)
    with pytest.warns(UserWarning):
        history = fit(model, panel, targets, make_plan())
    assert history.interrupted
    assert len(history) == epochs
    assert not equal(weights_of(model), start)
    assert not model.training


def test_ctrl_c_in_the_first_epoch_keeps_no_member_without_training():
    with pytest.raises(KeyboardInterrupt):
        fit_members([InterruptedModel(1)], *make_panel())
    with pytest.warns(UserWarning):
        (history,) = fit_members([make_model(), InterruptedModel(1)], *make_panel())
    assert history.interrupted


def fit_members(models, panel, targets, **options) -> list[History]:
    plans = [replace(make_plan(), seed=i) for i in range(len(models))]
    return train_ensemble(models, panel, targets, cross_entropy, plans, **options)


@pytest.mark.slow  # every process imports torch
def test_processes_train_like_turns():
    panel, targets = make_panel()
    models = [make_model(encoding) for encoding in ("lspe", "tape", "rope")]
    alone = copy.deepcopy(models)
    in_turn = fit_members(alone, panel, targets, validation=wrong_labels())
    histories = fit_members(models, panel, targets, validation=wrong_labels(), n_jobs=2)
    for model, unshared, history, expected in zip(models, alone, histories, in_turn, strict=True):
        torch.testing.assert_close(forward(model, panel), forward(unshared, panel))
        assert [row["loss"] for row in history] == pytest.approx([r["loss"] for r in expected])
        assert history.best_epoch == expected.best_epoch
        assert not model.training
    nn.init.constant_(models[1].head.bias, float("nan"))
    with pytest.raises(NonFiniteLossError):
        fit_members(models, panel, targets, n_jobs=2)


def test_processes_cannot_call_callbacks():
    models = [make_model(), make_model()]
    with pytest.raises(ValueError):
        fit_members(models, *make_panel(), callbacks=[[Callback()], []], n_jobs=2)
