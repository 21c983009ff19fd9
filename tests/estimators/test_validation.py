"""Validation data: given to `fit`, or held out by `early_stopping`."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tsformer.estimators import base
from tsformer.training import Validation


def same_weights(a, b) -> bool:
    ours, theirs = a.model_.state_dict(), b.model_.state_dict()
    return all(torch.equal(value, theirs[key]) for key, value in ours.items())


def test_given_validation_data_are_scored_and_not_trained_on(make, vowels):
    X, y = vowels
    X_val, y_val = [3 * x for x in X[::4]], y[::4]
    # Batch norms would get other averages after the last validation.
    plain = {"stem": "linear", "head_norm": None}
    judged = make(early_stopping=False, **plain).fit(X, y, X_val=X_val, y_val=y_val)
    assert same_weights(judged, make(**plain).fit(X, y))
    last = judged.history_[-1]
    assert last["val_score"] == pytest.approx(judged.score(X_val, y_val))
    assert list(judged.history_.to_frame().columns)[-2:] == ["val_loss", "val_score"]
    assert judged.history_.best_epoch is None


def test_early_stopping_holds_out_a_part(make, italy):
    X, y = italy
    clf = make(early_stopping=True, validation_fraction=0.3).fit(X, y)
    assert "val_loss" in clf.history_[0]
    assert clf.history_.best_epoch is not None
    assert not same_weights(clf, make().fit(X, y))
    scores = 20 * np.array([row["val_score"] for row in clf.history_])  # 0.3 * 67 series
    np.testing.assert_allclose(scores, scores.round(), atol=1e-4)


def test_series_that_are_held_out_keep_their_weights(make, italy, monkeypatch):
    made = []
    monkeypatch.setattr(base, "Validation", lambda *args: made.append(args) or Validation(*args))
    X, y = italy
    weight = 1.0 + np.arange(len(y))
    clf = make(class_weight={"1": 100.0, "2": 1.0}, early_stopping=True, scaling=None)
    clf.fit(X, y, sample_weight=weight)
    ((panel, targets, _, weights),) = made
    held_out = panel.values[..., 0].numpy()
    places = [int(np.abs(X[:, 0] - x).sum(axis=1).argmin()) for x in held_out]
    np.testing.assert_allclose(held_out, X[places, 0], rtol=1e-6)
    expected = weight[places] * np.where(targets == 0, 100.0, 1.0)
    np.testing.assert_allclose(weights, expected / expected.mean(), rtol=1e-5)


def test_the_validation_loss_is_weighted_like_the_training_loss(make, italy):
    X, y = italy
    weight = {"1": 1000.0, "2": 0.001}
    given = make(class_weight=weight, early_stopping=False, stem="linear", label_smoothing=0)
    given.set_params(head_norm=None)  # whose averages are computed after the last validation
    given.fit(X, y, X_val=X, y_val=y)
    log_proba = np.log(given.predict_proba(X))[np.arange(67), (y == "2").astype(int)]
    expected = -np.average(log_proba, weights=[weight[label] for label in y])
    assert given.history_[-1]["val_loss"] == pytest.approx(expected, rel=1e-3)
