"""All containers hold the same series as NumPy arrays, or are refused by name."""

import pickle
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.utils import check_array

from tsformer.data.containers import to_padded, to_source
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


polars, pa, datasets = map(Library, ("polars", "pyarrow", "datasets"))


class Dims:
    """An array of xarray, whose dimensions are in any order."""

    dims, coords = ("time", "case"), ()

    def __init__(self, values: np.ndarray):
        self.__array__ = lambda *_, **__: values


def objects(cells: list[Any]) -> np.ndarray:
    return np.fromiter(cells, dtype=object)


def columns(series: list[Any]) -> dict[str, list[Any]]:
    return {name: [np.asarray(x[c]).tolist() for x in series] for c, name in enumerate("ab")}


def hugging_face(data: dict[str, Any], style: str | None = None, **options: Any) -> Any:
    return datasets.Dataset.from_dict(data).with_format(style, **options)


def frames(series: list[Any]) -> list[pd.DataFrame]:
    return [pd.DataFrame(x.T, columns=["a", "b"]) for x in series]


def nested(series: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({name: [pd.Series(x[c]) for x in series] for c, name in enumerate("ab")})


LISTS = [x.tolist() for x in RAGGED]
OBJECT_FRAMES = [pd.DataFrame(x, dtype=object).T for x in NONE]
ONE_CHANNEL = pd.DataFrame([x[0] for x in NONE], dtype=object)
GAPS_OF_ONE = GAPS[:, 0]

SAME = {
    "array": (lambda: WHOLE, WHOLE),
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
    "polars, wide": (lambda: polars.DataFrame(WHOLE[:, 0], orient="row"), WHOLE[:, 0]),
    "arrow, tables": (lambda: [pa.table({"a": x[0], "b": x[1]}) for x in RAGGED], RAGGED),
    "arrow, an array of lists": (lambda: pa.array([x.tolist() for x in ONE]), ONE),
    "arrow, null": (lambda: pa.table({"x": NONE}), GAPS),
    "torch": (lambda: torch.from_numpy(WHOLE).requires_grad_(), WHOLE),
    "torch, tensors": (lambda: [torch.from_numpy(x) for x in RAGGED], RAGGED),
    "torch, bfloat16": (lambda: BF16, BF16_VALUES),
    "objects": (lambda: objects(RAGGED), RAGGED),
    "datasets": (lambda: hugging_face({"x": LISTS}), RAGGED),
    "datasets, columns": (lambda: hugging_face(columns(RAGGED)), RAGGED),
    "None": (lambda: NONE, GAPS),
    "None in objects": (lambda: np.array(NONE, dtype=object), GAPS),
    "None in frames": (lambda: OBJECT_FRAMES, GAPS),
    "pd.NA in a table": (lambda: ONE_CHANNEL.fillna(pd.NA), GAPS_OF_ONE),
}


def expected(series: Any) -> Any:
    return to_padded([np.array(x, dtype=np.float64) for x in series])


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
    "a mapping": lambda: {"train": WHOLE},
    "lazy": lambda: polars.DataFrame(columns(RAGGED)).lazy(),
    "a generator": lambda: (x for x in WHOLE),
    "xarray": lambda: Dims(WHOLE),
    "arrays of xarray": lambda: list(map(Dims, RAGGED)),
    "records": lambda: np.rec.fromarrays([WHOLE[:, 0], WHOLE[:, 1]]),
    "sparse": lambda: torch.tensor(WHOLE[:, 0]).to_sparse(),
    "nested": lambda: torch.nested.nested_tensor(BY_STEP),
    "series by step": lambda: BY_STEP,
    "a stream": lambda: hugging_face(columns(RAGGED)).to_iterable_dataset(),
    "labels": lambda: hugging_face({**columns(RAGGED), "y": [0, 1, 0, 1]}),
    "cells of panels": lambda: objects([WHOLE] * 4),
    "no steps": lambda: np.zeros((3, 4, 0)),
    "an empty series": lambda: [np.zeros((2, 3)), np.zeros((2, 0))],
    "dates as values": lambda: [DAYS],
    "strings": lambda: ["abc", "abd"],
    "text": lambda: WHOLE.astype(str),
    "complex": lambda: pd.DataFrame(WHOLE[:, 0] * 1j),
    "channels of unequal length": lambda: [[1.0, 2.0], [[1.0, 2.0], [3.0]]],
    "a large integer": lambda: [[1.0, 10**400]],
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    with pytest.raises((TypeError, ValueError), match=r"X|series \d"):
        to_padded(REFUSED[name]())


NUMBERED = {
    "frames": lambda X, names: [pd.DataFrame(x.T, columns=names) for x in X],
    "lists": lambda X, names: pd.DataFrame(columns(X)).set_axis(names, axis=1),
}
NAMED = {
    "polars": lambda X: polars.DataFrame(columns(X)),
    "datasets": lambda X: hugging_face(columns(X)),
    **{k: partial(make, names=["a", "b"]) for k, make in NUMBERED.items()},
}


@pytest.mark.parametrize("name", NAMED)
def test_channels_have_their_names_unless_these_count_from_0(name):
    """Without names, sensors 5 and 3 would be read as 3 and 5."""
    assert to_source(NAMED[name](WHOLE)).channels == ("a", "b")
    if name in NUMBERED:
        assert to_source(NUMBERED[name](WHOLE, [5, 3])).channels == ("5", "3")
        assert to_source(NUMBERED[name](WHOLE, [0, 1])).channels is None


def levels(*rows: Any, **columns: Any) -> pd.DataFrame:
    index = pd.MultiIndex.from_tuples(rows)
    return pd.DataFrame(columns or {"a": np.ones(len(rows))}, index=index)


DAYS = pd.DataFrame({"day": pd.date_range("2024", periods=3), "x": [1.0, 2.0, 3.0]})


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((0, 3, 4)), "no series"),
        ([pd.Series([1.0, 2.0], pd.date_range("2024", periods=2)[::-1])], "series 0"),
        (pd.DataFrame({"id": ["a", "b"], "v": 1}), "tsformer.data.from_long"),
        (pd.DataFrame({"t": [0, 1], "who": ["p0", "p0"]}), "'who': .*'p0'"),
        (levels((7, 1), (7, 0)), "series 7"),
        # Two series of one name; sort_index would make one of them.
        (levels(*[("p", 0), ("p", 1)] * 2), "series 'p'"),
        (levels(("p", 0), ("p ", 1)), "'p '"),
        (levels(("p", 0), (None, 0)), "row 1"),
        (pd.DataFrame([[pd.Series([1.0, 2], i) for i in ([0, 1], [1, 0])]]), "series 0"),
        (pd.DataFrame({"a": [pd.Series([1.0, 2])], "b": [pd.Series([1.0])]}), r"\(2,\), 'b': \(1"),
        ([pd.DataFrame({"a": [1.0]}), pd.DataFrame({"b": [1.0]})], r"series 1 has \['b'\]"),
    ],
)
def test_the_place_of_a_mistake_is_named(X, message):
    with pytest.raises(ValueError, match=message):
        to_padded(X)


