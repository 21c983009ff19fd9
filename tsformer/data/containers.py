"""Convert any container of series to one padded array; the only module that does."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import shortened
from tsformer._warnings import warn_caller
from tsformer.data.layout import CASE, LayoutWarning, cut_by_case, refuse_alike, warn_of_gaps
from tsformer.data.native import (
    as_names,
    channel_names,
    has_dims,
    is_series,
    native,
    native_item,
    to_numpy,
)
from tsformer.data.parquet import parquet_files, read_arrow
from tsformer.data.series import (
    ArrayRows,
    FileRows,
    Floats,
    Gaps,
    Padded,
    Rows,
    SeriesError,
    SeriesSource,
    StoredSeries,
    gathered,
    is_sliced,
    npy_header,
    parts_of,
)
from tsformer.data.times import ordered_times, pad_times

#: The series in a folder that `tsformer convert` made.
SERIES_FILE = "series.npy"
#: One series, with its times where it has a pandas index.
Item = np.ndarray | pd.DataFrame | pd.Series
Names = tuple[str, ...] | None
Check = Callable[[Any], npt.NDArray[Any]]
_DATES = (pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex)
_NO_SERIES = "X holds no series: Found array with 0 sample(s)"


def to_padded(
    X: Any, times: Any = None, *, index: bool = False, check: Check = np.asarray
) -> Padded:
    """Convert a container of series to padded values in memory; see `to_source`."""
    return to_source(X, times, index=index, check=check).padded()


def to_source(
    X: Any, times: Any = None, *, index: bool = False, check: Check = np.asarray
) -> SeriesSource:
    """Make a container of series readable in parts, without changing the caller's data.

    `X` is one array, tensor or table ``(n, length)`` or ``(n, channels, length)``, or anything
    sliced like one; the path of a ``.npy`` file, of Parquet with lists or of a folder; a data set
    with `__len__` and `__getitem__`; a list of series ``(length,)`` or ``(channels, length)``, or
    of DataFrames ``(length, channels)``; a DataFrame or Series whose cells are series; or a
    DataFrame with two index levels, series and step. None is a missing value. `times` are as in
    `pad_times`, or the pandas `index` of each series. `check` validates a single array.
    """
    if isinstance(X, SeriesSource):
        return X
    if index and times is not None:
        raise ValueError("times are given twice: by times= and by timestamps='index'")
    plain = type(X) is np.ndarray and X.dtype.kind in "fiub"  # nothing to convert
    if isinstance(X, (str, os.PathLike)):
        if index:
            raise _no_index("a file")
        X = _in_file(Path(X), times, check)
        if isinstance(X, SeriesSource):
            return X
    names = None
    if not plain:
        _refuse_no_container(X)
        X = native(X)
        names = channel_names(X)
        if has_dims(X) and X.dims:  # of xarray, of which the last is the time
            steps, name = X.indexes.get(X.dims[-1]), X.dims[-1]
            check_order([steps], f"X.sortby({name!r}), or X.drop_vars({name!r})")
            if steps is not None and times is None:
                warn_of_gaps([steps], f"pass times=X.indexes[{name!r}], or use X.reindex")
        _refuse_text(X)
    if index and isinstance(X, (list, tuple)):
        _check_index(X)
    if not plain and (separate := _one_by_one(X)) is not None:
        return _pad(*separate, times, index=index)
    if index:
        raise _no_index(f"a single {type(X).__name__} of all series")
    if not plain and is_sliced(X):
        _check_shape(X)
        rows = ArrayRows(X)
        check(rows.read(np.array([0])).reshape(1, *X.shape[1:]))
        return lazy(rows, times, names)
    if isinstance(X, pd.DataFrame):
        columns: Any = X.columns
        if isinstance(columns, pd.DatetimeIndex) and times is None:
            warn_of_gaps([columns], "pass times=X.columns, or X.T.asfreq({step}).T")
        X = _numbers_of(X)
    elif not plain and not hasattr(X, "tocsr"):  # scikit-learn refuses sparse matrices
        X = to_numpy(X)
        if X.dtype.kind == "V" or (X.dtype == object and X.ndim == 1 and len(X)):
            raise _other_type(X, "X")
    array = check(X)
    _check_shape(array)
    return lazy(ArrayRows(array), times, names)


def _in_file(path: Path, times: Any, check: Check) -> SeriesSource | pd.DataFrame:
    """Read the series of a `.npy` file or a folder; the columns of series of Parquet."""
    path = path / SERIES_FILE if (path / SERIES_FILE).is_file() else path
    if files := parquet_files(path):
        table = pd.concat([read_arrow(file) for file in files], ignore_index=True)
        cells = [name for name in table if _is_cell(_first(table[name]))]
        if not cells:
            raise ValueError(
                f"{path} has no column of lists of numbers, but {list(table)[:10]}; a long table "
                "is converted by tsformer.data.from_long"
            )
        return table[cells]
    if path.is_dir():
        raise FileNotFoundError(
            f"{path} has no {SERIES_FILE} and no Parquet files; `tsformer convert FILE... --out "
            "FOLDER` writes one"
        )
    if path.suffix.lower() != ".npy":
        _refuse_no_container(str(path))
    header = npy_header(path)
    _check_shape(header)
    rows: Rows = FileRows(path, header.shape, header.dtype, header.offset)
    if header.fortran_order:  # the values of a series lie apart
        rows = ArrayRows(np.lib.format.open_memmap(path, mode="r"))
    check(rows.read(np.array([0])).reshape(1, *header.shape[1:]))
    return lazy(rows, times)


def _refuse_no_container(X: Any) -> None:
    unsized = hasattr(X, "__getitem__") and not (hasattr(X, "__len__") or hasattr(X, "__array__"))
    ways = ("__getitem__", "__array__", "__arrow_c_stream__", "shape")
    if unsized or isinstance(X, (str, bytes)) or not any(hasattr(X, way) for way in ways):
        advice = "an array (n, channels, length), or a list of arrays (channels, length)"
        for way, conversion in (("__next__", "list(X)"), ("collect", "X.collect()")):
            advice = conversion if hasattr(X, way) else advice
        raise TypeError(
            f"X must be a container of series; got a {type(X).__name__}"
            f"{' without __len__' * unsized}: pass {advice}. Files are read by "
            "tsformer.load_dataset, tsformer.data.read_ts and pandas.read_csv"
        )


def _refuse_text(X: Any) -> None:
    """Raise ValueError if `X` is made of strings."""
    X = X.to_numpy() if isinstance(X, pd.Series) else X
    items = isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.ndim > 0)
    first: Any = X[0] if items and len(X) else None
    if isinstance(first, (str, bytes, os.PathLike, dict)):
        raise ValueError(
            f"X is a {type(X).__name__} of {type(first).__name__}, such as "
            f"{shortened(first, 40)}, and a series is made of numbers: pass codes of symbols with "
            "stem='embedding', read files first, and pass the series of dicts, as in [x[key] for x "
            "in X]"
        )
    while isinstance(first, (list, tuple)) and first:
        first = first[0]
    if isinstance(first, np.ndarray) and first.size:
        first = first.flat[0]
    if not isinstance(first, str):
        return
    convert = "for symbols use their codes, as from pandas.factorize, and stem='embedding'"
    with suppress(ValueError):
        float(first)
        if isinstance(X, np.ndarray) and X.dtype == object:
            return  # scikit-learn converts these
        convert = "for numbers in text use np.asarray(X, dtype=float)"
    raise ValueError(f"X holds text, such as {shortened(first, 40)}; {convert}")


def _numbers_of(X: pd.DataFrame) -> pd.DataFrame:
    """Convert a wide table of several types to float64; refuse columns without numbers."""
    kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
    if not kinds:
        raise ValueError("X has no columns; pass a table with a row per series, a column per step")
    alike = len(set(X.dtypes)) == 1 and isinstance(X.dtypes.iloc[0], np.dtype)
    if (alike and kinds[0] in "fiub") or "c" in kinds or not len(X):
        return X
    columns, others = [], dict[str, Any]()
    for (name, column), kind in zip(X.items(), kinds, strict=True):
        try:
            columns.append(column.to_numpy(dtype=np.float64, na_value=np.nan))
        except (TypeError, ValueError):
            kind = "M"
        if kind in "mM":
            others[str(name)] = column.iloc[0]
    if others:
        raise ValueError(
            f"X has columns that hold no numbers: {[*others][:10]}, such as "
            f"{shortened(str(next(iter(others.values()))), 40)}. Each row is a series, and each "
            "column a step: drop other columns, or convert a long table with "
            "tsformer.data.from_long"
        )
    return pd.DataFrame(np.stack(columns, axis=1), index=X.index, columns=X.columns)


@singledispatch
def _one_by_one(X: Any) -> tuple[list[Item], Names] | None:
    """Return separate series, and the names of their channels; None for one array."""
    arrays = ("__array__", "__dataframe__", "tocsr", "dtype")
    if not hasattr(X, "__getitem__") or any(hasattr(X, attribute) for attribute in arrays):
        return None
    rows: list[Any] = []  # of a data set, as in PyTorch and Hugging Face
    for i in range(len(X)):
        try:
            row = X[i]
        except (KeyError, IndexError, TypeError) as error:
            raise TypeError(
                f"X is a {type(X).__name__} of {len(X)} series by __len__, and X[{i}] raised "
                f"{error!r}; convert it to a list of arrays (channels, length)"
            ) from error
        row = row[0] if isinstance(row, tuple) and row else row
        table = native(row) if hasattr(row, "to_pandas") else row
        cells = isinstance(table, pd.DataFrame) and len(table) == 1 and _has_cells(table)
        rows.append(table.iloc[0].to_dict() if cells else row)
    if not rows:
        raise ValueError(_NO_SERIES)
    if all(isinstance(row, Mapping) for row in rows):
        return _one_by_one(pd.DataFrame(rows))
    return [_one(row, f"series {i}") for i, row in enumerate(rows)], None


@_one_by_one.register
def _(X: pd.DataFrame) -> tuple[list[Item], Names] | None:
    if isinstance(X.index, pd.MultiIndex):
        return _by_first_level(X), None
    if not _has_cells(X):
        return None
    rows = X.itertuples(index=False, name=None)
    items = [from_cells(row, X.columns, f"series {i}") for i, row in enumerate(rows)]
    single = all(np.ndim(_one(cell, "series 0")) == 1 for cell in X.iloc[0])
    return items, as_names(X.columns) if single else None


@_one_by_one.register
def _(X: pd.Series) -> tuple[list[Item], Names] | None:
    numbers = getattr(X.dtype, "kind", "O") in "fiubcmM"
    return None if numbers else _one_by_one(X.to_numpy(dtype=object))


@_one_by_one.register
def _(X: np.ndarray) -> tuple[list[Item], Names] | None:
    """Return the series of an array of arrays, as a cell array of MATLAB."""
    if X.dtype != object or not _is_cell(_first(X.flat)):
        return None
    if X.ndim == 1:
        return _one_by_one(list(X))
    cells = [np.asarray(cell) for cell in X.flat]
    vectors = all(cell.ndim == 1 or (cell.ndim == 2 and 1 in cell.shape) for cell in cells)
    if X.ndim == 2 and 1 in X.shape and all(cell.ndim == 2 for cell in cells):
        return _one_by_one([cell.ravel() for cell in cells] if vectors else cells)
    if X.ndim != 2 or not vectors:
        raise ValueError(
            f"X is an array of shape {X.shape} whose cells are arrays of shapes "
            f"{sorted({cell.shape for cell in cells})[:5]}; pass a list of n arrays (channels, "
            "length), or cells (n, channels) that are vectors"
        )
    rows = [[np.asarray(cell).ravel() for cell in row] for row in X]
    return [from_cells(row, range(len(row)), f"series {i}") for i, row in enumerate(rows)], None


@_one_by_one.register(list)
@_one_by_one.register(tuple)
def _(X: Sequence[Any]) -> tuple[list[Item], Names] | None:
    separate = any(x is None or is_series(x) for x in X)
    if not separate and X and all(isinstance(x, (list, tuple)) for x in X):
        try:
            np.asarray(X)
        except (TypeError, ValueError):  # TypeError for tensors of bfloat16 in them
            separate = True  # they differ in length
    return ([_one(x, f"series {i}") for i, x in enumerate(X)], None) if separate else None


def _one(x: Any, what: str) -> Item:
    """Return an array, or a pandas object as it is."""
    if x is None:
        raise ValueError(f"{what} is None; leave it out, and its label")
    item = native_item(x, what)
    if isinstance(item, pd.DataFrame) and len(item) == 1 and _has_cells(item):
        return from_cells(item.iloc[0], item.columns, what)
    return item


def _by_first_level(X: pd.DataFrame) -> list[Item]:
    index: Any = X.index
    if index.nlevels != 2:
        raise ValueError(
            f"the index of X must have two levels, series and step; got {list(index.names)}"
        )
    if not len(X):
        raise ValueError(_NO_SERIES)
    cases, steps = (index.get_level_values(level) for level in (0, 1))
    for level, values in (("series", cases), ("step", steps)):
        if values.hasnans:
            row = int(values.isna().argmax())
            raise ValueError(f"the index of X has no {level} in row {row}; fill it or drop the row")
    refuse_alike(cases.unique(), "the first level of the index of X")
    codes, first = pd.factorize(index.codes[0])
    items = cut_by_case(X.set_axis(ordered_times(steps, "steps of X")), codes)
    names = index.levels[0].tolist()  # of Python, not of NumPy
    for code, frame in zip(first, items, strict=True):
        frame.attrs[CASE] = name = names[code]
        if not frame.index.is_unique:
            step = frame.index[frame.index.duplicated()][0]
            raise ValueError(
                f"two rows for series {name!r} and step {step}; give each series its own name, or "
                "aggregate them with X.groupby(level=[0, 1], sort=False).mean()"
            )
        if not frame.index.is_monotonic_increasing:
            raise ValueError(
                f"steps of series {name!r} are not sorted; use X.sort_index() first, and sort y by "
                "X.index.unique(0) then"
            )
    return list(items)


def to_items(X: Any) -> Sequence[Item]:
    """Return the series of a container one by one."""
    if isinstance(X, SeriesSource):
        padded = X.padded()
        return [x[:n].T for x, n in zip(padded.values, padded.lengths, strict=True)]
    X = native(X)
    if (separate := _one_by_one(X)) is not None:
        return separate[0]
    array = to_numpy(X)
    _check_shape(array)
    return list(array)


def to_arrays(X: Any) -> list[Floats]:
    """Return the series of a container as arrays (channels, length), missing values as NaN."""
    arrays = [as_channels(x, f"series {i}") for i, x in enumerate(to_items(X))]
    _check_channels(arrays)
    return arrays


def _pad(items: Sequence[Item], names: Names, times: Any, *, index: bool) -> Padded:
    """Pad the series to one array."""
    series = [as_channels(x, f"series {i}") for i, x in enumerate(items)]
    names = common_names(items) or names
    _check_channels(series)
    indices = [getattr(x, "index", None) for x in items]
    check_order(indices, "x.sort_index(), or x.reset_index(drop=True)")
    lengths = np.array([x.shape[1] for x in series], dtype=np.int64)
    values = np.full((len(series), int(lengths.max()), len(series[0])), np.nan)
    for row, x in zip(values, series, strict=True):
        row[: x.shape[1]] = x.T
    if index:
        _check_index(items)
        times = indices
    elif times is None:
        warn_of_missing_rows(items)
    return _finish(values, lengths, times, names)


def times_of(x: Any) -> pd.Index | None:
    """Return the index of a series if it has times, and not the rows of a table."""
    if not isinstance(x, (pd.DataFrame, pd.Series)):
        return None
    return x.index if CASE in x.attrs or isinstance(x.index, _DATES) else None


def warn_of_missing_rows(items: Sequence[Any]) -> None:
    """Warn if the times in the indices of all series have gaps."""
    found = [own for x in items if (own := times_of(x)) is not None]
    if len(found) == len(items):
        way = "`grid={step}` where the table is read" if items[0].attrs else "x.asfreq({step})"
        warn_of_gaps(found, f'pass `timestamps="index"`, or insert the missing rows with {way}')


def check_order(indices: Iterable[Any], fix: str) -> None:
    """Raise ValueError for dates in an index of pandas that are not sorted; warn of numbers."""
    for i, index in enumerate(indices):
        if not isinstance(index, pd.Index) or index.is_monotonic_increasing:
            continue
        message = f"in the index of series {i} are not sorted; use {fix} if the steps are in order"
        if isinstance(index, _DATES):
            raise ValueError(f"times {message}")
        # A table that was sorted by another column leaves such an index, too.
        if index.dtype.kind in "iuf" and not index.is_monotonic_decreasing:
            warn_caller(f"numbers {message}", LayoutWarning)
            return


def _no_index(what: str) -> ValueError:
    return ValueError(
        f"timestamps='index' takes times from a pandas index, and {what} has none: pass times=, or "
        "a list of DataFrames"
    )


def _check_index(X: Sequence[Any]) -> None:
    """Raise ValueError if a series has no pandas index."""
    for i, x in enumerate(X):
        if not isinstance(x, (pd.DataFrame, pd.Series)) and not hasattr(x, "coords"):
            raise _no_index(f"series {i}, a {type(x).__name__},")


def _check_shape(X: Any) -> None:
    """Raise ValueError unless an array holds series of numbers."""
    shape = tuple(X.shape)
    if shape[:1] == (0,):
        raise ValueError(_NO_SERIES)
    if len(shape) not in (2, 3):
        raise ValueError(
            f"X must be (n, length), (n, channels, length), or a list of (channels, length); got "
            f"an array with {len(shape)} dimensions and shape {shape}"
        )
    if X.dtype.kind not in "fiub":
        raise _other_type(X, "X")
    if 0 in shape:
        shape = (shape[0], 1, shape[1]) if len(shape) == 2 else shape
        raise ValueError(
            f"X contains empty series: 0 feature(s) in an array of shape {shape}, while a minimum "
            "of 1 is required"
        )


def lazy(rows: Rows, times: Any = None, channels: Names = None) -> SeriesSource:
    """Read all rows once, for lengths, gaps and checks; keep one part that is in no file."""
    n = len(rows.lengths)
    lengths = np.zeros(n, dtype=np.int64)
    gaps = Gaps(np.zeros((n, rows.n_channels), np.int32), np.zeros(n, bool), np.zeros(n, bool))
    kept: Padded | None = None
    for index in parts_of(rows):
        values = gathered(rows, index)
        try:
            part = _finish(values, np.full(len(index), values.shape[1]), None)
        except SeriesError as error:
            raise error.among(index) from None
        lengths[index] = part.lengths
        for whole, some in zip(gaps, part.gaps or (), strict=part.gaps is not None):
            whole[index] = some
        kept = part if len(index) == n and not rows.in_file else None
    # The last steps may have times and no values.
    n_steps = int(lengths.max())
    clock = None
    if times is not None:
        times, clock = pad_times(times, rows.lengths)
        times = times[:, :n_steps]
    if kept is not None:
        return replace(kept, times=times, clock=clock, channels=channels)
    found = gaps if gaps.missing.any() else None
    return StoredSeries(rows, np.arange(n), lengths, n_steps, found, times, clock, channels)


def _finish(
    values: Floats, lengths: npt.NDArray[np.int64], times: Any, channels: Names = None
) -> Padded:
    """Check values, cut each series after its last, add times."""
    if np.isinf(values).any():
        case, step, channel = np.argwhere(np.isinf(values))[0].tolist()
        raise SeriesError(
            case,
            f"Input X contains infinity at series {{case}}, channel {channel}, step {step}; pass "
            "NaN for missing values",
        )
    clock = None
    if times is not None:
        times, clock = pad_times(times, lengths)
    observed: npt.NDArray[np.bool_] = ~np.isnan(values)
    if observed.all():
        return Padded(values, lengths, times, clock, channels)
    with_value = np.asarray(observed.any(axis=-1))
    without = ~with_value.any(axis=1)
    if without.any():
        raise SeriesError(
            int(without.argmax()),
            "series {case} has no value at all: Input X contains NaN in all of its steps; drop it",
        )
    # Trailing missing steps are a common way to store a shorter series.
    lengths = values.shape[1] - np.argmax(with_value[:, ::-1], axis=1).astype(np.int64)
    longest = int(lengths.max())
    times = None if times is None else times[:, :longest]
    return Padded(values[:, :longest], lengths, times, clock, channels)


def _check_channels(series: Sequence[Floats]) -> None:
    """Raise ValueError for empty series or differing channels."""
    for i, x in enumerate(series):
        if len(x) != len(series[0]):
            swapped = len({x.shape[1] for x in series}) == 1
            raise ValueError(
                f"all series must have the same channels: series 0 has {len(series[0])}, series "
                f"{i} has {len(x)} (its shape {x.shape} is read as (channels, length))"
                + ("; if they are (length, channels), pass [x.T for x in X]" if swapped else "")
            )
        if x.size == 0:
            raise ValueError(f"series {i} is empty; drop it")


def _is_cell(x: object) -> bool:
    """Whether this holds several values."""
    return is_series(x) or isinstance(x, (list, tuple))


def _has_cells(X: pd.DataFrame) -> bool:
    """Whether the cells of a table are series."""
    return len(X) > 0 and any(
        _is_cell(_first(X.iloc[:, i]) if cell is None else cell) for i, cell in enumerate(X.iloc[0])
    )


def _first(cells: Iterable[Any]) -> Any:
    """Return the first cell that is not None."""
    return next((cell for cell in cells if cell is not None), None)


def from_cells(row: Iterable[Any], names: Iterable[Any], what: str) -> Item:
    """Return one series from the cells of a row."""
    cells = [_one(cell, what) for cell in row]
    if len(cells) == 1 and isinstance(cells[0], pd.DataFrame):
        return cells[0]
    shapes = {name: cell.shape for name, cell in zip(names, cells, strict=True)}
    if scalars := [name for name, shape in shapes.items() if not shape]:
        raise ValueError(
            f"{what} has single values, and no series, in the columns {scalars[:10]}; drop them"
        )
    if any(cell.ndim > 2 for cell in cells) or len({cell.shape[-1] for cell in cells}) > 1:
        raise ValueError(
            f"the cells of {what} must be (length,) or (channels, length), of one length; got "
            f"{shapes}"
        )
    indices = [cell.index for cell in cells if isinstance(cell, pd.Series)]
    if any(not index.equals(indices[0]) for index in indices):
        raise ValueError(f"the cells of {what} differ in their indices; align them by step")
    if indices and not indices[0].is_unique:
        step = indices[0][indices[0].duplicated()][0]
        raise ValueError(f"the cells of {what} have step {step} twice; aggregate them")
    if isinstance(cells[0], pd.Series):
        columns = [pd.Series(cell).to_numpy() for cell in cells]
        frame = pd.DataFrame(dict(enumerate(columns)), index=cells[0].index)
        return frame.set_axis(list(names), axis=1)
    return np.concatenate([np.atleast_2d(np.asarray(cell)) for cell in cells])


def as_channels(x: Item, what: str) -> Floats:
    """Return one series as (channels, length)."""
    if isinstance(x, (pd.DataFrame, pd.Series)):
        values = x.to_frame() if isinstance(x, pd.Series) else x
        columns = [
            to_numpy(column.to_numpy()) if column.dtype == object else column
            for _, column in values.items()
        ]
        kinds = {getattr(column.dtype, "kind", "O") for column in columns}
        if not kinds <= set("fiub"):
            times = [name for name, column in values.items() if column.dtype.kind in "mM"]
            advice = "convert text with x.astype(float)"
            advice = f"make times the index: x.set_index({times[0]!r})" if times else advice
            raise ValueError(
                f"{what} must contain real numbers; its column dtypes are "
                f"{values.dtypes.astype(str).tolist()}; {advice}"
            )
        return values.to_numpy(dtype=np.float64, na_value=np.nan).T
    if x.ndim not in (1, 2):
        raise ValueError(f"{what} must be (length,) or (channels, length); its shape is {x.shape}")
    x = np.atleast_2d(x)
    if x.dtype.kind not in "fiub":
        raise _other_type(x, what)
    return x


def _other_type(x: Any, what: str) -> ValueError:
    """Return the error for an array of anything but real numbers."""
    stack = ", as in np.stack([x[name] for name in x.dtype.names])" if x.dtype.names else ""
    return ValueError(f"{what} must contain real numbers; its dtype is {x.dtype}{stack}")


def common_names(items: Sequence[Item]) -> Names:
    """Return the channel names of DataFrames."""
    frames = [x for x in items if isinstance(x, pd.DataFrame)]
    if len(frames) < len(items):
        return None
    for i, frame in enumerate(frames):
        if not frame.columns.equals(frames[0].columns):
            raise ValueError(
                "all series must have the same channels: series 0 has "
                f"{list(frames[0].columns)[:10]}, series {i} has {list(frame.columns)[:10]}"
            )
    return as_names(frames[0].columns)
