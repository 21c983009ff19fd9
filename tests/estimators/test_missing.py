"""Series with gaps: filled, flagged, cut where they begin and end, refused where all is gap."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import tsformer
from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Scaler


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
    clf = make(max_epochs=40, learning_rate=5e-3).fit(gaps[::3], y[::3])
    assert clf.score(gaps, y) > 0.9


@pytest.mark.parametrize("scaling", [None, "channel", "series", "series+size"])
def test_gaps_are_filled_along_lines_by_every_scaling(scaling):
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(6, 2, 1)) + rng.normal(size=(6, 2, 1)) * np.linspace(-1, 1, 24)
    gaps = whole.copy()
    for x in gaps:
        x[0, 1 + rng.choice(22, 6, replace=False)] = np.nan
    series = to_padded(gaps)
    scaler = Scaler(scaling).fit(series)
    values = scaler.transform(series).values.numpy()
    filled = values[..., :2]
    # A line stays a line under any scaling.
    np.testing.assert_allclose(np.diff(filled, n=2, axis=1), 0, atol=1e-5)
    if scaling is None:
        np.testing.assert_allclose(filled, whole.swapaxes(1, 2), atol=1e-6)
    if scaling != "series+size":
        flags = values[..., -1]
        np.testing.assert_array_equal(flags == flags.min(), np.isnan(gaps[:, 0]))


def test_a_third_missing_costs_little(make, motions):
    X, y = motions
    gaps = with_gaps(X, 0.3)
    clf = make(max_epochs=40, learning_rate=5e-3).fit(gaps[::2], y[::2])
    assert clf.score(gaps[1::2], y[1::2]) > 0.7  # chance is 0.25


def test_each_channel_with_gaps_in_training_gets_one_that_says_where(make, motions):
    X, y = motions
    X = X.copy()
    X[3, 4, 10] = np.nan
    clf = make().fit(X, y)
    assert clf.n_channels_ == 6
    assert clf.model_.config.n_channels == 13, "values, differences and one flag"
    assert clf.preprocessor_.flagged.tolist() == [False] * 4 + [True, False]
    assert make().fit(np.nan_to_num(X), y).model_.config.n_channels == 12


@pytest.mark.slow
@pytest.mark.parametrize(
    ("stem", "pooling", "encoding"),
    [
        ("conv", "mean", "lspe"),
        ("linear", "max", "rope"),
        ("patch", "attention", "erpe"),
        ("linear", "mean", "conv"),
        ("conv", "attention", "tape+shaw"),
    ],
)
def test_filling_up_with_missing_steps_changes_no_prediction(
    stem, pooling, encoding, make, motions
):
    X, y = motions
    clf = make(encoding, stem=stem, pooling=pooling, max_epochs=1).fit(with_gaps(X, 0.2), y)
    unequal = [x[:, : 40 + 3 * i] for i, x in enumerate(with_gaps(X, 0.2, seed=1))]
    filled = np.full((len(X), 6, 130), np.nan)
    for row, x in zip(filled, unequal, strict=True):
        row[:, : x.shape[1]] = x
    expected = clf.predict_proba(unequal)
    np.testing.assert_allclose(clf.predict_proba(filled), expected, atol=1e-6)
    alone = np.concatenate([clf.predict_proba([x]) for x in unequal])
    np.testing.assert_allclose(alone, expected, atol=1e-6)


@pytest.mark.parametrize("stem", ["linear", "patch", "conv"])
def test_what_stands_before_the_first_value_is_never_seen(stem, make, motions):
    """Of a step before the first value the model is given none; 1e6 there changes nothing."""
    X, y = motions
    late = X.copy()
    late[:, :, :7] = np.nan
    late[:, 1:, :12] = np.nan  # one channel begins alone
    clf = make(stem=stem, max_epochs=1).fit(late, y)
    panel = clf.preprocessor_.transform(clf._read(late, reset=False))
    x, keep, _ = panel.take(torch.arange(len(X)))
    assert keep.sum(1).tolist() == [93] * 20
    spoiled = x.clone()
    spoiled[~keep] = 1e6
    with torch.inference_mode():
        torch.testing.assert_close(clf.model_(x, keep), clf.model_(spoiled, keep))


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


def test_a_channel_that_one_series_lacks(make, motions):
    X, y = motions
    X = X.copy()
    X[0, 1] = np.nan
    for scaling in ("channel", "series", None):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            proba = make(scaling=scaling, max_epochs=1).fit(X, y).predict_proba(X)
        assert np.isfinite(proba).all()


def test_a_channel_that_all_lack(make, motions):
    X, y = motions
    X = X.copy()
    X[:, 1] = np.nan
    assert np.isfinite(make(max_epochs=1).fit(X, y).predict_proba(X)).all()


def test_a_series_without_values_is_refused_with_its_index(make, motions):
    X, y = motions
    clf = make().fit(X, y)
    X = X.copy()
    X[7] = np.nan
    for call in (lambda: make().fit(X, y), lambda: clf.predict(X)):
        with pytest.raises(ValueError, match="series 7 has no value at all"):
            call()


def test_codes_may_be_missing(make):
    rng = np.random.default_rng(0)
    X = rng.integers(3, size=(30, 12)).astype(float)
    X[rng.random(X.shape) < 0.2] = np.nan
    clf = make(stem="embedding").fit(X, np.arange(30) % 2)
    assert clf.preprocessor_.known.tolist() == [0, 1, 2]
    assert np.isfinite(clf.predict_proba(X)).all()


@pytest.mark.parametrize("value", [1e6, -1e10])
def test_values_far_from_training_are_answered(value, make, italy):
    X, y = italy
    clf = make().fit(X, y)
    far = X[:5].copy()
    far[3, 0, 7] = value
    proba, near = clf.predict_proba(far), clf.predict_proba(X[:5])
    assert np.isfinite(proba).all()
    assert np.delete(proba, 3, axis=0).tolist() == np.delete(near, 3, axis=0).tolist()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1e30, r"outputs for series 3 are not finite: .* its values reach 1\.\d+e\+30"),
        (-1e20, r"outputs for series 3 are not finite: .* its values reach 1\.\d+e\+20"),
        (1e130, r"too large for float32 after scaling: .* at series 3"),
        (-1e120, r"too large for float32 after scaling: .* at series 3"),
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


@pytest.mark.archive
@pytest.mark.slow
def test_a_real_problem_with_gaps(make):
    X, y = tsformer.load_dataset("MelbournePedestrian", split="train")
    assert any(np.isnan(x).any() for x in X)
    X_test, y_test = tsformer.load_dataset("MelbournePedestrian", split="test")
    clf = make(max_epochs=8, d_model=32, learning_rate=3e-3).fit(X, y)
    assert clf.score(X_test, y_test) > 0.7  # chance is 0.1
