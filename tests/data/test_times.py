"""Times of steps: numbers or dates, counted from the first of each series."""

from contextlib import nullcontext
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from warnings import catch_warnings

import numpy as np
import pandas as pd
import pytest
import torch

from tsformer.data import from_long
from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Scaler
from tsformer.data.times import pad_times

DAYS = pd.date_range("2024-03-01", periods=3, freq="D")


def lengths(*numbers: int) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)


def test_hours_of_a_time_zone_are_counted_in_utc():
    hours = pd.date_range("2024-03-31 01:00", periods=3, freq="h", tz="Europe/Rome")
    table = pd.DataFrame({"id": 0, "time": hours, "value": 1.0})
    (read,) = from_long(table, case="id", time="time", value=["value"])
    for times in (hours, list(hours), pd.Series(hours), read.index):
        padded, clock = pad_times(times, lengths(3))
        assert (padded.tolist(), clock) == ([[0.0, 3600.0, 7200.0]], "dates")


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([5.0, 6.0, 9.0], "numbers"),
        (np.array([-100, -99, -96], dtype=np.int8), "numbers"),
        (np.array([[5, 6, 9], [5, 6, 9]]), "numbers"),
        ([pd.Index([5, 6, 9]), [0, 1, 4]], "numbers"),
        ([torch.tensor([5, 6, 9])] * 2, "numbers"),
        (DAYS, "dates"),
        (DAYS.tz_localize("Europe/Rome"), "dates"),
        (DAYS.to_period("D"), "dates"),
        (DAYS - DAYS[0], "dates"),
    ],
)
def test_times_count_from_the_first_of_each_series_and_dates_in_seconds(times, expected):
    padded, clock = pad_times(times, lengths(3, 3))
    counts = [0, 1, 4] if expected == "numbers" else [0, 86400, 172800]
    np.testing.assert_array_equal(padded, [counts] * 2)
    assert clock == expected


def test_equal_times_of_float32_and_nanoseconds_of_today_are_not_rounded():
    assert pad_times(np.full(3, 5, dtype=np.float32), lengths(3))[0].tolist() == [[0, 0, 0]]
    start = np.datetime64("2026-11-21T10:00:00.000000001", "ns")
    padded, _ = pad_times(start + np.arange(4).astype("timedelta64[ns]"), lengths(4))
    np.testing.assert_allclose(padded[0], np.arange(4) * 1e-9, rtol=1e-12)


def test_wrong_times_are_refused():
    for times in (
        [0, 1],
        [[0, 1, 2], [0, 2, 1]],
        [0, np.nan, 2],
        np.ma.array([0, 1, 2], mask=[False, True, False]),
        pd.DatetimeIndex([DAYS[0], None, DAYS[1]]),
        np.arange(3, dtype=np.float32) + np.float32(1.7e9),
        [DAYS, [0, 1, 2]],
    ):
        with pytest.raises(ValueError):
            pad_times(times, lengths(3, 3))


@pytest.mark.parametrize(
    ("first", "warned"), [(20240131, True), (20240132, False), (10240131, False)]
)
def test_dates_that_are_written_as_numbers_are_warned_of(first, warned):
    with pytest.warns(UserWarning) if warned else catch_warnings(action="error"):
        pad_times([first, 20240201], lengths(2))


def test_one_unit_is_the_median_step_of_training():
    X = np.arange(8.0).reshape(2, 4)
    series = to_padded(X, [[0, 10, 20, 500], [3, 3, 13, 23]])
    scaler = Scaler("channel").fit(series)
    assert scaler.time_step == 10.0
    np.testing.assert_allclose(scaler.transform(series).times, [[0, 1, 2, 50], [0, 0, 1, 2]])
    often_at_once = to_padded(X, [[0, 0, 0, 5], [1, 1, 1, 6]])
    assert Scaler("channel").fit(often_at_once).time_step == 5.0, "steps of no length do not count"
    assert Scaler("channel").fit(to_padded(X)).time_step is None
    assert Scaler("channel").fit(to_padded(X[:, :1], [5])).time_step == 1.0, "nothing to go by"


