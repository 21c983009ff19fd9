"""Series with gaps: filled, flagged, cut where they begin and end, refused where all is gap."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch


def with_gaps(X: np.ndarray, part: float, seed: int = 0) -> np.ndarray:
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < part] = np.nan
    return X


@pytest.mark.slow
def test_gaps_are_learned_with(make):
    """How many values are missing is the class; filled along lines, the lines tell nothing."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    lines = rng.normal(size=(120, 1)) + rng.normal(size=(120, 1)) * np.linspace(-1, 1, 24)
    gaps = lines.copy()
    for x, label in zip(gaps, y, strict=True):
        x[1 + rng.choice(22, 10 if label else 4, replace=False)] = np.nan
    clf = make(max_epochs=20, learning_rate=1e-2).fit(gaps[::3], y[::3])
    assert clf.score(gaps, y) > 0.9


def test_each_channel_with_gaps_in_training_gets_one_that_says_where(make, motions):
    X, y = motions
    X = X.copy()
    X[3, 4, 10] = np.nan
    clf = make().fit(X, y)
    assert clf.n_channels_ == 6
    assert clf.model_.config.n_channels == 13, "values, differences and one flag"
    assert clf.preprocessor_.flagged.tolist() == [False] * 4 + [True, False]
    assert make().fit(np.nan_to_num(X), y).model_.config.n_channels == 12


def test_gaps_that_training_never_had_are_warned_of(make, motions):
    X, y = motions
    clf = make().fit(X, y)
    gaps = X.copy()
    gaps[0, 2, 5] = np.nan
    with pytest.warns(UserWarning, match=r"missing values in channels \[2\], where the training"):
        proba = clf.predict_proba(gaps)
    assert np.isfinite(proba).all()
    np.testing.assert_array_equal(proba[1:], clf.predict_proba(X)[1:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().fit(gaps, y).predict(gaps)


@pytest.mark.parametrize("lacks", [slice(0, 1), slice(None)], ids=["one", "all"])
@pytest.mark.parametrize("scaling", ["channel", "series"])
def test_a_channel_that_series_lack(lacks, scaling, make, motions):
    X, y = motions
    X = X.copy()
    X[lacks, 1] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        proba = make(scaling=scaling, max_epochs=1).fit(X, y).predict_proba(X)
    assert np.isfinite(proba).all()


def test_values_far_from_training_are_answered(make, italy):
    X, y = italy
    clf = make().fit(X, y)
    far = X[:5].copy()
    far[3, 0, 7] = -1e10
    proba, near = clf.predict_proba(far), clf.predict_proba(X[:5])
    assert np.isfinite(proba).all()
    assert np.delete(proba, 3, axis=0).tolist() == np.delete(near, 3, axis=0).tolist()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1e30, r"outputs for series 3 are not finite: .* its values reach 1\.\d+e\+30"),
        (1e130, r"too large for float32 after scaling: .* at series 3"),
    ],
)
def test_values_too_far_to_be_computed_with_are_refused_and_named(value, message, make, italy):
    X, y = italy
    clf = make().fit(X, y)
    far = X[:5].copy()
    far[3, 0, 7] = value
    for call in (clf.predict, clf.predict_proba, clf.transform):
        with pytest.raises(ValueError, match=message):
            call(far)


def test_a_single_output_that_is_not_finite_is_refused_as_well(make, italy):
    X, y = italy
    clf = make().fit(X, y)
    with torch.no_grad():
        clf.model_.head.bias[0] = torch.nan
    with pytest.raises(ValueError, match="outputs for series 0 are not finite"):
        clf.predict_proba(X[:5])
