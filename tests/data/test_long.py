"""Long tables: rows in any order become series, and wrong rows are named."""

import warnings

import numpy as np
import pandas as pd
import pytest

from tsformer.data import LayoutWarning, from_long, to_long
from tsformer.data.containers import to_padded

TABLE = pd.DataFrame(
    {
        "case": ["b", "a", "b", "a", "b"],
        "time": pd.to_datetime(
            ["2024-01-02", "2024-05-01", "2024-01-01", "2024-05-03", "2024-01-09"]
        ),
        "x": [2.0, 10.0, 1.0, np.nan, 3.0],
        "y": [20, 30, 40, 50, 60],
        "kind": ["cat", "dog", "cat", "dog", "cat"],
    }
)
COLUMNS = {"case": "case", "time": "time"}
#: Names that differ after a NUL.
NULS = ["b\0x", "a", "b\0y", "a", "b\0x"]


def test_series_in_order_of_appearance_and_steps_in_order_of_time():
    X, y = from_long(TABLE, **COLUMNS, value=["x", "y"], label="kind")
    assert [x["y"].tolist() for x in X] == [[40, 20, 60], [30, 50]]
    assert X[0].index.tolist() == sorted(TABLE["time"][[2, 0, 4]])
    assert np.isnan(X[1]["x"].iloc[1])
    assert y.to_dict() == {"b": "cat", "a": "dog"}
    assert y.index.tolist() == ["b", "a"]
    assert [x.attrs["case"] for x in X] == y.index.tolist()


def test_a_channel_not_observed_at_a_time_is_missing_there():
    table = pd.DataFrame(
        {"c": [1, 1, 2], "t": [0, 1, 0], "what": ["u", "v", "u"], "v": [1.0, 2, 3]}
    )
    X = from_long(table, case="c", time="t", channel="what", value="v")
    np.testing.assert_array_equal(X[0], [[1, np.nan], [np.nan, 2]])
    np.testing.assert_array_equal(X[1], [[3, np.nan]])


def test_tables_of_polars():
    pytest.importorskip("pyarrow")  # polars needs it for `to_pandas`
    table = pytest.importorskip("polars").DataFrame(TABLE)
    both = (from_long(rows, **COLUMNS, value="x") for rows in (table, TABLE))
    for ours, theirs in zip(*both, strict=True):
        pd.testing.assert_frame_equal(ours, theirs, check_index_type=False)


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"value": "x", "label": "knd"}, "'kind'"),
        ({}, {"value": ["x", "y"], "channel": "kind"}, "value="),
        ({"time": TABLE["time"][0]}, {"value": "x"}, "two rows for .*'b'"),
        ({"case": [None, *"abab"]}, {"value": "x"}, "row 0"),
        ({"kind": list("ccccd")}, {"value": "x", "label": "kind"}, "'c', 'd'"),
        ({"who": range(5)}, {"value": "x", "group": "who"}, "0, 2, 4"),
        ({"kind": ["c", "c ", *"ccd"]}, {"value": "x", "channel": "kind"}, "'c '"),
        ({"case": NULS}, {"value": "x"}, "case.*NUL"),
        ({"kind": NULS}, {"value": "x", "label": "kind"}, "kind.*NUL"),
    ],
)
def test_wrong_rows_are_named(change, arguments, message):
    with pytest.raises(ValueError, match=message):
        from_long(TABLE.assign(**change), **COLUMNS, **arguments)


def test_a_long_table_is_in_the_order_of_series_and_steps():
    X, y = from_long(TABLE, **COLUMNS, value=["x", "y"], label="kind")
    expected = TABLE.iloc[[2, 0, 4, 1, 3]].reset_index(drop=True)
    table = to_long(X, y, label="kind")
    pd.testing.assert_frame_equal(table, expected[["case", "time", "x", "y", "kind"]])
    assert list(to_long(X, cases=["b", "a"], channel="what")) == ["case", "time", "what", "value"]
    rows = to_long(X, channel="what")
    assert rows["what"].tolist() == ["x", "y"] * 5
    np.testing.assert_array_equal(rows["value"], expected[["x", "y"]].to_numpy().ravel())
    assert rows["case"].tolist() == [0] * 6 + [1] * 4


