"""From containers to numbers: what is accepted, what is refused and why."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils import check_array
from torch.utils.data import DataLoader, TensorDataset

from tsformer.data.containers import to_padded

RNG = np.random.default_rng(0)
WHOLE = RNG.normal(3.0, 2.0, size=(4, 2, 6))
RAGGED = [x[:, :n] for x, n in zip(WHOLE, (6, 3, 1, 5), strict=True)]


def test_array_of_three_dimensions():
    series = to_padded(WHOLE)
    np.testing.assert_array_equal(series.values, WHOLE.transpose(0, 2, 1))
    assert series.values.dtype == np.float64
    assert series.lengths.tolist() == [6] * 4
    assert not np.shares_memory(series.values, WHOLE)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint16, bool])
def test_types_of_numbers(dtype):
    X = (10 * WHOLE).astype(dtype)
    for container in (X, list(X)):
        series = to_padded(container)
        np.testing.assert_array_equal(series.values, X.transpose(0, 2, 1).astype(np.float64))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(5), r"got an array with 1 dimensions and shape \(5,\)"),
        (np.zeros((2, 3, 4, 5)), r"got an array with 4 dimensions and shape \(2, 3, 4, 5\)"),
        (np.zeros((0, 3, 4)), "X holds no series"),
        (np.zeros((3, 0, 4)), r"X contains empty series: .*\(3, 0, 4\)"),
        (np.zeros((3, 4, 0)), r"X contains empty series: .*\(3, 4, 0\)"),
        ([np.zeros((2, 3)), np.zeros((2, 0))], "series 1 is empty"),
        (
            [np.zeros((2, 3)), np.zeros((3, 2))],
            "series 0 has 2, series 1 has 3 .*read as .channels, l",
        ),
        ([np.zeros((1, 2, 3))], r"series 0 must be \(length,\) or .*its shape is \(1, 2, 3\)"),
        (
            [np.zeros(2), np.array(["a", "b"])],
            "series 1 must contain real numbers; its dtype is <U1",
        ),
        ([np.zeros(2, complex)], "series 0 must contain real numbers"),
    ],
)
def test_refused_with_a_reason(X, message):
    with pytest.raises(ValueError, match=message):
        to_padded(X)


LETTERS = ["abc", "abd"]
TO_LONG = r"tsformer.data.from_long\(table, .*; for symbols use their codes, .* stem='embedding'"


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (LETTERS, f"X is a list of str, such as 'abc', but .* {TO_LONG}"),
        (np.array(LETTERS), f"X is a ndarray of str_, such as .*abc.*, but .* {TO_LONG}"),
        (pd.Series(LETTERS), f"X is a Series of str, such as 'abc', but .* {TO_LONG}"),
        ([Path("a.csv")], r"X is a list of PosixPath, .*'a.csv'.*; files must be read first"),
        ([{"a": 1.0}], "X is a list of dict, such as {'a': 1.0}, but a series is made of numbers"),
        ([["no", "yes"]], "X holds text, such as 'no'; for symbols use their codes"),
        ([["1", "2.5"]], r"X holds text, such as '1'; for .* use np.asarray\(X, dtype=float\)$"),
        (WHOLE.astype(str), r"X holds text, .*; for numbers in text use np.asarray\(X, dtype=f"),
        (np.array([["a", 1.0]], dtype=object), "X holds text, such as 'a'; for symbols"),
        (pd.DataFrame({"t": [0, 1], "who": ["p0", "p0"]}), r"no numbers: \['who'\], such as 'p0'"),
        (pd.DataFrame({"day": pd.to_datetime(["2024-01-01"])}), r"\['day'\], such as '2024-01-01"),
        (pd.DataFrame({0: ["0,5"], 1: [0.7]}), r"no numbers: \['0'\], such as '0,5'.*from_long"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_text_is_refused_with_what_it_may_be(X, message):
    with pytest.raises(ValueError, match=message):
        to_padded(X)


def test_what_is_advised_for_text_is_read():
    codes = [[ord(symbol) for symbol in x] for x in ["ab", "abc"]]
    assert to_padded(codes).lengths.tolist() == [2, 3]
    text = WHOLE.astype(str)
    np.testing.assert_array_equal(
        to_padded(np.asarray(text, dtype=float)).values, to_padded(WHOLE).values
    )
    np.testing.assert_array_equal(  # as scikit-learn does
        to_padded(pd.DataFrame(text[:, 0]), check=check_array).values, to_padded(WHOLE[:, 0]).values
    )


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ((x for x in WHOLE), r"got generator, which list\(X\) makes a list of"),
        ({1.0, 2.0}, "got set. Convert it to a NumPy array"),
        (
            DataLoader(TensorDataset(torch.zeros(2, 1, 3))),
            "got DataLoader. Convert it to a NumPy array",
        ),
    ],
    ids=["generator", "set", "DataLoader"],
)
def test_no_container(X, message):
    with pytest.raises(TypeError, match=message):
        to_padded(X)


def test_lists_of_series_by_length_and_channels():
    message = r"series 0 has 6, series 1 has 3 .* if they are .length, channels., pass \[x.T for x"
    with pytest.raises(ValueError, match=message):
        to_padded([x.T for x in RAGGED])


def test_frames_with_a_column_of_times():
    frame = pd.DataFrame({"day": pd.date_range("2024", periods=3), "x": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"pandas DataFrame: x.set_index\('day'\), or x.to_pan"):
        to_padded([frame])
    assert to_padded([frame.set_index("day")], index=True).clock == "dates"


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_refused_with_its_place(value):
    place = "series 1, channel 0, step 2"
    X = WHOLE.copy()
    X[1, 0, 2] = value
    for container in (X, list(X), X[:, 0]):
        with pytest.raises(ValueError, match=f"infinity at {place}"):
            to_padded(container)


# --- missing values ------------------------------------------------------------------------------


def test_missing_values_stay_and_missing_ends_are_cut():
    X = WHOLE.copy()
    X[0, 0, 1] = X[0, 1, 5] = np.nan  # one channel of two
    X[1, :, 4:] = np.nan  # an end
    X[2, :, :2] = np.nan  # a beginning
    series = to_padded(X)
    assert series.lengths.tolist() == [6, 4, 6, 6]
    missing = np.isnan(series.values) & series.mask[..., None]
    assert np.argwhere(missing).tolist() == [
        *([0, 1, 0], [0, 5, 1], [2, 0, 0], [2, 0, 1], [2, 1, 0], [2, 1, 1])
    ]
    assert np.isnan(series.values[1, 4:]).all()


def test_times_are_cut_along_with_missing_ends():
    X = WHOLE[:2].copy()
    X[:, :, 4:] = np.nan
    series = to_padded(X, np.arange(6) * 2)
    assert series.values.shape == (2, 4, 2)
    np.testing.assert_array_equal(series.times, [[0, 2, 4, 6]] * 2)


@pytest.mark.parametrize("as_list", [False, True])
def test_a_series_without_any_value_is_refused(as_list):
    X = WHOLE.copy()
    X[2] = np.nan
    with pytest.raises(ValueError, match="series 2 has no value at all"):
        to_padded(list(X) if as_list else X)


def test_masked_values_are_missing():
    X = np.ma.array(WHOLE.astype(int), mask=False)
    X[1, 0, 2] = np.ma.masked
    assert np.argwhere(np.isnan(to_padded(X).values)).tolist() == [[1, 2, 0]]


# --- frames --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (
            pd.DataFrame({"a": ["x"]}, index=pd.MultiIndex.from_tuples([(0, 0)])),
            "must contain real",
        ),
        (
            pd.DataFrame({"a": [1.0, 2.0]}, index=pd.MultiIndex.from_tuples([(7, 1), (7, 0)])),
            r"steps of series 7 are not sorted; use X.sort_index\(\)",
        ),
        (
            pd.DataFrame({"a": [1.0]}, index=pd.MultiIndex.from_tuples([(0, 0, 0)])),
            "must have two levels",
        ),
        (
            # Two series of one name; sort_index would make one of them.
            pd.concat([pd.DataFrame({"a": [1.0, 2.0]})] * 2, keys=["p", "p"]),
            "two rows for series 'p' and step 0; give each series a name of its own",
        ),
        (
            pd.DataFrame({"a": [1.0] * 2}, index=[["p", "p"], ["2024-01-01", "2024-01-01 00:00"]]),
            "two rows for series 'p' and step 2024-01-01 00:00:00",
        ),
        (
            pd.DataFrame({"a": [1.0] * 2}, index=pd.MultiIndex.from_tuples([("p", 0), (None, 0)])),
            "index of X has no series in row 1",
        ),
        (
            pd.DataFrame(
                {"a": [1.0] * 2}, index=pd.MultiIndex.from_tuples([("p", 0), ("p", None)])
            ),
            "index of X has no step in row 1",
        ),
        (pd.DataFrame({"a": [pd.Series([1.0, 2], index=[5, 5])]}), "series 0 have step 5 twice"),
        (
            pd.DataFrame([[pd.Series([1.0, 2], index=[0, 1]), pd.Series([1.0, 2], index=[1, 0])]]),
            "the cells of series 0 differ in their indices",
        ),
        (pd.DataFrame({"a": []}, index=pd.MultiIndex.from_arrays([[], []])), "no series"),
        (
            pd.DataFrame({"a": [pd.Series([1.0, 2])], "b": [pd.Series([1.0])]}),
            r"cells of series 0 .* of equal length; got shapes \{'a': \(2,\), 'b': \(1,\)\}",
        ),
        (
            pd.DataFrame({"id": ["p"], "x": [[1.0, 2]], "age": [7]}),
            r"series 0 has single values, and no series, in the columns \['id', 'age'\]; drop col",
        ),
        (pd.DataFrame({"a": [None, [1.0, 2]]}), "series 0 is None; leave it out, and its label"),
        (pd.Series([None, np.ones(2)]), "series 0 is None; leave it out, and its label"),
        ([pd.DataFrame({"a": [1.0]}), pd.DataFrame({"b": [1.0]})], r"series 1 has \['b'\]"),
        ([pd.DataFrame({"a": [1.0]}), pd.DataFrame({"a": []}, dtype=float)], "series 1 is empty"),
        ([[1.0, 2.0], [[1.0, 2.0], [3.0]]], "series 1 must be .*its channels differ in length"),
        ([[1.0, 2.0], ["a"]], "series 1 must contain real numbers"),
    ],
)
def test_frames_and_lists_refused_with_a_reason(X, message):
    with pytest.raises(ValueError, match=message):
        to_padded(X)


def test_times_from_the_index():
    index = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-05"])
    X = [pd.DataFrame({"a": [1.0, 2, 3]}, index=index), pd.DataFrame({"a": [1.0]}, index=index[:1])]
    days = np.array([[0, 1, 4], [0, 0, 0]]) * 86400.0
    for container in (X, pd.concat(X, keys=[1, 0]), [x["a"] for x in X]):
        series = to_padded(container, index=True)
        np.testing.assert_array_equal(series.times, days)
        assert series.clock == "dates"
        assert to_padded(container).times is None
    with pytest.raises(ValueError, match="a single ndarray of all series has none"):
        to_padded(WHOLE, index=True)
    with pytest.raises(ValueError, match="but series 0 is a ndarray"):
        to_padded(RAGGED, index=True)
    with pytest.raises(ValueError, match="given twice"):
        to_padded(X, [0, 1, 2], index=True)
