"""Convert any container of series to one padded array; the only module that does."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer.data.formats import parquet_files, read_parquet
from tsformer.data.layout import CASE, refuse_alike, warn_misread
from tsformer.data.native import as_names, is_series, native, native_item, to_numpy
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
    mapped_rows,
    parts_of,
)
from tsformer.data.times import DATES, missing_rows, ordered_times, pad_times

#: The series in a folder that `tsformer convert` made.
SERIES_FILE = "series.npy"
#: One series, with its times where it has a pandas index.
Item = np.ndarray | pd.DataFrame | pd.Series
Names = tuple[str, ...] | None
Check = Callable[[Any], npt.NDArray[Any]]
_NO_SERIES = "X holds no series: Found array with 0 sample(s)"


def to_padded(X: Any, times: Any = None, **options: Any) -> Padded:
    """Convert a container of series to padded values in memory; see `to_source`."""
    return to_source(X, times, **options).padded()


def to_source(
    X: Any, times: Any = None, *, index: bool = False, check: Check = np.asarray
) -> SeriesSource:
    """Make a container of series readable in parts, without changing the caller's data.

    `X` is one array or table ``(n, length)`` or ``(n, channels, length)``, or anything sliced like
    one; a path; a data set; a list of ``(channels, length)``, or of DataFrames ``(length,
    channels)``; a table with cells of series; or one with two index levels, series and step.
    `times` are as in `pad_times`, or the pandas `index` of each series. `check` validates an array.
    """
    if isinstance(X, SeriesSource):
        return X
    if index and times is not None:
        raise ValueError("times are given twice: by times= and by timestamps='index'")
    container = X
    if type(X) is not np.ndarray or X.dtype.kind not in "fiub":  # else nothing to convert
        X = _in_file(Path(X)) if isinstance(X, (str, os.PathLike)) else mapped_rows(native(X))
        if (separate := _one_by_one(X)) is not None:
            if index:
                _check_index(container if isinstance(container, (list, tuple)) else separate[0])
            return _pad(*separate, times, index=index)
        if not index and (isinstance(X, FileRows) or is_sliced(X)):
            _check_shape(X)
            rows = X if isinstance(X, FileRows) else ArrayRows(X)
            check(rows.read(np.array([0])).reshape(1, *X.shape[1:]))
            return _source_of(rows, times)
        if isinstance(X, pd.DataFrame):
            X = pd.DataFrame(_floats(X, "X"), X.index, X.columns)
        elif not hasattr(X, "tocsr"):  # scikit-learn refuses sparse matrices
            X = to_numpy(X)
    if index:
        _check_index([container])
    array = check(X)
    _check_shape(array)
    return _source_of(ArrayRows(array), times)


def _in_file(path: Path) -> Any:
    """Return the rows of a `.npy` file or a folder; the columns of series of Parquet."""
    path = path / SERIES_FILE if (path / SERIES_FILE).is_file() else path
    if files := parquet_files(path):
        table = pd.concat([read_parquet(file) for file in files])
        if cells := columns_of_cells(table):
            return table[cells]
        problem = f"no column of lists of numbers, but {list(table)[:10]}"
        raise ValueError(f"{path} has {problem}; convert a long table with tsformer.data.from_long")
    if not path.is_file():
        problem = f"no {SERIES_FILE} and no Parquet files" if path.exists() else "no such file"
        raise FileNotFoundError(f"{path}: {problem}; tsformer.load_dataset reads data sets by name")
    if path.suffix.lower() != ".npy":
        raise ValueError(f"{path} is no .npy file; `tsformer convert FILE --out FOLDER` makes one")
    try:
        # The mapping ends with this call: it would count as memory.
        return mapped_rows(np.lib.format.open_memmap(path, mode="r"))
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path} does not hold an array of numbers: {error}") from error


def _floats(table: pd.DataFrame, title: str) -> Floats:
    """Return the numbers of a table; ValueError for other columns."""
    kinds = {getattr(dtype, "kind", "O") for dtype in table.dtypes}
    try:
        if not kinds or kinds & {*"cmM"}:
            raise ValueError("dates and complex numbers are no values")
        if "O" in kinds:
            table = table.where(table.notna(), np.nan)
        return table.to_numpy(dtype=np.float64, na_value=np.nan)
    except (TypeError, ValueError) as error:
        texts = [(name, str(t)) for name, t in table.dtypes.items() if t.kind not in "fiub"]
        columns = f"it has the columns {dict(texts[:10])} ({error}): drop or convert them"
        long = "a long table is read by tsformer.data.from_long"
        raise ValueError(f"{title} must contain real numbers; {columns}; {long}") from error


def _one_by_one(X: Any) -> tuple[list[Item], Names] | None:
    """Return separate series, and the names of their channels; None for one array."""
    if isinstance(X, pd.DataFrame):
        if isinstance(X.index, pd.MultiIndex):
            return _by_first_level(X), None
        if not columns_of_cells(X):
            return None
        rows = X.itertuples(index=False, name=None)
        items = [from_cells(row, X.columns, f"series {i}") for i, row in enumerate(rows)]
        single = all(np.ndim(native_item(cell, "series 0")) == 1 for cell in X.iloc[0])
        return items, as_names(X.columns) if single else None
    separate = isinstance(X, (pd.Series, np.ndarray))
    if separate and not (X.ndim == 1 and len(X) and _is_cell(next(iter(X)))):
        return None
    if isinstance(X, (list, tuple)):
        separate = any(x is None or is_series(x) for x in X)
        if not separate and X and all(isinstance(x, (list, tuple)) for x in X):
            try:
                np.asarray(X)
            except (TypeError, ValueError):  # TypeError for tensors of bfloat16 in them
                separate = True  # they differ in length
    elif not separate:  # a data set, as in PyTorch and Hugging Face
        if any(hasattr(X, attribute) for attribute in ("__array__", "tocsr", "dtype")):
            return None
        if not hasattr(X, "__getitem__") or not hasattr(X, "__len__"):
            raise TypeError(f"X must be an array (n, channels, length); got a {type(X).__name__}")
        X = [X[i] for i in range(len(X))]
        X = [x[0] if isinstance(x, tuple) and x else x for x in X]
        if not X:
            raise ValueError(_NO_SERIES)
        if all(isinstance(x, Mapping) for x in X):
            return _one_by_one(pd.DataFrame(X))
        separate = True
    return ([native_item(x, f"series {i}") for i, x in enumerate(X)], None) if separate else None


def _by_first_level(X: pd.DataFrame) -> list[Item]:
    """Return the series of a table with two levels of rows."""
    index: Any = X.index
    if index.nlevels != 2 or not len(X):
        levels = f"{list(index.names)} of {len(X)} rows"
        raise ValueError(f"the index of X must have two levels, series and step; got {levels}")
    cases, steps = (index.get_level_values(level) for level in (0, 1))
    if (missing := cases.isna() | steps.isna()).any():
        row = int(missing.argmax())
        raise ValueError(f"the index of X has no series or no step in row {row}; drop the row")
    refuse_alike(cases.unique(), "the first level of the index of X")
    codes, names = pd.factorize(cases)
    rows_of = X.set_axis(ordered_times(steps, "steps of X")).groupby(codes)
    frames = [frame.copy() for _, frame in rows_of]
    for name, frame in zip(names.tolist(), frames, strict=True):
        frame.attrs[CASE] = name
        if not (frame.index.is_unique and frame.index.is_monotonic_increasing):
            problem = "are not sorted, or a step has two rows; give each series its own name"
            raise ValueError(f"steps of series {name!r} {problem}, and sort X and y")
    return list(frames)


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


def _pad(items: Sequence[Item], names: Names, times: Any, *, index: bool) -> SeriesSource:
    """Pad the series to one array."""
    series = [as_channels(x, f"series {i}") for i, x in enumerate(items)]
    names = common_names(items) or names
    _check_channels(series)
    indices = [getattr(x, "index", None) for x in items]
    _check_order(indices)
    lengths = np.array([x.shape[1] for x in series], dtype=np.int64)
    values = np.full((len(series), len(series[0]), int(lengths.max())), np.nan)
    for padded, x in zip(values, series, strict=True):
        padded[:, : x.shape[1]] = x
    times = indices if index else times
    if times is None:
        warn_of_missing_rows(items)
    return _source_of(ArrayRows(values, lengths), times, names)


def times_of(x: Any) -> pd.Index | None:
    """Return the index of a series if it has times, and not the rows of a table."""
    if not isinstance(x, (pd.DataFrame, pd.Series)):
        return None
    return x.index if CASE in x.attrs or isinstance(x.index, DATES) else None


def warn_of_missing_rows(items: Sequence[Any]) -> None:
    """Issue a `LayoutWarning` if rows are missing from regular times of series."""
    indices = [index for x in items if (index := times_of(x)) is not None]
    if len(indices) < len(items) or (gaps := missing_rows(indices)) is None:
        return
    step, n_missing, share = gaps
    way = f"`grid={step}` where the table is read" if items[0].attrs else f"x.asfreq({step})"
    warn_misread(
        f"times are {step} apart, but {n_missing:,} rows are missing, {share:.1%} of all, and gaps "
        f'are not seen: pass `timestamps="index"`, or insert the missing rows with {way}'
    )


def _check_order(indices: Iterable[Any]) -> None:
    """Raise ValueError for dates and numbers in an index that are not sorted."""
    for i, index in enumerate(indices):
        if not isinstance(index, pd.Index) or index.is_monotonic_increasing:
            continue
        numbers = index.dtype.kind in "iuf" and not index.is_monotonic_decreasing
        if numbers or isinstance(index, DATES):
            raise ValueError(f"the index of series {i} is not sorted; use x.sort_index()")


def _check_index(X: Sequence[Any]) -> None:
    """Raise ValueError if a series has no pandas index."""
    for x in X:
        if not isinstance(x, (pd.DataFrame, pd.Series)):
            kind = type(x).__name__
            raise ValueError(f"timestamps='index' needs a pandas index; X has a {kind}: pass times")


def _check_shape(X: Any) -> None:
    """Raise ValueError unless an array holds series of numbers."""
    shape = tuple(X.shape)
    if shape[:1] == (0,):
        raise ValueError(_NO_SERIES)
    if len(shape) not in (2, 3):
        raise ValueError(f"X must be (n, length) or (n, channels, length); got the shape {shape}")
    if X.dtype.kind not in "fiub":
        raise ValueError(f"X must contain real numbers; its dtype is {X.dtype}")
    if 0 in shape:
        problem = f"0 feature(s) (shape={shape}) while a minimum of 1 is required"  # scikit-learn's
        raise ValueError(f"X contains empty series: {problem}")


def _source_of(rows: Rows, times: Any = None, names: Names = None) -> SeriesSource:
    """Read all rows once, for lengths, gaps and checks; keep one chunk that is in no file."""
    n = len(rows.lengths)
    lengths = np.zeros(n, dtype=np.int64)
    gaps = Gaps(np.zeros((n, rows.n_channels), np.int32), np.zeros(n, bool), np.zeros(n, bool))
    kept: Padded | None = None
    for index in parts_of(rows):
        try:
            chunk = _trimmed(gathered(rows, index))
        except SeriesError as error:
            raise error.among(index) from None
        lengths[index] = chunk.lengths
        for array, values in zip(gaps, chunk.gaps or (), strict=chunk.gaps is not None):
            array[index] = values
        kept = chunk if len(index) == n and not rows.in_file else None
    # The last steps may have times and no values.
    n_steps = int(lengths.max())
    clock = None
    if times is not None:
        times, clock = pad_times(times, rows.lengths)
        times = times[:, :n_steps]
    if kept is not None:
        return replace(kept, times=times, clock=clock, channels=names)
    known = gaps if gaps.missing.any() else None
    return StoredSeries(rows, np.arange(n), lengths, n_steps, known, times, clock, names)


def _trimmed(values: Floats) -> Padded:
    """Check values, and cut each series after its last."""
    if np.isinf(values).any():
        case, step, channel = np.argwhere(np.isinf(values))[0].tolist()
        position = f"series {{case}}, channel {channel}, step {step}"
        raise SeriesError(case, f"Input X contains infinity at {position}; a missing value is NaN")
    with_value = np.asarray(~np.isnan(values).all(axis=-1))
    without = ~with_value.any(axis=1)
    if without.any():
        problem = "series {case} has no value at all: Input X contains NaN in each step; drop it"
        raise SeriesError(int(without.argmax()), problem)
    # Trailing missing steps are a common way to store a shorter series.
    lengths = values.shape[1] - np.argmax(with_value[:, ::-1], axis=1).astype(np.int64)
    return Padded(values[:, : int(lengths.max())], lengths)


def _check_channels(series: Sequence[Floats]) -> None:
    """Raise ValueError for empty series or differing channels."""
    for i, x in enumerate(series):
        if len(x) != len(series[0]):
            raise ValueError(
                "all series (channels, length) must have the same channels: series 0 has the shape "
                f"{series[0].shape}, series {i} {x.shape}; [x.T for x in X] swaps the axes"
            )
        if x.size == 0:
            raise ValueError(f"series {i} is empty; drop it")


def _is_cell(x: object) -> bool:
    """Whether this holds several values."""
    return is_series(x) or isinstance(x, (list, tuple))


def columns_of_cells(table: pd.DataFrame) -> list[Any]:
    """Return the columns whose cells are series."""
    objects = table.loc[:, [getattr(dtype, "kind", "O") == "O" for dtype in table.dtypes]]
    return [name for name, x in objects.items() if _is_cell(next(iter(x.dropna()), None))]


def from_cells(row: Iterable[Any], names: Iterable[Any], title: str) -> Item:
    """Return one series from the cells of a row."""
    cells = [native_item(cell, title) for cell in row]
    if len(cells) == 1 and isinstance(cells[0], pd.DataFrame):
        return cells[0]
    shapes = {name: cell.shape for name, cell in zip(names, cells, strict=True)}
    if any(cell.ndim not in (1, 2) for cell in cells) or len({x.shape[-1] for x in cells}) > 1:
        raise ValueError(f"the cells of {title} must be series of one length; got shapes {shapes}")
    indices = [cell.index for cell in cells if isinstance(cell, pd.Series)]
    if any(not index.equals(indices[0]) for index in indices):
        raise ValueError(f"the cells of {title} differ in their indices; align them by step")
    values = np.concatenate([np.atleast_2d(np.asarray(cell)) for cell in cells])
    if not isinstance(cells[0], pd.Series):
        return values
    return pd.DataFrame(values.T, index=cells[0].index, columns=list(names))


def as_channels(x: Item, title: str) -> Floats:
    """Return one series as (channels, length)."""
    if isinstance(x, (pd.DataFrame, pd.Series)):
        return _floats(x.to_frame() if isinstance(x, pd.Series) else x, title).T
    if x.ndim not in (1, 2) or x.dtype.kind not in "fiub":
        raise ValueError(
            f"{title} must contain real numbers, (channels, length); got {x.dtype}, shape {x.shape}"
        )
    return np.atleast_2d(x)


def common_names(items: Sequence[Item]) -> Names:
    """Return the channel names of DataFrames."""
    frames = [x for x in items if isinstance(x, pd.DataFrame)]
    if len(frames) < len(items):
        return None
    for i, frame in enumerate(frames):
        if not frame.columns.equals(frames[0].columns):
            columns = [list(x.columns)[:10] for x in (frames[0], frame)]
            problem = f"series 0 has {columns[0]}, series {i} has {columns[1]}"
            raise ValueError(f"all series must have the same channels: {problem}")
    return as_names(frames[0].columns)