def test_what_cannot_be_a_long_table():
    with pytest.raises(ValueError):
        from_long(TABLE.set_axis(["case", "time", "x", "x", "kind"], axis=1), **COLUMNS, value="x")
    X, y = from_long(TABLE, **COLUMNS, value="x", label="kind")
    for series, arguments in (
        (X, {"y": y[::-1]}),
        ([np.zeros((1, 2))], {"y": "ab"}),
        ([np.zeros((1, 2))] * 2, {"cases": "aa"}),
        (np.zeros((3, 2, 5)), {"value": "v"}),
        (np.zeros((3, 1, 5)), {"value": "time"}),
    ):
        with pytest.raises(ValueError):
            to_long(series, **arguments)


MINUTES = pd.date_range("2024-03-30 22:00", periods=60, freq="min", tz="Europe/Berlin")
FULL = pd.concat([pd.DataFrame({"case": c, "time": MINUTES, "v": range(60)}) for c in "ab"])
HOLES = FULL.reset_index(drop=True).drop(index=[3, 4, 17, 70, 71, 72])


@pytest.mark.parametrize("times", ["zoned", "numbers", "periods", "durations"])
def test_missing_rows_are_warned_of_and_inserted_by_a_grid(times):
    local = HOLES["time"].dt.tz_localize(None)
    minutes = (local - local.min()).dt.total_seconds() / 60
    change = {
        "zoned": HOLES["time"],
        "numbers": minutes,
        "periods": local.dt.to_period("min"),
        "durations": pd.to_timedelta(minutes, unit="min"),
    }
    table = HOLES.assign(time=change[times]).sample(frac=1, random_state=0)
    grid, shown = (1, "1") if times == "numbers" else ("1min", "'1min'")
    X = from_long(table, case="case", time="time")
    with pytest.warns(LayoutWarning, match=f"{shown} .* 6 .* 5.0%"):
        to_padded(X)
    whole = from_long(table, case="case", time="time", grid=grid)
    with warnings.catch_warnings(action="error"):
        assert to_padded(X, index=True).lengths.tolist() == [57, 57]
        values = to_padded(whole).values[..., 0]
    expected = np.tile(np.arange(60.0), 2)
    expected[[3, 4, 17, 70, 71, 72]] = np.nan
    order = [x.attrs["case"] for x in whole]
    np.testing.assert_array_equal(values[np.argsort(order)].ravel(), expected)
    assert whole[0].index.name == "time"


def test_irregular_times_have_no_missing_rows(recwarn):
    for index in (
        pd.bdate_range("2024-01-01", periods=30),
        pd.date_range("2024-01-01", periods=30, freq="MS"),
        pd.to_timedelta(np.random.default_rng(0).uniform(0.1, 5, 30).cumsum(), unit="s"),
        pd.RangeIndex(30)[[*range(10), *range(12, 30)]],  # rows of a table
    ):
        to_padded([pd.DataFrame({"v": range(len(index))}, index=index)])
    assert not recwarn.list


def test_gaps_of_frames_and_levels_are_warned_of():
    index = MINUTES.delete([5, 6])
    x = pd.DataFrame({"v": range(58)}, index=index)
    for X in ([x, x], pd.concat([x, x], keys=[*"ab"])):
        with pytest.warns(LayoutWarning, match="'1min'"):
            to_padded(X)


def test_a_grid_that_does_not_fit_is_refused():
    for grid in ("7s", "1ns", 1, "-1min"):
        with pytest.raises(ValueError):
            from_long(HOLES, case="case", time="time", grid=grid)


def test_values_are_the_columns_without_another_role_and_groups_are_returned():
    X, _, groups = from_long(
        TABLE.assign(who=[7, 8] * 2 + [7]), **COLUMNS, label="kind", group="who"
    )
    assert list(X[0]) == ["x", "y"]
    assert groups.to_dict() == {"b": 7, "a": 8}
