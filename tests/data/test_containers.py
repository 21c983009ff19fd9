"""All containers hold the same series as NumPy arrays, or are refused by name."""

import pickle
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any
from warnings import catch_warnings

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.utils import check_array
from torch.nn.utils.rnn import pack_sequence

from tsformer.data.containers import to_padded, to_source
from tsformer.data.layout import LayoutWarning
from tsformer.data.series import SeriesError

RNG = np.random.default_rng(0)
WHOLE = RNG.normal(size=(4, 2, 6))
UNCHANGED = WHOLE.copy()
#: Neither sorted by length nor of one length.
RAGGED = [x[:, :n] for x, n in zip(WHOLE, (3, 6, 2, 5), strict=True)]
ONE = [x[0] for x in RAGGED]
BY_STEP = [torch.from_numpy(x.T.copy()) for x in RAGGED]
BF16 = torch.from_numpy(WHOLE).bfloat16()
BF16_VALUES = BF16.double().numpy()
GAPS = np.where(np.abs(WHOLE) < 0.3, np.nan, WHOLE)
NONE = [[[None if np.isnan(v) else float(v) for v in c] for c in x] for x in GAPS]
MASKED = [[np.ma.array(np.nan_to_num(c, nan=9.0), mask=np.isnan(c)) for c in x] for x in GAPS]
NONE_RAGGED = [[c[:n] for c in x] for x, n in zip(NONE, (3, 6, 2, 5), strict=True)]


class Library:
    """A library that is imported when a test uses it, and whose absence skips that test."""

    def __init__(self, name: str):
        self.name = name

    def __getattr__(self, attribute: str) -> Any:
        library = pytest.importorskip(self.name, reason='needs the extras "test" and "parquet"')
        return getattr(library, attribute)


polars, pa, awkward, xr = map(Library, ("polars", "pyarrow", "awkward", "xarray"))
datasets, h5py, scipy_io = map(Library, ("datasets", "h5py", "scipy.io"))


def objects(cells: list[Any], shape: tuple[int, ...] = ()) -> np.ndarray:
    array = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array.reshape(shape or -1)


def matlab(cells: np.ndarray) -> Any:
    """Return what is read from a file with a cell array."""
    file = BytesIO()
    scipy_io.savemat(file, {"X": cells})
    return scipy_io.loadmat(file)["X"]


def variable_length(cells: np.ndarray) -> Any:
    file = h5py.File("series.h5", "w", driver="core", backing_store=False)
    array = file.create_dataset("X", cells.shape, dtype=h5py.vlen_dtype(np.float64))
    for place, cell in np.ndenumerate(cells):
        array[place] = cell
    return array


def columns(series: list[Any]) -> dict[str, list[Any]]:
    return {name: [np.asarray(x[c]).tolist() for x in series] for c, name in enumerate("ab")}


def hugging_face(data: dict[str, Any], style: str | None = None, **options: Any) -> Any:
    return datasets.Dataset.from_dict(data).with_format(style, **options)