@pytest.mark.parametrize("factor", [1, 10, 24, 1e-3])
def test_times_in_another_unit_than_in_fit_are_warned_of(factor):
    series = to_padded(np.ones((2, 9)), np.arange(9.0))
    scaler = Scaler().fit(series)
    warned = pytest.warns(UserWarning, match=f" {factor:g} times")
    with warned if factor in (24, 1e-3) else nullcontext():
        scaler.transform(to_padded(np.ones((1, 5)), factor * np.arange(5)))


HOUR = timezone(timedelta(hours=1))
#: Times in order, as people have them, of types that have no order in time.
UNORDERED = {
    "times of day": ["9:58", "9:59", "10:00"],
    "German dates": ["31.01.2024", "01.02.2024", "02.02.2024"],
    "some ISO 8601": ["2024-01-31", "2024-02-01", "2 Feb 2024"],
    "no date": ["2024-02-30", "2024-03-01", "2024-03-02"],
    "naive among zoned text": ["2024-01-01T10:00Z", "2024-01-01T11:00", "2024-01-01T12:00Z"],
    "naive among zoned": [
        datetime(2024, 1, day, tzinfo=UTC if day > 1 else None) for day in (1, 2, 3)
    ],
    "unordered categories": pd.Categorical(["8", "9", "10"]),
    "text after NUL": ["2024-01-01", "2024-01-02", "2024-01-02\0"],
    "bool": [False, True, True],
    "clock times": [time(9, 58), time(9, 59), time(10)],
}
ORDERED = {
    "large numbers": np.array([0, 2**63, 2**64 - 1], dtype=np.uint64),
    "decimals": [Decimal("8.5"), Decimal("9"), Decimal("10")],
    "nullable": pd.array([8, 9, 10], dtype="Int64"),
    "zoned": DAYS.tz_localize("Europe/Rome"),
    "several zones": [
        datetime(2024, 1, 2, 0, tzinfo=UTC),
        *(datetime(2024, 1, 2, h, 30, tzinfo=HOUR) for h in (1, 2)),
    ],
    "date objects": [date(2024, 1, 31), date(2024, 2, 1), date(2024, 10, 1)],
    "periods": pd.period_range("2024-09", periods=3, freq="M"),
    "categories": pd.Categorical(["before", "after", "late"], ["before", "after", "late"], True),
    "ISO 8601": ["2024-01-31", "2024-02-01 09:58", "2024-02-01T10:00:00.5"],
    "ISO 8601 with offsets": [
        "2024-03-31T01:30+01:00",
        "2024-03-31T03:00+0200",
        "2024-03-31T04:00+02",
    ],
}


def as_long(times):
    """Return a long table of one series, its rows in order of time."""
    return pd.DataFrame({"case": "a", "time": times, "value": [0.0, 1, 2]})


@pytest.mark.parametrize("times", UNORDERED.values(), ids=UNORDERED)
def test_times_without_an_order_are_refused_wherever_they_order_a_series(times):
    index = pd.Index(times, tupleize_cols=False)
    for read in (
        lambda: from_long(as_long(times), case="case", time="time", value="value"),
        lambda: to_padded(as_long(times).set_index(["case", "time"])),
        lambda: to_padded([pd.DataFrame({"v": [0.0, 1, 2]}, index=index)], index=True),
        lambda: pad_times([index], lengths(3)),
    ):
        with pytest.raises(ValueError):
            read()


@pytest.mark.parametrize("times", ORDERED.values(), ids=ORDERED)
def test_times_with_an_order_are_sorted_by_it(times):
    table = as_long(times)
    (x,) = from_long(table.iloc[[2, 0, 1]], case="case", time="time", value="value")
    assert x["value"].tolist() == [0, 1, 2]
    if isinstance(times, list) and type(times[0]) is date:
        assert x.index.tz is None, "as those of other files"
    panel = table.set_index(["case", "time"])
    assert to_padded(panel).values[0, :, 0].tolist() == [0, 1, 2]
    if not isinstance(times, pd.Categorical):
        expected = pad_times([times], lengths(3))[0][0]
        assert to_padded([x], index=True).times[0].tolist() == expected.tolist()
        with pytest.raises(ValueError):
            to_padded(panel.iloc[[2, 0, 1]])
    else:
        with pytest.raises(ValueError):
            to_padded([x], index=True)
