"""Long tables: rows in any order become series, and what is wrong with a row is said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tsformer.data import from_long

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


def test_series_in_order_of_appearance_and_steps_in_order_of_time():
    X, y = from_long(TABLE, **COLUMNS, value=["x", "y"], label="kind")
    assert [x["y"].tolist() for x in X] == [[40, 20, 60], [30, 50]]
    assert X[0].index.tolist() == sorted(TABLE["time"][[2, 0, 4]])
    assert np.isnan(X[1]["x"].iloc[1])
    assert y.to_dict() == {"b": "cat", "a": "dog"}
    assert y.index.tolist() == ["b", "a"]
    (without,) = [from_long(TABLE, **COLUMNS, value="x")]
    assert [list(x.columns) for x in without] == [["x"], ["x"]]


def test_a_column_of_channels():
    X = from_long(
        TABLE.melt(["case", "time"], ["x", "y"], var_name="what", value_name="it"),
        **COLUMNS,
        channel="what",
        value="it",
    )
    wide = from_long(TABLE, **COLUMNS, value=["x", "y"])
    for ours, theirs in zip(X, wide, strict=True):
        pd.testing.assert_frame_equal(ours, theirs, check_dtype=False)


def test_a_channel_not_observed_at_a_time_is_missing_there():
    table = pd.DataFrame(
        {"c": [1, 1, 2], "t": [0, 1, 0], "what": ["u", "v", "u"], "v": [1.0, 2, 3]}
    )
    X = from_long(table, case="c", time="t", channel="what", value="v")
    np.testing.assert_array_equal(X[0], [[1, np.nan], [np.nan, 2]])
    np.testing.assert_array_equal(X[1], [[3, np.nan]])


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_other_tables(library):
    module = pytest.importorskip(library)
    table = module.DataFrame(TABLE) if library == "polars" else module.Table.from_pandas(TABLE)
    for ours, theirs in zip(
        from_long(table, **COLUMNS, value="x"), from_long(TABLE, **COLUMNS, value="x"), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
        assert (ours.index == theirs.index).all()


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"value": "z"}, "unknown column of the table 'z'; choose from: 'case'"),
        ({}, {"value": "x", "label": "knd"}, "did you mean 'kind'"),
        ({}, {"value": ["x", "y"], "channel": "kind"}, "a single column of values; got value="),
        ({"time": TABLE["time"][0]}, {"value": "x"}, "two rows for .*'b'.*aggregate them first"),
        ({"case": [None, *"abab"]}, {"value": "x"}, "column 'case' has a missing value in row 0"),
        ({"kind": list("ccccd")}, {"value": "x", "label": "kind"}, r"'b' has several labels: \['c"),
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
