"""All containers hold the same series as NumPy arrays, or are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

from tsformer import RandomConvolutionClassifier
from tsformer.data import to_long
from tsformer.data.containers import to_padded

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
    "fortran": (lambda: np.asfortranarray(WHOLE), WHOLE),
    "masked": (lambda: np.ma.array(WHOLE, mask=False), WHOLE),
    "arrays": (lambda: tuple(RAGGED), RAGGED),
    "filled up with NaN": (lambda: expected(RAGGED).values.transpose(0, 2, 1), RAGGED),
    "nested lists": (lambda: [x.tolist() for x in RAGGED], RAGGED),
    "nested lists of one length": (lambda: WHOLE.tolist(), WHOLE),
    "objects": (lambda: objects(list(WHOLE)), WHOLE),
    "objects of one channel": (lambda: objects(ONE), ONE),
    # pandas
    "frames": (lambda: frames(RAGGED), RAGGED),
    "frames with times": (lambda: frames(WHOLE, pd.date_range("2024", periods=6)), WHOLE),
    "pandas' own types": (lambda: [x.convert_dtypes() for x in frames(RAGGED)], RAGGED),
    "series": (lambda: [pd.Series(x) for x in ONE], ONE),
    "two levels": (lambda: pd.concat(frames(RAGGED), keys=["z", "b", "y", "a"]), RAGGED),
    "cells of series": (lambda: nested(RAGGED), RAGGED),
    "cells of arrays": (lambda: nested(RAGGED).map(np.asarray), RAGGED),
    "cells of lists": (lambda: pd.DataFrame({"x": [x.tolist() for x in ONE]}), ONE),
    "a column of arrays": (lambda: pd.Series(ONE), ONE),
    "a column of lists": (lambda: pd.Series([x.tolist() for x in ONE]), ONE),
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
    "polars, a column of matrices": (lambda: lib("polars").Series(WHOLE), WHOLE),
    "polars, frames": (lambda: [lib("polars").DataFrame(x.T, ["a", "b"]) for x in RAGGED], RAGGED),
    "polars, equal frames": (
        lambda: [lib("polars").DataFrame(x.T, ["a", "b"]) for x in WHOLE],
        WHOLE,
    ),
    "polars, series": (lambda: [lib("polars").Series(x) for x in ONE], ONE),
    "polars, null": (lambda: lib("polars").DataFrame(columns(NONE)), GAPS),
    "polars, wide": (lambda: lib("polars").DataFrame(WHOLE[:, 0], orient="row"), WHOLE[:, 0]),
    "polars, wide with null": (
        lambda: lib("polars").DataFrame(np.array(NONE)[:, 0].tolist(), orient="row"),
        GAPS[:, 0],
    ),
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
    "arrow, equal tables": (
        lambda: tuple(lib("pyarrow").table({"a": x[0], "b": x[1]}) for x in WHOLE),
        WHOLE,
    ),
    "arrow, arrays": (lambda: [lib("pyarrow").array(x) for x in ONE], ONE),
    "arrow, arrays of lists": (lambda: [arrow_lists(list(x)) for x in RAGGED], RAGGED),
    "arrow, an array of lists": (lambda: arrow_lists(ONE), ONE),
    "arrow, its items": (lambda: list(arrow_lists(ONE)), ONE),
    "arrow, chunks": (lambda: lib("pyarrow").chunked_array([arrow_lists(ONE)]), ONE),
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
    "torch, jagged and equal": (
        lambda: jagged(list(torch.from_numpy(WHOLE.transpose(0, 2, 1).copy()))),
        WHOLE,
    ),
    "torch, one channel jagged": (lambda: jagged([torch.tensor(x) for x in ONE]), ONE),
    "torch, packed": (lambda: pack_sequence(BY_STEP, enforce_sorted=False), RAGGED),
    "torch, one channel packed": (
        lambda: pack_sequence([torch.tensor(x) for x in ONE], enforce_sorted=False),
        ONE,
    ),
    "torch, bfloat16": (lambda: BF16, BF16.double().numpy()),
    "torch, bfloat16 each": (lambda: list(BF16), BF16.double().numpy()),
    "torch, bfloat16 channels": (lambda: [list(x) for x in BF16], BF16.double().numpy()),
    "bfloat16 of NumPy": (
        lambda: BF16.double().numpy().astype(lib("ml_dtypes").bfloat16),
        BF16.double().numpy(),
    ),
    "torch, channels": (lambda: [[torch.tensor(c) for c in x] for x in RAGGED], RAGGED),
    # h5py and MATLAB
    "h5py": (lambda: variable_length(objects(ONE)), ONE),
    "h5py, channels": (lambda: variable_length(objects(FLAT_CELLS, (4, 2))), RAGGED),
    "mat, a row": (lambda: matlab(objects(RAGGED, (1, 4))), RAGGED),
    "mat, a column": (lambda: matlab(objects(RAGGED, (4, 1))), RAGGED),
    "mat, one channel": (lambda: matlab(objects(ONE)), ONE),
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
    "datasets, None": (lambda: hugging_face({"x": NONE}), GAPS),
    # None
    "None": (lambda: NONE, GAPS),
    "None in one channel": (lambda: [x[0] for x in NONE], GAPS[:, 0]),
    "None, ragged": (lambda: NONE_RAGGED, NONE_RAGGED),
    "None in tuples": (lambda: tuple(tuple(map(tuple, x)) for x in NONE), GAPS),
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
        r"different dimensions: .*'y': \('case',\)\}; select the channels",
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
    "an HDF5 file": (
        lambda: variable_length(objects(ONE)).file,
        r"a File with the keys \['X'\]; pass one of its values, as X\[key\]",
    ),
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
    "rows": (lambda: list(hugging_face(columns(RAGGED))), r"of dicts pass the series"),
    "groups": (lambda: pd.DataFrame({"a": [1]}).groupby("a"), r"a DataFrameGroupBy.*convert"),
    "column vectors": (
        lambda: matlab(objects([x[:, None] for x in ONE])),
        r"4 column vectors, such as \(3, 1\), .* pass \[x\.ravel\(\) for x in X\.ravel\(\)\]",
    ),
    "a cell by step": (lambda: matlab(objects([x.T for x in RAGGED])), r"pass \[x\.T for x in X"),
    "a cell of text": (lambda: matlab(objects(["ab", "c"])), "series 0 must contain real numbers"),
    "a cell of panels": (lambda: objects([WHOLE] * 4, (2, 2)), "whose cells are arrays of shapes"),
    "a missing series": (lambda: [ONE[0].tolist(), None], "series 1 is None; leave it out"),
    "a missing channel": (lambda: [NONE[0], [ONE[0].tolist(), None]], "series 1 must be"),
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
        with pytest.raises(ValueError, match="timestamps='index' takes the time of each step from"):
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
