"""Irregular sampling: times carry information that values alone hide."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from marks import exhaustive_except

from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Scaler


def sampled(n: int, seed: int, steps: int = 30) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One wave, early in its time or late, at times that crowd early or late at random.

    The value at step u is sin(2 pi t^g) at t = u^a: the exponent g is the class, and a, of the
    sampling, is drawn from far wider. Values tell the product of both and no more.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    exponent = np.where(y == 1, 1.3, 1 / 1.3)[:, None]
    times = np.linspace(0, 1, steps) ** (3.0 ** rng.uniform(-1, 1, (n, 1)))
    X = np.sin(2 * np.pi * times**exponent) + rng.normal(0, 0.05, (n, steps))
    return X, times, y


@pytest.mark.slow
@pytest.mark.parametrize("encoding", exhaustive_except(["lspe", "tape"]))
def test_times_tell_what_the_steps_hide(encoding, make):
    X, times, y = sampled(120, seed=0)
    X_test, times_test, y_test = sampled(300, seed=1)
    options = {"stem": "linear", "max_epochs": 30, "learning_rate": 1e-2, "augmentation": None}
    options |= {"scaling": "channel", "views": "values"}
    with_times = make(encoding, **options).fit(X, y, times=times)
    without = make(encoding, **options).fit(X, y)
    told = with_times.score(X_test, y_test, times=times_test)
    untold = without.score(X_test, y_test)
    assert told > 0.85
    assert untold < 0.7, "the values alone say little"


def test_times_of_another_kind_than_in_fit(make, motions):
    X, y = motions
    numbers, dates = np.arange(100), pd.date_range("2024", periods=100)
    timed = make().fit(X, y, times=numbers, X_val=X[::3], y_val=y[::3], times_val=numbers)
    assert timed.history_[-1]["val_score"] == pytest.approx(
        timed.score(X[::3], y[::3], times=numbers)
    )
    with pytest.raises(ValueError, match="fitted with times in numbers, but X comes with dates"):
        timed.predict(X, dates)


@pytest.mark.parametrize("factor", [1, 10, 24, 1e-3])
def test_times_in_another_unit_than_in_fit_are_warned_of(factor):
    series = to_padded(np.ones((2, 9)), np.arange(9.0))
    scaler = Scaler().fit(series)
    warned = pytest.warns(UserWarning, match=f"X is {factor:g} times that of the training series")
    with warned if factor in (24, 1e-3) else nullcontext():
        scaler.transform(to_padded(np.ones((1, 5)), factor * np.arange(5)))


def test_a_first_step_without_values_is_a_common_origin(make, motions):
    """Times count from the first step given, observed or not."""
    X, y = motions
    X = np.concatenate([np.full((20, 6, 1), np.nan), X], axis=2)
    late = np.concatenate([[0.0], 50 + np.arange(100)])
    clf = make("lspe", max_epochs=1).fit(X, y, times=late)
    early = np.concatenate([[0.0], 1 + np.arange(100)])
    assert not np.allclose(clf.predict_proba(X, late), clf.predict_proba(X, early))