def jagged(series: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.nested_tensor(series, layout=torch.jagged)


def xarray(X: np.ndarray, *dims: str) -> Any:
    return xr.DataArray(X, dims=dims or None)


def arrow_lists(series: list[Any]) -> Any:
    return pa.array([x.tolist() for x in series])


def frames(series: list[Any]) -> list[pd.DataFrame]:
    return [pd.DataFrame(x.T, columns=["a", "b"]) for x in series]


def nested(series: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({name: [pd.Series(x[c]) for x in series] for c, name in enumerate("ab")})


FLAT_CELLS = [x[c] for x in RAGGED for c in range(2)]
LISTS = [x.tolist() for x in RAGGED]
STEPS_FIRST = WHOLE.transpose(2, 0, 1)
OBJECT_FRAMES = [pd.DataFrame(x, dtype=object).T for x in NONE]
ONE_CHANNEL = pd.DataFrame([x[0] for x in NONE], dtype=object)
GAPS_OF_ONE = GAPS[:, 0]

SAME = {
    "array": (lambda: WHOLE, WHOLE),
    "array of two dimensions": (lambda: WHOLE[:, 0], WHOLE[:, 0]),
    "masked objects": (
        lambda: np.ma.array(np.nan_to_num(GAPS, nan=9.0).astype(object), mask=np.isnan(GAPS)),
        GAPS,
    ),
    "masked channels": (lambda: MASKED, GAPS),
    "arrays": (lambda: tuple(RAGGED), RAGGED),
    "filled up with NaN": (lambda: expected(RAGGED).values.transpose(0, 2, 1), RAGGED),
    "nested lists": (lambda: LISTS, RAGGED),
    "frames": (lambda: frames(RAGGED), RAGGED),
    "series": (lambda: [pd.Series(x) for x in ONE], ONE),
    "two levels": (lambda: pd.concat(frames(RAGGED), keys=["z", "b", "y", "a"]), RAGGED),
    "cells of series": (lambda: nested(RAGGED), RAGGED),
    "cells of arrays": (lambda: nested(RAGGED).map(np.asarray), RAGGED),
    "cells of frames": (lambda: pd.DataFrame({"x": frames(RAGGED)}), RAGGED),
    "polars, columns of lists": (lambda: polars.DataFrame(columns(RAGGED)), RAGGED),
    "polars, series": (lambda: [polars.Series(x) for x in ONE], ONE),
    "polars, wide": (lambda: polars.DataFrame(WHOLE[:, 0], orient="row"), WHOLE[:, 0]),
    "arrow, tables": (lambda: [pa.table({"a": x[0], "b": x[1]}) for x in RAGGED], RAGGED),
    "arrow, an array of lists": (lambda: arrow_lists(ONE), ONE),
    "arrow, a tensor": (lambda: pa.FixedShapeTensorArray.from_numpy_ndarray(WHOLE), WHOLE),
    "arrow, null": (lambda: pa.table({"x": NONE}), GAPS),
    "arrow in pandas": (
        lambda: pa.table(columns(RAGGED)).to_pandas(types_mapper=pd.ArrowDtype),
        RAGGED,
    ),
    "xarray": (lambda: xarray(WHOLE, "case", "channel", "time"), WHOLE),
    "xarray, steps first": (lambda: xarray(STEPS_FIRST, "Time", "samples", "Features"), WHOLE),
    "xarray, an unknown dimension": (lambda: xarray(STEPS_FIRST, "step", "trial", "x"), WHOLE),
    "xarray without names": (lambda: xarray(WHOLE), WHOLE),
    "xarray, one channel": (lambda: xarray(WHOLE[:, 0].T, "time", "case"), WHOLE[:, 0]),
    "xarray, arrays": (lambda: [xarray(x.T, "time", "lead") for x in RAGGED], RAGGED),
    "xarray, data sets": (
        lambda: [xr.Dataset({"a": ("t", x[0]), "b": ("t", x[1])}) for x in RAGGED],
        RAGGED,
    ),
    "awkward, ragged": (lambda: awkward.Array(LISTS), RAGGED),
    "awkward, None": (lambda: awkward.Array(NONE), GAPS),
    "torch": (lambda: torch.from_numpy(WHOLE).requires_grad_(), WHOLE),
    "torch, tensors": (lambda: [torch.from_numpy(x) for x in RAGGED], RAGGED),
    "torch, nested": (lambda: torch.nested.nested_tensor(list(map(torch.tensor, RAGGED))), RAGGED),
    "torch, jagged": (lambda: jagged(BY_STEP), RAGGED),
    "torch, jagged by channel": (lambda: jagged(BY_STEP).transpose(1, 2), RAGGED),
    "torch, packed": (lambda: pack_sequence(BY_STEP, enforce_sorted=False), RAGGED),
    "torch, bfloat16": (lambda: BF16, BF16_VALUES),
    "bfloat16 of NumPy": (lambda: BF16_VALUES.astype(Library("ml_dtypes").bfloat16), BF16_VALUES),
    "h5py, channels": (lambda: variable_length(objects(FLAT_CELLS, (4, 2))), RAGGED),
    "mat, a row": (lambda: matlab(objects(RAGGED, (1, 4))), RAGGED),
    "mat, column vectors": (lambda: matlab(objects([x[:, None] for x in ONE])), ONE),
    "objects, one row": (lambda: objects(FLAT_CELLS[:2], (1, 2)), RAGGED[:1]),
    "datasets": (lambda: hugging_face({"x": LISTS}), RAGGED),
    "datasets, columns": (lambda: hugging_face(columns(RAGGED)), RAGGED),
    "datasets, one column": (lambda: hugging_face({"x": columns(RAGGED)["a"]})["x"], ONE),
    "datasets, arrow": (lambda: hugging_face({"x": NONE_RAGGED}, "arrow"), NONE_RAGGED),
    "None": (lambda: NONE, GAPS),
    "None, ragged": (lambda: NONE_RAGGED, NONE_RAGGED),
    "None in objects": (lambda: np.array(NONE, dtype=object), GAPS),
    "None in cells": (lambda: pd.DataFrame(columns(NONE)), GAPS),
    "None in frames": (lambda: OBJECT_FRAMES, GAPS),
    "pd.NA": (lambda: [[pd.NA if v is None else v for v in x[0]] for x in NONE], GAPS_OF_ONE),
    "pd.NA in a table": (lambda: ONE_CHANNEL.fillna(pd.NA), GAPS_OF_ONE),
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
    check = partial(check_array, allow_nd=True, ensure_all_finite=False)
    np.testing.assert_array_equal(to_padded(make(), check=check).values, to_padded(make()).values)


REFUSED = {
    "lazy": (lambda: polars.DataFrame(columns(RAGGED)).lazy(), r"pass X\.collect\(\)"),
    "a generator": (lambda: (x for x in WHOLE), r"generator.* list\(X\)"),
    "groups": (lambda: DAYS.groupby("day")[["x"]], r"DataFrameGroupBy.*X\[0\]"),
    "a null cell": (lambda: polars.DataFrame({"a": [[1.0], None]}), "series 1 is None"),
    "tensors in a table": (
        lambda: pa.table({"x": pa.FixedShapeTensorArray.from_numpy_ndarray(WHOLE)}),
        "a Table of tensors; pass ",
    ),
    "unknown dimensions": (lambda: xarray(WHOLE, "x", "y", "time"), "must be case, channel, time"),
    "a single series": (lambda: xarray(WHOLE[0], "channel", "time"), r"X\.expand_dims\('case'\)"),
    "labels in a data set": (
        lambda: xr.Dataset({"a": (("case", "time"), WHOLE[:, 0]), "y": ("case", np.arange(4))}),
        "different dimensions: .*select the channels",
    ),
    "records": (
        lambda: awkward.zip({"a": WHOLE[:, 0], "b": WHOLE[:, 1]}),
        r"must contain real numbers; its dtype is .*np\.stack\(\[x\[name\] for name",
    ),
    "sparse": (lambda: torch.tensor(WHOLE[:, 0]).to_sparse(), r"pass X\.to_dense\(\)"),
    "nested by step": (lambda: torch.nested.nested_tensor(BY_STEP), r"pass \[x\.T for x in X\]"),
    "a dict": (lambda: dict(enumerate(WHOLE)), r"a dict with the keys \[0, 1, 2, 3\]; "),
    "a stream": (
        lambda: hugging_face(columns(RAGGED)).to_iterable_dataset(),
        "an? IterableDataset without __len__",
    ),
    "labels": (
        lambda: hugging_face({**columns(RAGGED), "y": [0, 1, 0, 1]}),
        r"single values, and no series, in the columns \['y'\]",
    ),
    "a cell by step": (lambda: matlab(objects([x.T for x in RAGGED])), r"pass \[x\.T for x in X"),
    "a cell of panels": (lambda: objects([WHOLE] * 4, (2, 2)), "whose cells are arrays of shapes"),
}


NUMBERED = {
    "frames": lambda X, names: [pd.DataFrame(x.T, columns=names) for x in X],
    "lists": lambda X, names: pd.DataFrame(columns(X)).set_axis(names, axis=1),
    "xarray": lambda X, names: xr.DataArray(
        X, dims=("case", "channel", "time"), coords={"channel": names}
    ),
}
NAMED = {
    "polars": lambda X: polars.DataFrame(columns(X)),
    "arrays of xarray by name": lambda X: xr.Dataset(
        {name: (("case", "time"), X[:, i]) for i, name in enumerate("ab")}
    ),
    "datasets": lambda X: hugging_face(columns(X)),
    **{k: partial(make, names=["a", "b"]) for k, make in NUMBERED.items()},
}


@pytest.mark.parametrize("name", NAMED)
def test_channels_have_their_names(name):
    assert to_source(NAMED[name](WHOLE)).channels == ("a", "b")


@pytest.mark.parametrize("name", NUMBERED)
def test_numbers_of_channels_are_names_unless_they_count_from_0(name):
    """Without names, sensors 5 and 3 would be read as 3 and 5."""
    assert to_source(NUMBERED[name](WHOLE, [5, 3])).channels == ("5", "3")
    assert to_source(NUMBERED[name](WHOLE, [0, 1])).channels is None


def test_polars_without_pyarrow(monkeypatch):
    frames = [polars.DataFrame(x.T, ["a", "b"]) for x in RAGGED]

    def refuse(*_: Any, **__: Any) -> None:
        raise ModuleNotFoundError("pa.Table requires 'pyarrow' module to be installed")

    monkeypatch.setattr(polars.DataFrame, "to_pandas", refuse)
    monkeypatch.setattr(polars.Series, "to_pandas", refuse)
    np.testing.assert_array_equal(to_padded(frames).values, expected(RAGGED).values)
    column = polars.Series([x.tolist() for x in ONE])
    np.testing.assert_array_equal(to_padded(column).values, expected(ONE).values)


def levels(*rows: Any, **columns: Any) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(rows)
    return pd.DataFrame(columns or {"a": np.ones(len(rows))}, index=index)


DAYS = pd.DataFrame({"day": pd.date_range("2024", periods=3), "x": [1.0, 2.0, 3.0]})


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize(
    ("X", "message"),
    [
        *REFUSED.values(),
        (np.zeros(5), r"got an array with 1 dimensions and shape \(5,\)"),
        (np.zeros((0, 3, 4)), "X holds no series"),
        (np.zeros((3, 4, 0)), r"X contains empty series: .*\(3, 4, 0\)"),
        ([np.zeros((2, 3)), np.zeros((2, 0))], "series 1 is empty"),
        (pd.DataFrame(index=range(4)), "X has no columns"),
        ([pd.Series([1.0, 2.0], pd.date_range("2024", periods=2)[::-1])], "series 0.*not sorted"),
        ([np.rec.fromarrays([WHOLE[0, 0]])], r"series 0 must .*, as in np.stack\(\[x\[name\]"),
        ([csr_matrix(x) for x in WHOLE], "csr_matrix"),
        ([DAYS], r"x.set_index\('day'\)"),
        # text
        (["abc", "abd"], "X is a list of str, such as 'abc', "),
        ([Path("a.csv")], r"X is a list of PosixPath, .*'a.csv'.*, read files first"),
        (np.array([["a", 1.0]], dtype=object), "X holds text, such as 'a'; for symbols"),
        (WHOLE.astype(str), r"X holds text, .*; for numbers in text use np.asarray\(X, dtype=f"),
        (pd.DataFrame({"t": [0, 1], "who": ["p0", "p0"]}), r"no numbers: \['who'\], such as 'p0'"),
        (pd.DataFrame({0: ["0,5"], 1: [0.7]}), r"no numbers: \['0'\], such as '0,5'.*from_long"),
        # frames and lists
        (levels((7, 1), (7, 0)), r"steps of series 7 are not sorted; use X.sort_index\(\)"),
        (levels((0, 0, 0)), "must have two levels"),
        # Two series of one name; sort_index would make one of them.
        (levels(*[("p", 0), ("p", 1)] * 2), "two rows for series 'p' and step 0; give each series"),
        (levels(("p", 0), ("p ", 1)), "'p '"),
        (levels(("p", 0), (None, 0)), "index of X has no series in row 1"),
        (pd.DataFrame({"a": [pd.Series([1.0, 2], index=[5, 5])]}), "series 0 have step 5 twice"),
        (pd.DataFrame([[pd.Series([1.0, 2], i) for i in ([0, 1], [1, 0])]]), "series 0.*indices"),
        (pd.DataFrame({"a": []}, index=pd.MultiIndex.from_arrays([[], []])), "no series"),
        (pd.DataFrame({"a": [pd.Series([1.0, 2])], "b": [pd.Series([1.0])]}), r"\(2,\), 'b': \(1"),
        (pd.DataFrame({"id": ["p"], "x": [[1.0, 2]], "age": [7]}), r"series 0.*\['id', 'age'\]"),
        ([pd.DataFrame({"a": [1.0]}), pd.DataFrame({"b": [1.0]})], r"series 1 has \['b'\]"),
        ([[1.0, 2.0], [[1.0, 2.0], [3.0]]], "series 1 must be .*its channels differ in length"),
        ([[1.0, 10**400]], "X holds an integer beyond float64"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_refused_with_a_reason(X, message):
    with pytest.raises((TypeError, ValueError), match=message):
        to_padded(X() if callable(X) else X)


def test_infinity_and_series_without_values_are_refused_with_their_place():
    X = WHOLE.copy()
    X[1, 0, 2] = -np.inf
    for container in (X, list(X), X[:, 0]):
        with pytest.raises(ValueError, match="infinity at series 1, channel 0, step 2"):
            to_padded(container)
    X = WHOLE.copy()
    X[2] = np.nan
    for container in (X, list(X)):
        with pytest.raises(ValueError, match="series 2 has no value at all"):
            to_padded(container)


def test_times_from_the_index():
    index = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-05"])
    X = [pd.DataFrame({"a": [1.0, 2, 3]}, index=index), pd.DataFrame({"a": [1.0]}, index=index[:1])]
    days = np.array([[0, 1, 4], [0, 0, 0]]) * 86400.0
    for container in (X, pd.concat(X, keys=[1, 0]), [x["a"] for x in X]):
        series = to_padded(container, index=True)
        np.testing.assert_array_equal(series.times, days)
        assert series.clock == "dates"
        assert to_padded(container).times is None
    with pytest.raises(ValueError, match="given twice"):
        to_padded(X, [0, 1, 2], index=True)
    X = [xr.DataArray(x[:, :3], dims=("lead", "day"), coords={"day": index}) for x in WHOLE]
    assert to_padded(X, index=True).times[0].tolist() == [0.0, 86400.0, 4 * 86400.0]
    for container in (WHOLE, RAGGED, [polars.DataFrame(x.T) for x in WHOLE], WHOLE.tolist()):
        with pytest.raises(ValueError, match="index"):
            to_padded(container, index=True)


@pytest.mark.parametrize(
    ("index", "warned"), [([3, 1, 2], True), ([0.5, 0.7, 0.6], True), ([3, 2, 1], False)]
)
def test_numbers_in_an_index_that_are_not_sorted_are_warned_of(index, warned):
    X = [pd.Series([1.0, 2, 3]), pd.Series([1.0, 2, 3], index=index)]
    warning = pytest.warns(LayoutWarning, match=r"index of series 1 are not sorted; use x\.sort")
    with warning if warned else catch_warnings(action="error"):
        assert to_padded(X).values[1, :, 0].tolist() == [1, 2, 3]
    X = xr.DataArray([[1.0, 2, 3]], dims=("case", "time"), coords={"time": index})
    warning = pytest.warns(LayoutWarning, match=r"series 0 are not sorted; use X.sortby\('time'\)")
    with warning if warned else catch_warnings(action="error"):
        assert to_padded(X).values[0, :, 0].tolist() == [1, 2, 3]


def test_errors_of_a_series_come_back_from_other_processes():
    error = pickle.loads(pickle.dumps(SeriesError(3, "series {case} is empty")))
    assert (error.case, str(error)) == (3, "series 3 is empty")
