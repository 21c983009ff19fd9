"""What `fit` does: weights, earlier fits, validation, members, budgets, augmentation, observers."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from small_estimators import X, Y, classifier, encoder, ensemble, regressor

from tsformer import load
from tsformer.augmentation import Compose, CutMix, Jitter, Warp
from tsformer.estimators import settings
from tsformer.estimators.series_estimator import Fit, TrainingData, add_observer, remove_observer

make = partial(classifier, d_model=16, max_epochs=3)


def test_weights_that_cannot_be():
    y = np.array(["1", "2"])[Y]
    with pytest.raises(ValueError, match="zero"):
        make(class_weight={"1": 0, "2": 5}).fit(X, y, sample_weight=y == "1")
    for class_weight in ({1: 1, 2: 5}, *({"1": 1, "2": w} for w in (-1, np.nan, None, "2"))):
        with pytest.raises(ValueError):
            make(class_weight=class_weight).fit(X, y)


def test_warm_start_goes_on_with_all_members():
    clf = make(n_estimators=2, warm_start=True, learning_rate=5e-3).fit(X, Y)
    models, early = clf.models_, clf.histories_
    clf.set_params(max_epochs=2).fit(X, Y)
    assert all(model is before for model, before in zip(clf.models_, models, strict=True))
    for history, before in zip(clf.histories_, early, strict=True):
        assert [row["epoch"] for row in history] == [1, 2, 3, 4, 5]
        assert (history[:3], len(before)) == (before, 3)
        assert history[3]["loss"] < before[0]["loss"]
    with pytest.raises(ValueError):
        clf.set_params(n_estimators=3).fit(X, Y)


def test_warm_start_refuses_what_does_not_fit():
    y = np.arange(16) % 3
    clf = make(warm_start=True).fit(X, y)
    before, fitted = clf.predict_proba(X), clf.get_params()
    with pytest.raises(ValueError):
        clf.fit(X, np.where(y == 2, 7, y))
    for name, value in {"n_layers": 2, "scaling": "series", "views": "difference"}.items():
        with pytest.raises(ValueError):
            clf.set_params(**{name: value}).fit(X, y)
        clf.set_params(**fitted)
    np.testing.assert_array_equal(clf.predict_proba(X), before)
    clf.set_params(scaling="auto")  # as it was chosen
    clf.fit(X[y < 2, :, :16], y[y < 2])  # a part of the classes, and another length
    assert len(clf.classes_) == 3


def test_the_validation_loss_is_weighted_like_the_training_loss():
    weight = {0: 1000.0, 1: 0.001}
    # The averages of a batch norm are computed after the last validation.
    options = {"early_stopping": False, "stem": "linear", "label_smoothing": 0, "head_norm": None}
    clf = make(class_weight=weight, **options).fit(X, Y, X_val=X, y_val=Y)
    log_proba = np.log(clf.predict_proba(X))[np.arange(16), Y]
    expected = -np.average(log_proba, weights=[weight[label] for label in Y])
    assert clf.history_[-1]["val_loss"] == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("make", [classifier, regressor])
def test_each_member_is_the_model_of_its_seed_and_predictions_are_averaged(make):
    estimator = make(n_estimators=3).fit(X, Y)
    method = "predict_proba" if hasattr(estimator, "predict_proba") else "predict"
    by_member = np.stack([getattr(member, method)(X) for member in estimator.estimators_])
    if method == "predict_proba":
        np.testing.assert_array_equal(estimator.predict_proba_members(X), by_member)
    np.testing.assert_allclose(getattr(estimator, method)(X), by_member.mean(axis=0))
    np.testing.assert_array_equal(by_member[0], getattr(make().fit(X, Y), method)(X))
    assert by_member.std(axis=0).min() > 0
    for i, (member, predicted) in enumerate(zip(estimator.estimators_, by_member, strict=True)):
        np.testing.assert_array_equal(getattr(clone(member).fit(X, Y), method)(X), predicted)
        assert member.n_estimators == 1
        assert member.model_ is estimator.models_[i]
        assert member.history_ is estimator.histories_[i]
    parts = [member.transform(X) for member in estimator.estimators_]
    np.testing.assert_array_equal(estimator.transform(X), np.concatenate(parts, axis=1))
    assert len(estimator.get_feature_names_out()) == 24


def test_the_history_is_the_mean():
    clf = make(n_estimators=2, max_epochs=30, n_iter_no_change=2, learning_rate=0.05)
    clf.fit(X, Y, X_val=X[::3], y_val=1 - Y[::3])
    assert clf.n_iter_ == len(clf.history_) == max(map(len, clf.histories_)) < 30
    first, second = (history[0] for history in clf.histories_)
    mean = (first["val_loss"] + second["val_loss"]) / 2
    assert clf.history_[0]["val_loss"] == pytest.approx(mean)
    assert clf.history_[0]["seconds"] == pytest.approx(first["seconds"] + second["seconds"])


def resolved(n: int, n_tokens: int = 4, *, make=classifier, **options) -> settings.Settings:
    """Return the settings of `n` series, none of which is read."""
    auto = dict.fromkeys(("max_epochs", "batch_size", "learning_rate", "n_iter_no_change"), "auto")
    data, target = TrainingData(range(n), None), SimpleNamespace(pretext=make is encoder)
    probe = SimpleNamespace(max_tokens=n_tokens, config=SimpleNamespace(d_model=8))
    params = make(**auto | {"stem": "linear", "early_stopping": True} | options)
    return settings.resolve(params, data, target, probe, validated=True)


@pytest.mark.parametrize(
    ("options", "planned"),
    [
        ({"batch_size": 16}, (250, 16, 0.002)),  # at least 1000 steps
        ({"n": 60, "batch_size": 2}, (60, 2, 0.002)),  # 60 epochs of 30 steps
        ({"n": 60, "batch_size": 1}, (42, 1, 0.002)),  # at most 2500 steps, in whole epochs
        ({"n": 180, "batch_size": 1}, (20, 1, 0.002)),  # but at least 20 epochs
        *(({"n": 999}, (40, 16, 0.002)), ({"n": 1000}, (80, 64, 0.004))),
        ({"n": 5000, "batch_size": 16}, (16, 16, 0.004)),  # 80,000 series, whatever the batch
        ({"n": 100_000}, (4, 64, 0.004)),
        ({"n": 5000, "make": encoder}, (32, 64, 0.002)),  # 160,000 series
    ],
)
def test_auto_epochs_give_a_budget_of_steps(options, planned):
    used = resolved(**{"n": 64} | options)
    assert (used.max_epochs, used.batch_size, used.learning_rate) == planned


ON_GPU = {"device": "cuda", "precision": "float32"}


@pytest.mark.parametrize(
    ("setting", "options", "value"),
    [
        *(("batch_size", {"n": 1, "n_tokens": n}, size) for n, size in ((2048, 16), (2049, 15))),
        *(("batch_size", {"n": 1000, "n_tokens": n}, 2**15 // n) for n in (512, 1024)),
        ("batch_size", {"n": 1, "n_tokens": 10**6}, 1),
        *(("n_iter_no_change", {"max_epochs": n}, value) for n, value in ((500, 150), (12, 20))),
        ("precision", {"n_tokens": 2**11, "device": "cuda"}, "bfloat16"),
        ("precision", {"n_tokens": 2**11 - 1, "device": "cuda"}, "float32"),
        ("precision", {"n_tokens": 2**11}, "float32"),
        ("precision", {"precision": "bfloat16"}, "bfloat16"),
        ("compile", ON_GPU, "cuda-graphs"),
        ("compile", ON_GPU | {"freeze": "backbone"}, False),
        ("compile", ON_GPU | {"freeze": "backbone", "compile": True}, True),
        ("compile", {"device": "cpu"}, False),
    ],
)
def test_auto_settings(setting, options, value, monkeypatch):
    monkeypatch.setattr(settings, "resolve_device", torch.device)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: True)
    assert getattr(resolved(**{"n": 64, "device": "cpu"} | options), setting) == value


def test_a_model_blind_to_direction_warns():
    with pytest.warns(UserWarning):
        clf = make("alibi", stem="linear").fit(X, Y)
    np.testing.assert_allclose(clf.predict_proba(X[..., ::-1]), clf.predict_proba(X), atol=1e-5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for encoding, stem in (("alibi", "conv"), ("alibi", "patch"), ("none", "linear")):
            make(encoding, stem=stem).fit(X, Y)


def proba(**options) -> np.ndarray:
    return classifier(**options).fit(X, Y).predict_proba(X)


def test_the_default_augments_behind_the_conv_stem_only():
    np.testing.assert_array_equal(proba(), proba(augmentation="warp+cutmix"))
    linear = {"stem": "linear"}
    np.testing.assert_array_equal(proba(**linear), proba(augmentation=None, **linear))
    patient = proba(augmentation_params={"warp": {"p": 1.0}})
    np.testing.assert_array_equal(patient, proba(augmentation=Compose([Warp(p=1.0), CutMix()])))
    with pytest.raises(ValueError):
        classifier(stem="embedding", augmentation="jitter").fit(np.ones((16, 1, 20)), Y)


def test_an_augmentation_is_saved_by_name_and_options(tmp_path):
    classifier(augmentation=Compose([Warp(p=0.1), Jitter(sigma=0.3)])).fit(X, Y).save(tmp_path)
    again = load(tmp_path)
    assert again.augmentation == "warp+jitter"
    jitter = {"p": Jitter().p, "sigma": 0.3}
    assert again.augmentation_params["jitter"] == jitter


def test_a_first_step_without_values_is_a_common_origin():
    """Times count from the first step given, observed or not."""
    begun = np.concatenate([np.full((16, 2, 1), np.nan), X], axis=2)
    late, early = (np.concatenate([[0.0], start + np.arange(24)]) for start in (50, 1))
    clf = make(max_epochs=1).fit(begun, Y, times=late)
    assert not np.allclose(clf.predict_proba(begun, late), clf.predict_proba(begun, early))


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    """Each observed fit, and the end of its block."""
    events: list[Any] = []

    @contextmanager
    def observer(fit: Fit) -> Iterator[None]:
        events.append(fit)
        yield
        events.append("done")

    for _ in range(2):  # the second time changes nothing
        add_observer(observer)
    yield events
    remove_observer(observer)


def test_each_fit_is_seen_once_and_none_inside_it(seen: list[Any]) -> None:
    """The parts of an ensemble and the copies that calibrate are inside."""
    fitted = classifier().fit(X, Y, X_val=X[:4], y_val=Y[:4])
    fit, end = seen
    assert fit.estimator is fitted
    assert fit.X is X
    assert fit.data["y_val"].tolist() == Y[:4].tolist()
    assert (fit.data["times"], fit.interrupted, end) == (None, False, "done")
    fitted.calibrate(X, Y, cv=2)
    both = ensemble().fit(X, Y)
    assert [seen[2].estimator, *seen[3:]] == [both, "done"]


def test_validation_data_have_times():
    times = np.arange(24) ** 1.5
    timed = make().fit(X, Y, times=times, X_val=X[::3], y_val=Y[::3], times_val=times)
    score = timed.score(X[::3], Y[::3], times=times)
    assert timed.history_[-1]["val_score"] == pytest.approx(score)
    with pytest.raises(ValueError):
        timed.predict(X, pd.date_range("2024", periods=24))
