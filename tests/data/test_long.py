"""Long tables: rows in any order become series, and what is wrong with a row is said."""

import numpy as np
import pandas as pd
import pytest

from tsformer.data import from_long, to_long

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
DAYS = ["2024-01-01", "2024-01-01 00:00", *(f"2024-01-0{day}" for day in range(2, 5))]
COLUMNS = {"case": "case", "time": "time"}


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
    for ours, theirs in zip(
        from_long(table, **COLUMNS, value="x"), from_long(TABLE, **COLUMNS, value="x"), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
        assert (ours.index == theirs.index).all()


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"value": "x", "label": "knd"}, "did you mean 'kind'"),
        ({}, {"value": ["x", "y"], "channel": "kind"}, "a single column of values; got value="),
        ({"time": TABLE["time"][0]}, {"value": "x"}, "two rows for .*'b'.*aggregate them"),
        ({"case": 1, "time": DAYS}, {"value": "x"}, "two rows for"),
        ({"case": [None, *"abab"]}, {"value": "x"}, "column 'case' has a missing value in row 0"),
        ({"kind": list("ccccd")}, {"value": "x", "label": "kind"}, r"'b' has several labels: \['c"),
        ({"case": [1, "1", 1, 2, 2]}, {"value": "x"}, "column 'case': the name '1' and"),
        (
            {"kind": ["c", "c ", *"ccd"]},
            {"value": "x", "channel": "kind"},
            "column 'kind': the name 'c '",
        ),
        ({}, {"value": "x", "label": ["kind"]}, r"unknown column of the table \['kind'\]"),
        ({"case": 7}, {"value": "x", "label": "kind"}, r"^series 7 has several labels"),
    ],
)
def test_what_is_wrong_is_said(change, arguments, message):
    with pytest.raises(ValueError, match=message):
        from_long(TABLE.assign(**change), **COLUMNS, **arguments)


def test_no_rows_and_no_table():
    with pytest.raises(ValueError, match="no rows"):
        from_long(TABLE[:0], **COLUMNS, value="x")
    with pytest.raises(TypeError, match=r"must be a DataFrame of pandas or polars.*got dict"):
        from_long({"case": [1]}, **COLUMNS, value="x")


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


@pytest.mark.parametrize(
    ("X", "arguments", "message"),
    [
        ([np.zeros((1, 2))], {"y": "ab"}, "X has 1 series, but y has 2 entries"),
        ([np.zeros((1, 2))], {"cases": "ab"}, "X has 1 series, but cases has 2 entries"),
        ([np.zeros((1, 2))] * 2, {"cases": "aa"}, "cases must be distinct; 'a' occurs 2 times"),
        (np.zeros((3, 2, 5)), {"value": "v"}, "the series have 2 channels, but value names 1"),
        (np.zeros((3, 1, 5)), {"value": "time"}, "columns must be distinct; 'time' occurs"),
        (np.zeros((3, 2, 5)), {"value": ["a", "b"], "channel": "c"}, "a single column of values"),
        ([np.zeros((1, 2)), np.zeros((2, 2))], {}, "series 0 has .0., series 1 has .0, 1."),
        ([np.zeros((1, 1, 2)), np.zeros(3)], {}, r"series 0 must be \(length,\) or"),
        ([], {}, "X holds no series"),
    ],
)
def test_what_cannot_be_a_long_table(X, arguments, message):
    with pytest.raises(ValueError, match=message):
        to_long(X, **arguments)


@pytest.mark.parametrize("channel", [None, ("at", "channel")])
def test_names_of_columns_may_be_tuples(channel):
    columns = [("at", "case"), ("at", "time"), ("of", "y"), ("at", "channel")]
    table = TABLE[["case", "time", "y"]].assign(channel="u")
    table.columns = pd.MultiIndex.from_tuples(columns)
    X = from_long(table, case=columns[0], time=columns[1], value=columns[2], channel=channel)
    assert [x.to_numpy().tolist() for x in X] == [[[40], [20], [60]], [[30], [50]]]
    assert X[0].index.name == columns[1]


@pytest.mark.parametrize("value", ["x", ["x", "x"]])
def test_a_column_that_is_there_twice_is_refused(value):
    table = TABLE.set_axis(["case", "time", "x", "x", "kind"], axis=1) if value == "x" else TABLE
    with pytest.raises(ValueError, match=r"2 columns 'x'|'x' occurs 2 times"):
        from_long(table, **COLUMNS, value=value)


@pytest.mark.parametrize("column", ["case", "kind", "channel"])
def test_names_that_differ_after_a_nul_are_refused(column):
    table = TABLE.assign(channel="u").astype({"case": object, "kind": object})
    table[column] = np.array(["b\0x", "a", "b\0y", "a", "b\0x"], dtype=object)
    with pytest.raises(ValueError, match=f"column '{column}' has text with a NUL character"):
        from_long(table, **COLUMNS, value="x", label="kind", channel="channel")


def test_labels_in_another_order_are_refused():
    X, y = from_long(TABLE, **COLUMNS, value="x", label="kind")
    with pytest.raises(ValueError, match="X and y have the same ids in another order"):
        to_long(X, y[::-1])
