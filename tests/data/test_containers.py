"""All containers hold the same series as NumPy arrays, or are refused by name."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils import check_array
from torch.nn.utils.rnn import pack_sequence

from tsformer import RandomConvolutionClassifier
from tsformer.data import to_long
from tsformer.data.containers import to_padded
from tsformer.data.series import SeriesError

RNG = np.random.default_rng(0)
WHOLE = RNG.normal(size=(4, 2, 6))
UNCHANGED = WHOLE.copy()
#: Neither sorted by length nor of one length.
RAGGED = [x[:, :n] for x, n in zip(WHOLE, (3, 6, 2, 5), strict=True)]
ONE = [x[0] for x in RAGGED]
BY_STEP = [torch.from_numpy(x.T.copy()) for x in RAGGED]
BF16 = torch.from_numpy(WHOLE).bfloat16()
GAPS = np.where(np.abs(WHOLE) < 0.3, np.nan, WHOLE)
NONE = [[[None if np.isnan(v) else float(v) for v in c] for c in x] for x in GAPS]
NONE_RAGGED = [[c[:n] for c in x] for x, n in zip(NONE, (3, 6, 2, 5), strict=True)]


def lib(name: str) -> Any:
    return pytest.importorskip(name, reason='needs the extras "test" and "parquet"')


def objects(cells: list[Any], shape: tuple[int, ...] = ()) -> np.ndarray:
    array = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array.reshape(shape or -1)


def matlab(cells: np.ndarray) -> Any:
    """Return what is read from a file with a cell array."""
    from io import BytesIO

    io = lib("scipy.io")
    file = BytesIO()
    io.savemat(file, {"X": cells})
    return io.loadmat(file)["X"]


def variable_length(cells: np.ndarray) -> Any:
    h5py = lib("h5py")
    file = h5py.File("series.h5", "w", driver="core", backing_store=False)
    array = file.create_dataset("X", cells.shape, dtype=h5py.vlen_dtype(np.float64))
    for place, cell in np.ndenumerate(cells):
        array[place] = cell
    return array


def columns(series: list[Any]) -> dict[str, list[Any]]:
    return {name: [np.asarray(x[c]).tolist() for x in series] for c, name in enumerate("ab")}


def hugging_face(data: dict[str, Any], style: str | None = None, **options: Any) -> Any:
    return lib("datasets").Dataset.from_dict(data).with_format(style, **options)


def jagged(series: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.nested_tensor(series, layout=torch.jagged)


def xarray(X: np.ndarray, *dims: str) -> Any:
    return lib("xarray").DataArray(X, dims=dims or None)


def arrow_lists(series: list[Any]) -> Any:
    return lib("pyarrow").array([x.tolist() for x in series])


CELLS = [[x[c] for c in range(2)] for x in RAGGED]
FLAT_CELLS = [cell for row in CELLS for cell in row]


def frames(series: list[Any], index: Any = None) -> list[pd.DataFrame]:
    return [pd.DataFrame(x.T, columns=["a", "b"], index=index) for x in series]


def nested(series: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({name: [pd.Series(x[c]) for x in series] for c, name in enumerate("ab")})


SAME = {
    # NumPy and lists
    "array": (lambda: WHOLE, WHOLE),
    "array of two dimensions": (lambda: WHOLE[:, 0], WHOLE[:, 0]),
    "masked": (lambda: np.ma.array(WHOLE, mask=False), WHOLE),
    "arrays": (lambda: tuple(RAGGED), RAGGED),
    "filled up with NaN": (lambda: expected(RAGGED).values.transpose(0, 2, 1), RAGGED),
    "nested lists": (lambda: [x.tolist() for x in RAGGED], RAGGED),
    "nested lists of one length": (lambda: WHOLE.tolist(), WHOLE),
    "objects": (lambda: objects(list(WHOLE)), WHOLE),
    # pandas
    "frames": (lambda: frames(RAGGED), RAGGED),
    "series": (lambda: [pd.Series(x) for x in ONE], ONE),
    "two levels": (lambda: pd.concat(frames(RAGGED), keys=["z", "b", "y", "a"]), RAGGED),
    "cells of series": (lambda: nested(RAGGED), RAGGED),
    "cells of arrays": (lambda: nested(RAGGED).map(np.asarray), RAGGED),
    # polars
    "polars, columns of lists": (lambda: lib("polars").DataFrame(columns(RAGGED)), RAGGED),
    "polars, columns of arrays": (
        lambda: lib("polars").DataFrame({"a": WHOLE[:, 0], "b": WHOLE[:, 1]}),
        WHOLE,
    ),
    "polars, lists of lists": (
        lambda: lib("polars").DataFrame({"x": [x.tolist() for x in RAGGED]}),
        RAGGED,
    ),
    "polars, one column": (lambda: lib("polars").Series([x.tolist() for x in ONE]), ONE),
    "polars, frames": (lambda: [lib("polars").DataFrame(x.T, ["a", "b"]) for x in RAGGED], RAGGED),
    "polars, series": (lambda: [lib("polars").Series(x) for x in ONE], ONE),
    "polars, null": (lambda: lib("polars").DataFrame(columns(NONE)), GAPS),
    "polars, wide": (lambda: lib("polars").DataFrame(WHOLE[:, 0], orient="row"), WHOLE[:, 0]),
    # Arrow
    "arrow, columns of lists": (lambda: lib("pyarrow").table(columns(RAGGED)), RAGGED),
    "arrow, a batch": (
        lambda: lib("pyarrow").RecordBatch.from_pydict(columns(RAGGED)),
        RAGGED,
    ),
    "arrow, tables": (
        lambda: [lib("pyarrow").table({"a": x[0], "b": x[1]}) for x in RAGGED],
        RAGGED,
    ),
    "arrow, arrays": (lambda: [lib("pyarrow").array(x) for x in ONE], ONE),
    "arrow, arrays of lists": (lambda: [arrow_lists(list(x)) for x in RAGGED], RAGGED),
    "arrow, an array of lists": (lambda: arrow_lists(ONE), ONE),
    "arrow, its items": (lambda: list(arrow_lists(ONE)), ONE),
    "arrow, a tensor": (
        lambda: lib("pyarrow").FixedShapeTensorArray.from_numpy_ndarray(WHOLE),
        WHOLE,
    ),
    "arrow, null": (lambda: lib("pyarrow").table({"x": NONE}), GAPS),
    "arrow in pandas": (
        lambda: (
            lib("pyarrow").table(columns(RAGGED)).to_pandas(types_mapper=lib("pandas").ArrowDtype)
        ),
        RAGGED,
    ),
    # xarray
    "xarray": (lambda: xarray(WHOLE, "case", "channel", "time"), WHOLE),
    "xarray, steps first": (
        lambda: xarray(WHOLE.transpose(2, 0, 1), "Time", "samples", "Features"),
        WHOLE,
    ),
    "xarray, an unknown dimension": (
        lambda: xarray(WHOLE.transpose(2, 0, 1), "step", "trial", "station"),
        WHOLE,
    ),
    "xarray without names": (lambda: xarray(WHOLE), WHOLE),
    "xarray, one channel": (lambda: xarray(WHOLE[:, 0].T, "time", "case"), WHOLE[:, 0]),
    "xarray, a data set": (
        lambda: lib("xarray").Dataset(
            {"a": (("time", "case"), WHOLE[:, 0].T), "b": (("case", "time"), WHOLE[:, 1])}
        ),
        WHOLE,
    ),
    "xarray, arrays": (lambda: [xarray(x.T, "time", "lead") for x in RAGGED], RAGGED),
    "xarray, equal arrays": (lambda: [xarray(x.T, "time", "lead") for x in WHOLE], WHOLE),
    "xarray, arrays without names": (lambda: [xarray(x) for x in RAGGED], RAGGED),
    "xarray, one channel each": (lambda: [xarray(x, "t") for x in ONE], ONE),
    "xarray, data sets": (
        lambda: [lib("xarray").Dataset({"a": ("t", x[0]), "b": ("t", x[1])}) for x in RAGGED],
        RAGGED,
    ),
    # awkward
    "awkward": (lambda: lib("awkward").Array(WHOLE), WHOLE),
    "awkward, ragged": (lambda: lib("awkward").Array([x.tolist() for x in RAGGED]), RAGGED),
    "awkward, one channel": (lambda: lib("awkward").Array([x.tolist() for x in ONE]), ONE),
    "awkward, None": (lambda: lib("awkward").Array(NONE), GAPS),
    "awkward, arrays": (lambda: [lib("awkward").Array(x.tolist()) for x in RAGGED], RAGGED),
    # PyTorch
    "torch": (lambda: torch.from_numpy(WHOLE).requires_grad_(), WHOLE),
    "torch, tensors": (lambda: [torch.from_numpy(x) for x in RAGGED], RAGGED),
    "torch, nested": (lambda: torch.nested.nested_tensor(list(map(torch.tensor, RAGGED))), RAGGED),
    "torch, jagged": (lambda: jagged(BY_STEP), RAGGED),
    "torch, jagged by channel": (lambda: jagged(BY_STEP).transpose(1, 2), RAGGED),
    "torch, packed": (lambda: pack_sequence(BY_STEP, enforce_sorted=False), RAGGED),
    "torch, bfloat16": (lambda: BF16, BF16.double().numpy()),
    "torch, bfloat16 each": (lambda: list(BF16), BF16.double().numpy()),
    "bfloat16 of NumPy": (
        lambda: BF16.double().numpy().astype(lib("ml_dtypes").bfloat16),
        BF16.double().numpy(),
    ),
    # h5py and MATLAB
    "h5py": (lambda: variable_length(objects(ONE)), ONE),
    "h5py, channels": (lambda: variable_length(objects(FLAT_CELLS, (4, 2))), RAGGED),
    "mat, a row": (lambda: matlab(objects(RAGGED, (1, 4))), RAGGED),
    "mat, a table": (lambda: matlab(objects(FLAT_CELLS, (4, 2))), RAGGED),
    "objects, a table": (lambda: objects(FLAT_CELLS, (4, 2)), RAGGED),
    "objects, one row": (lambda: objects(CELLS[0], (1, 2)), RAGGED[:1]),
    # Hugging Face
    "datasets": (lambda: hugging_face({"x": [x.tolist() for x in RAGGED]}), RAGGED),
    "datasets, columns": (lambda: hugging_face(columns(RAGGED)), RAGGED),
    "datasets, one column": (lambda: hugging_face({"x": columns(RAGGED)["a"]})["x"], ONE),
    "datasets, numpy": (lambda: hugging_face(columns(RAGGED), "numpy", dtype=np.float64), RAGGED),
    "datasets, torch": (
        lambda: hugging_face(columns(RAGGED), "torch", dtype=torch.float64),
        RAGGED,
    ),
    "datasets, pandas": (lambda: hugging_face(columns(RAGGED), "pandas"), RAGGED),
    "datasets, polars": (lambda: lib("polars") and hugging_face(columns(RAGGED), "polars"), RAGGED),
    "datasets, arrow": (lambda: hugging_face({"x": NONE_RAGGED}, "arrow"), NONE_RAGGED),
    # None
    "None": (lambda: NONE, GAPS),
    "None, ragged": (lambda: NONE_RAGGED, NONE_RAGGED),
    "None in objects": (lambda: np.array(NONE, dtype=object), GAPS),
    "None in arrays of objects": (lambda: [np.array(x, dtype=object) for x in NONE], GAPS),
    "None in cells": (lambda: pd.DataFrame(columns(NONE)), GAPS),
    "None in a table": (lambda: pd.DataFrame([x[0] for x in NONE], dtype=object), GAPS[:, 0]),
    "None in frames": (lambda: [pd.DataFrame(x, dtype=object).T for x in NONE], GAPS),
    "None in two levels": (
        lambda: pd.concat([pd.DataFrame(x, dtype=object).T for x in NONE], keys=range(4)),
        GAPS,
    ),
    "pd.NA": (lambda: [[pd.NA if v is None else v for v in x[0]] for x in NONE], GAPS[:, 0]),
    "pd.NA in a table": (
        lambda: pd.DataFrame([x[0] for x in NONE], dtype=object).fillna(pd.NA),
        GAPS[:, 0],
    ),
}


def expected(series: Any) -> Any:
    return to_padded([np.array(x, dtype=np.float64) for x in series])


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", SAME)
def test_the_same_series(name):
    make, series = SAME[name]
    read = to_padded(make())
    np.testing.assert_array_equal(read.values, expected(series).values)
    np.testing.assert_array_equal(read.lengths, expected(series).lengths)
    read.values[:] = -1.0
    np.testing.assert_array_equal(WHOLE, UNCHANGED)
    read = to_padded(make())
    # scikit-learn validates the array in between
    checked = RandomConvolutionClassifier()._source(make(), None, reset=True).padded()
    np.testing.assert_array_equal(checked.values, read.values)


REFUSED = {
    "lazy": (lambda: lib("polars").DataFrame(columns(RAGGED)).lazy(), r"pass X\.collect\(\)"),
    "lazy frames": (lambda: [lib("polars").LazyFrame({"a": [1.0]})], "holds LazyFrame.*convert"),
    "groups": (lambda: pd.DataFrame({"a": [1]}).groupby("a"), r"a DataFrameGroupBy.*convert"),
    "a null cell": (lambda: lib("polars").DataFrame({"a": [[1.0], None]}), "series 1 is None"),
    "tensors in a table": (
        lambda: lib("pyarrow").table(
            {"x": lib("pyarrow").FixedShapeTensorArray.from_numpy_ndarray(WHOLE)}
        ),
        r"a Table of tensors; pass .*to_numpy_ndarray\(\)",
    ),
    "unknown dimensions": (
        lambda: xarray(WHOLE, "x", "y", "time"),
        r"dimensions \['x', 'y', 'time'\], which must be case, channel, time .*X\.rename",
    ),
    "a time twice": (lambda: xarray(WHOLE, "time", "day", "step"), "which must be case, channel"),
    "a single series": (lambda: xarray(WHOLE[0], "channel", "time"), r"X\.expand_dims\('case'\)"),
    "labels in a data set": (
        lambda: lib("xarray").Dataset(
            {"a": (("case", "time"), WHOLE[:, 0]), "y": (("case",), np.arange(4))}
        ),
        "different dimensions: .*select the channels",
    ),
    "records": (
        lambda: lib("awkward").zip({"a": WHOLE[:, 0], "b": WHOLE[:, 1]}),
        r"must contain real numbers; its dtype is .*np\.stack\(\[x\[name\] for name",
    ),
    "sparse": (lambda: torch.tensor(WHOLE[:, 0]).to_sparse(), r"pass X\.to_dense\(\)"),
    "nested by step": (
        lambda: torch.nested.nested_tensor(BY_STEP),
        r"are \(length, channels\), pass \[x\.T for x in X\]",
    ),
    "a dict": (lambda: dict(enumerate(WHOLE)), r"a dict with the keys \[0, 1, 2, 3\]; .*X\.values"),
    "splits": (
        lambda: lib("datasets").DatasetDict({"train": hugging_face(columns(RAGGED))}),
        r"a DatasetDict with the keys \['train'\]",
    ),
    "a stream": (
        lambda: hugging_face(columns(RAGGED)).to_iterable_dataset(),
        "an? IterableDataset without __len__",
    ),
    "labels": (
        lambda: hugging_face({**columns(RAGGED), "y": [0, 1, 0, 1]}),
        r"\['y'\] of series 0 are no series: leave them out",
    ),
    "rows": (lambda: list(hugging_face(columns(RAGGED))), r"the series of dicts, as in"),
    "column vectors": (
        lambda: matlab(objects([x[:, None] for x in ONE])),
        r"4 column vectors, such as \(3, 1\), .* pass \[x\.ravel\(\) for x in X\.ravel\(\)\]",
    ),
    "a cell by step": (lambda: matlab(objects([x.T for x in RAGGED])), r"pass \[x\.T for x in X"),
    "a cell of panels": (lambda: objects([WHOLE] * 4, (2, 2)), "whose cells are arrays of shapes"),
    "a missing series": (lambda: [ONE[0].tolist(), None], "series 1 is None; leave it out"),
    "text and None": (lambda: [["a", None]], "X holds text, such as 'a'"),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_the_conversion(name):
    make, message = REFUSED[name]
    X = make()
    for read in (to_padded, lambda X: RandomConvolutionClassifier().fit(X, [0, 1])):
        with pytest.raises((TypeError, ValueError), match=message):
            read(X)


NAMED = {
    "polars": lambda X, names: lib("polars").DataFrame(
        {name: X[:, i].tolist() for i, name in enumerate(names)}
    ),
    "frames": lambda X, names: [lib("polars").DataFrame(x.T, names) for x in X],
    "lists in pandas": lambda X, names: pd.DataFrame(
        {name: X[:, i].tolist() for i, name in enumerate(names)}
    ),
    "xarray": lambda X, names: lib("xarray").DataArray(
        X, dims=("case", "channel", "time"), coords={"channel": names}
    ),
    "xarray with series last": lambda X, names: lib("xarray").DataArray(
        X.transpose(1, 2, 0),
        dims=("channel", "time", "case"),
        coords={"channel": names, "case": list("abcdefgh")},
    ),
    "xarray with series second": lambda X, names: lib("xarray").DataArray(
        X.transpose(1, 0, 2),
        dims=("channel", "case", "time"),
        coords={"channel": names, "case": list("abcdefgh")},
    ),
    "arrays of xarray by name": lambda X, names: lib("xarray").Dataset(
        {name: (("case", "time"), X[:, i]) for i, name in enumerate(names)}
    ),
    "datasets": lambda X, names: hugging_face(
        {name: X[:, i].tolist() for i, name in enumerate(names)}
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_channels_in_another_order_are_refused(name):
    X = RNG.normal(size=(8, 2, 30))
    clf = RandomConvolutionClassifier(168, random_state=0).fit(
        NAMED[name](X, ["a", "b"]), [0, 1] * 4
    )
    assert clf.feature_names_in_.tolist() == ["a", "b"]
    clf.predict(NAMED[name](X, ["a", "b"]))
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(NAMED[name](X[:, ::-1], ["b", "a"]))


def test_an_index_of_time_in_xarray():
    xr = lib("xarray")
    days = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-05"])
    X = [xr.DataArray(x[:, :3], dims=("lead", "day"), coords={"day": days}) for x in WHOLE]
    assert to_padded(X, index=True).times[0].tolist() == [0.0, 86400.0, 4 * 86400.0]
    for container in ([lib("polars").DataFrame(x.T) for x in WHOLE], WHOLE.tolist()):
        with pytest.raises(ValueError, match="timestamps='index' takes times from a pandas index"):
            to_padded(container, index=True)


def test_polars_without_pyarrow(monkeypatch):
    polars = lib("polars")
    frames = [polars.DataFrame(x.T, ["a", "b"]) for x in RAGGED]

    def refuse(*_: Any, **__: Any) -> None:
        raise ModuleNotFoundError("pa.Table requires 'pyarrow' module to be installed")

    monkeypatch.setattr(polars.DataFrame, "to_pandas", refuse)
    monkeypatch.setattr(polars.Series, "to_pandas", refuse)
    np.testing.assert_array_equal(to_padded(frames).values, expected(RAGGED).values)
    column = polars.Series([x.tolist() for x in ONE])
    np.testing.assert_array_equal(to_padded(column).values, expected(ONE).values)


def test_a_long_table_of_frames():
    table = to_long([lib("polars").DataFrame(x.T, ["a", "b"]) for x in RAGGED])
    assert list(table) == ["case", "time", "a", "b"]
    np.testing.assert_array_equal(table["b"], np.concatenate([x[1] for x in RAGGED]))


# --- one array, text and lists ------------------------------------------------------------------


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
        (np.zeros((3, 4, 0)), r"X contains empty series: .*\(3, 4, 0\)"),
        ([np.zeros((2, 3)), np.zeros((2, 0))], "series 1 is empty"),
        ([np.zeros((1, 2, 3))], r"series 0 must be \(length,\) or .*its shape is \(1, 2, 3\)"),
        ([np.zeros(2), np.array(["a", "b"])], "series 1 must contain real numbers; its dtype is"),
    ],
)
def test_refused_with_a_reason(X, message):
    with pytest.raises(ValueError, match=message):
        to_padded(X)


LETTERS = ["abc", "abd"]
TO_LONG = "tsformer.data.from_long, use codes of symbols with stem='embedding'"


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (LETTERS, f"X is a list of str, such as 'abc', .* {TO_LONG}"),
        (pd.Series(LETTERS), f"X is a Series of str, such as 'abc', .* {TO_LONG}"),
        ([Path("a.csv")], r"X is a list of PosixPath, .*'a.csv'.*, read files first"),
        ([{"a": 1.0}], "X is a list of dict, such as {'a': 1.0}, and a series is made of numbers"),
        ([["no", "yes"]], "X holds text, such as 'no'; for symbols use their codes"),
        (WHOLE.astype(str), r"X holds text, .*; for numbers in text use np.asarray\(X, dtype=f"),
        (np.array([["a", 1.0]], dtype=object), "X holds text, such as 'a'; for symbols"),
        (pd.DataFrame({"t": [0, 1], "who": ["p0", "p0"]}), r"no numbers: \['who'\], such as 'p0'"),
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


def test_no_container():
    with pytest.raises(TypeError, match=r"got generator, which list\(X\) makes a list of"):
        to_padded(x for x in WHOLE)
    with pytest.raises(TypeError, match=r"got set\. Convert it to an array"):
        to_padded({1.0, 2.0})


def test_frames_with_a_column_of_times():
    frame = pd.DataFrame({"day": pd.date_range("2024", periods=3), "x": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match=r"pandas DataFrame: x.set_index\('day'\), or x.to_pan"):
        to_padded([frame])
    assert to_padded([frame.set_index("day")], index=True).clock == "dates"


def test_infinity_is_refused_with_its_place():
    X = WHOLE.copy()
    X[1, 0, 2] = -np.inf
    for container in (X, list(X), X[:, 0]):
        with pytest.raises(ValueError, match="infinity at series 1, channel 0, step 2"):
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


def test_a_series_without_any_value_is_refused():
    X = WHOLE.copy()
    X[2] = np.nan
    for container in (X, list(X)):
        with pytest.raises(ValueError, match="series 2 has no value at all"):
            to_padded(container)


def test_masked_values_are_missing():
    X = np.ma.array(WHOLE.astype(int), mask=False)
    X[1, 0, 2] = np.ma.masked
    assert np.argwhere(np.isnan(to_padded(X).values)).tolist() == [[1, 2, 0]]


# --- frames --------------------------------------------------------------------------------------


def levels(*rows: Any, **columns: Any) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(rows)
    return pd.DataFrame(columns or {"a": np.ones(len(rows))}, index=index)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (levels((0, 0), a=["x"]), "must contain real"),
        (levels((7, 1), (7, 0)), r"steps of series 7 are not sorted; use X.sort_index\(\)"),
        (levels((0, 0, 0)), "must have two levels"),
        # Two series of one name; sort_index would make one of them.
        (levels(*[("p", 0), ("p", 1)] * 2), "two rows for series 'p' and step 0; give each series"),
        (levels(("p", "2024-01-01"), ("p", "2024-01-01 00:00")), "two rows .* and step 2024-01-01"),
        (levels(("p", 0), (None, 0)), "index of X has no series in row 1"),
        (levels(("p", 0), ("p", None)), "index of X has no step in row 1"),
        (pd.DataFrame({"a": [pd.Series([1.0, 2], index=[5, 5])]}), "series 0 have step 5 twice"),
        (
            pd.DataFrame([[pd.Series([1.0, 2], index=[0, 1]), pd.Series([1.0, 2], index=[1, 0])]]),
            "the cells of series 0 differ in their indices",
        ),
        (pd.DataFrame({"a": []}, index=pd.MultiIndex.from_arrays([[], []])), "no series"),
        (
            pd.DataFrame({"a": [pd.Series([1.0, 2])], "b": [pd.Series([1.0])]}),
            r"of equal length; got shapes \{'a': \(2,\), 'b': \(1,\)\}",
        ),
        (
            pd.DataFrame({"id": ["p"], "x": [[1.0, 2]], "age": [7]}),
            r"series 0 has single values, and no series, in the columns \['id', 'age'\]; drop col",
        ),
        (pd.DataFrame({"a": [None, [1.0, 2]]}), "series 0 is None; leave it out, and its label"),
        ([pd.DataFrame({"a": [1.0]}), pd.DataFrame({"b": [1.0]})], r"series 1 has \['b'\]"),
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


def test_errors_of_a_series_come_back_from_other_processes():
    error = pickle.loads(pickle.dumps(SeriesError(3, "series {case} is empty")))
    assert (error.case, str(error)) == (3, "series 3 is empty")