def test_infinity_and_series_without_values_are_refused_with_their_place():
    X, lost = WHOLE.copy(), WHOLE.copy()
    X[1, 0, 2], lost[2] = -np.inf, np.nan
    for as_container in (np.asarray, list):
        with pytest.raises(SeriesError, match="series 1, channel 0, step 2"):
            to_padded(as_container(X))
        with pytest.raises(SeriesError, match="series 2"):
            to_padded(as_container(lost))


def test_times_from_the_index():
    index = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-05"])
    X = [pd.DataFrame({"a": [1.0, 2, 3]}, index=index), pd.DataFrame({"a": [1.0]}, index=index[:1])]
    for container in (X, pd.concat(X, keys=[1, 0]), [x["a"] for x in X]):
        series = to_padded(container, index=True)
        np.testing.assert_array_equal(series.times, np.array([[0, 1, 4], [0, 0, 0]]) * 86400.0)
        assert (series.clock, to_padded(container).times) == ("dates", None)
    with pytest.raises(ValueError):
        to_padded(X, [0, 1, 2], index=True)
    for container in (WHOLE, RAGGED, WHOLE.tolist()):
        with pytest.raises(ValueError):
            to_padded(container, index=True)


def test_errors_of_a_series_come_back_from_other_processes():
    error = pickle.loads(pickle.dumps(SeriesError(3, "series {case} is empty")))
    assert (error.case, str(error)) == (3, "series 3 is empty")
