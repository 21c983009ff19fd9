"""Times of steps: numbers or dates, counted from the first of each series."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Scaler
from tsformer.data.times import pad_times

DAYS = pd.date_range("2024-03-01", periods=3, freq="D")


def lengths(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


@pytest.mark.parametrize(
    "times",
    [
        [5.0, 6.0, 9.0],
        np.array([5, 6, 9], dtype=np.uint8),
        np.array([-100, -99, -96], dtype=np.int8),
        np.array([[5, 6, 9], [5, 6, 9]]),
        [np.array([5, 6, 9]), np.array([1.0, 2.0, 5.0])],
        pd.Index([5, 6, 9]),
        pd.Series([5, 6, 9]),
        [pd.Index([5, 6, 9]), [0, 1, 4]],
    ],
)
def test_numbers_count_from_the_first_of_each_series(times):
    padded, clock = pad_times(times, lengths(3, 3))
    np.testing.assert_array_equal(padded, [[0, 1, 4]] * 2)
    assert clock == "numbers"


@pytest.mark.parametrize(
    "times",
    [
        DAYS,
        DAYS.tz_localize("Europe/Rome"),
        DAYS.to_period("D"),
        DAYS.to_numpy("datetime64[s]"),
        DAYS - DAYS[0],
        np.stack([DAYS, DAYS]),
        list(DAYS.tz_localize("UTC")),
    ],
)
def test_dates_are_seconds(times):
    padded, clock = pad_times(times, lengths(3, 3))
    np.testing.assert_array_equal(padded, [[0, 86400, 172800]] * 2)
    assert clock == "dates"


def test_nanoseconds_of_today_are_not_rounded():
    start = np.datetime64("2026-11-21T10:00:00.000000001", "ns")
    padded, _ = pad_times(start + np.arange(4).astype("timedelta64[ns]"), lengths(4))
    np.testing.assert_allclose(padded[0], np.arange(4) * 1e-9, rtol=1e-12)


def test_shorter_series_end_in_zeros():
    padded, _ = pad_times([[1, 2, 3], [7]], lengths(3, 1))
    np.testing.assert_array_equal(padded, [[0, 1, 2], [0, 0, 0]])


@pytest.mark.parametrize(
    ("times", "error", "message"),
    [
        ([0, 1], ValueError, "series 0 has 3 steps, but 2 times"),
        ([[0, 1, 2]], ValueError, "X has 2 series, but times has 1"),
        ([[0, 1, 2], [0, 2, 1]], ValueError, "times of series 1 decrease after step 1; sort"),
        ([0, np.nan, 2], ValueError, "time of step 1 of series 0 is missing or infinite"),
        ([0, np.inf, 2], ValueError, "time of step 1 of series 0 is missing or infinite"),
        (pd.DatetimeIndex([DAYS[0], None, DAYS[1]]), ValueError, "time of step 1 of series 0"),
        (["mon", "tue", "wed"], TypeError, "must be numbers or dates.*pandas.to_datetime"),
        (np.zeros((2, 3, 1)), ValueError, r"got 3 dimensions, shape \(2, 3, 1\)"),
        ([DAYS, [0, 1, 2]], TypeError, "of some series are dates and those of others are numbers"),
        ([[], []], ValueError, "series 0 has 3 steps, but 0 times"),
        (3.0, ValueError, "got 0 dimensions"),
    ],
)
def test_refused_with_a_reason(times, error, message):
    with pytest.raises(error, match=message):
        pad_times(times, lengths(3, 3))


def test_one_unit_is_the_median_step_of_training():
    X = np.arange(8.0).reshape(2, 4)
    times = [[0, 10, 20, 500], [3, 3, 13, 23]]
    series = to_padded(X, times)
    scaler = Scaler("channel").fit(series)
    assert scaler.time_step == 10.0
    panel = scaler.transform(series)
    np.testing.assert_allclose(panel.times, [[0, 1, 2, 50], [0, 0, 1, 2]])
    often_at_once = to_padded(X, [[0, 0, 0, 5], [1, 1, 1, 6]])
    assert Scaler("channel").fit(often_at_once).time_step == 5.0, "steps of no length do not count"
    assert Scaler("channel").fit(to_padded(X)).time_step is None
    assert Scaler("channel").fit(to_padded(X[:, :1], [5])).time_step == 1.0, "nothing to go by"
