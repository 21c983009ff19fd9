"""Convert any container of series to one padded array; the only module that does."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from tsformer._names import shortened
from tsformer.data.folder import FolderRows, is_series_folder
from tsformer.data.ids import cut_by_case
from tsformer.data.npy import NpyFile, open_npy
from tsformer.data.panel import Floats, Padded
from tsformer.data.parquet import ParquetSeries, UnpackedRows, parquet_files
from tsformer.data.series import Gaps, SeriesError, SeriesSource, numbered, parts_of
from tsformer.data.stored import ArrayRows, Rows, StoredSeries, gathered, is_sliced
from tsformer.data.times import ordered_times, pad_times

__all__ = ["to_arrays", "to_items", "to_padded", "to_source"]

#: One series, with its times where it has a pandas index.
Item = np.ndarray | pd.DataFrame | pd.Series


def to_padded(
    X: Any,
    times: Any = None,
    *,
    index: bool = False,
    check: Callable[[Any], npt.NDArray[Any]] = np.asarray,
) -> Padded:
    """Convert a container of series to padded values in memory; see `to_source`."""
    return to_source(X, times, index=index, check=check).padded()


def to_source(
    X: Any,
    times: Any = None,
    *,
    index: bool = False,
    check: Callable[[Any], npt.NDArray[Any]] = np.asarray,
) -> SeriesSource:
    """Make a container of series readable in parts, without changing the caller's data.

    An array is read through once, for what must be known of all series, and not copied.

    Parameters
    ----------
    X : object
        One array, tensor or table ``(n, length)`` or ``(n, channels, length)``, in memory or not:
        `numpy.memmap`, what is read by slices, such as arrays of h5py and zarr, and the path of a
        ``.npy`` file, of a Parquet file with a list of values in each row or a folder of such, or
        of a folder that ``tsformer convert`` made; a data set with `__len__` and
        `__getitem__`, such as those of PyTorch and Hugging Face; a list of arrays or tensors
        ``(length,)`` or ``(channels, length)``, of pandas Series, or of DataFrames ``(length,
        channels)``; a DataFrame whose cells are series, one column per channel; or a DataFrame with
        two index levels, series and step, and one column per channel; or a pandas Series of series.
    times : optional
        As in `pad_times`.
    index : bool
        Whether to take the times from the pandas index of each series.
    check : callable
        Validates a single array of all series and returns it as a NumPy array.

    Returns
    -------
    SeriesSource

    Raises
    ------
    ValueError
        If there are no series, one is empty or has no value at all, the number of channels
        differs, a value is infinite or no number, or there is no index to take times from. The
        message names the first offending series.
    TypeError
        If `X` is not a container of series.
    FileNotFoundError
        If there is no such file.
    """
    if index and times is not None:
        raise ValueError("times are given twice: by times= and by timestamps='index'")
    if isinstance(X, SeriesSource):
        return X
    if isinstance(X, (str, os.PathLike)):
        if Path(X).suffix.lower() == ".npy":
            X = open_npy(X)
        elif is_series_folder(X):
            X = FolderRows(X)
        elif parquet_files(X):
            X = UnpackedRows(ParquetSeries(X))
    if isinstance(X, FolderRows):
        if index:
            _refuse_index("folder")
        return _stored(X, times)
    _refuse_no_container(X)
    _refuse_text(X)
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise ValueError(
            f"Complex data not supported: X is {X.dtype}; pass real and imaginary parts as "
            "separate channels"
        )
    items = _one_by_one(X)
    if items is not None:
        return _pad(items, times, index=index)
    if index:
        _refuse_index(type(X).__name__)
    if isinstance(X, NpyFile) or is_sliced(X):
        _check_shape(X)
        check(X[:1])
        return _stored(ArrayRows(X), times)
    if _is_dataset(X):
        return _stored(DatasetRows(X), times)
    array = check(_as_array(X))
    _check_shape(array)
    return _stored(ArrayRows(array), times)


def _refuse_index(container: str) -> NoReturn:
    raise ValueError(
        "timestamps='index' takes the time of each step from the pandas index of each series; "
        f"a single {container} of all series has none. Pass a list of DataFrames, or times= and "
        "timestamps=None"
    )


def _refuse_no_container(X: Any) -> None:
    if isinstance(X, (str, os.PathLike)) and Path(X).is_dir():
        FolderRows(X)  # says what it lacks
    if hasattr(X, "__getitem__") and not any(hasattr(X, way) for way in ("__len__", "__array__")):
        raise TypeError(
            f"X is a {type(X).__name__} without __len__, so that the number of its series is not "
            "known; pass a data set with __len__, or collect its series in a list"
        )
    not_a_container = X is None or isinstance(X, (str, bytes, os.PathLike, dict, int, float))
    if not not_a_container and any(hasattr(X, way) for way in ("__getitem__", "__array__")):
        return
    if hasattr(X, "shape"):  # some sparse matrices are dicts too
        return
    iterable = ", which list(X) makes a list of" if hasattr(X, "__next__") else ""
    raise TypeError(
        "X must be an array (n, channels, length) or another container of series; got "
        f"{type(X).__name__}{iterable}. tsformer.load_dataset reads problems by name, and "
        "tsformer.data.read_ts reads .ts files"
    )


def _refuse_text(X: Any) -> None:
    """Raise ValueError if `X` is made of strings, and say what they could be instead."""
    if isinstance(X, pd.DataFrame):
        if not isinstance(X.index, pd.MultiIndex) and not _has_cells(X):
            _refuse_columns_of_text(X)
        return
    container = type(X).__name__
    X = X.to_numpy() if isinstance(X, pd.Series) else X
    items = isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.ndim > 0)
    first: Any = X[0] if items and len(X) else None
    if isinstance(first, (str, bytes, os.PathLike, dict)):
        raise ValueError(
            f"X is a {container} of {type(first).__name__}, such as {shortened(first, 40)}, "
            "but a series is made of numbers. For a table with one row per observation use "
            "tsformer.data.from_long(table, case=..., time=..., value=...); for symbols use their "
            "codes, as in [[ord(symbol) for symbol in x] for x in X], and stem='embedding'; files "
            "must be read first"
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
    raise ValueError(f"X holds text, such as {shortened(str(first), 40)}; {convert}")


def _refuse_columns_of_text(X: pd.DataFrame) -> None:
    """Raise ValueError if a table ``(n, length)`` has columns that are no numbers."""
    kinds = [getattr(dtype, "kind", "O") for dtype in X.dtypes]
    unknown = [i for i, kind in enumerate(kinds) if kind not in "fiubc"]
    others = [i for i in unknown if kinds[i] in "mM" or not _is_numeric(X.iloc[:, i])]
    if others and len(X):
        names = [str(X.columns[i]) for i in others]
        first = shortened(str(X.iloc[0, others[0]]), 40)
        raise ValueError(
            f"X has columns that hold no numbers: {names[:10]}, such as {first}. In a table "
            "without a two-level index each row is a series, and each column a step: drop other "
            "columns, such as labels. For a table with one row per observation use "
            "tsformer.data.from_long(X, case=..., time=..., value=...)"
        )


def _is_numeric(column: pd.Series) -> bool:
    try:
        column.to_numpy().astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _one_by_one(X: Any) -> list[Item] | None:
    """Return the series of a container that holds them separately; None for a single array."""
    if isinstance(X, pd.DataFrame):
        if isinstance(X.index, pd.MultiIndex):
            return _by_first_level(X)
        if _has_cells(X):
            rows = X.itertuples(index=False, name=None)
            return [_from_cells(row, X.columns, i) for i, row in enumerate(rows)]
        return None
    if isinstance(X, (np.ndarray, pd.Series)) and X.dtype == object and X.ndim == 1:
        X = list(X)
    if not isinstance(X, (list, tuple)) or not X:
        return None
    if any(_is_series(x) for x in X) or _is_unequal(X):
        return [_one(x, f"series {i}") for i, x in enumerate(X)]
    return None


def to_items(X: Any) -> Sequence[Item]:
    """Return the series of a container one by one, with their pandas indices where they have any.

    Raises
    ------
    ValueError
        If there are no series, or a single array of them has not two or three dimensions.
    """
    if isinstance(X, SeriesSource):
        padded = X.padded()
        return [x[:n].T for x, n in zip(padded.values, padded.lengths, strict=True)]
    items = _one_by_one(X)
    if items is not None:
        return items
    array = np.asarray(_as_array(X))
    if array.ndim not in (2, 3) or len(array) == 0:
        raise ValueError(
            "X must be (n, length), (n, channels, length), or a list of (channels, length) "
            f"arrays, with at least one series; got an array of shape {array.shape}"
        )
    return list(array)


def to_arrays(X: Any) -> list[Floats]:
    """Return the series of a container as arrays (channels, length), missing values as NaN.

    Raises
    ------
    ValueError
        As `to_items`, and if a series is empty, does not consist of real numbers, or has not as
        many channels as the first.
    """
    arrays = [_as_channels(x, f"series {i}") for i, x in enumerate(to_items(X))]
    _check_channels(arrays)
    return arrays


def _as_array(X: Any) -> Any:
    """Convert tensors to arrays and masked values to NaN, for scikit-learn to check."""
    if isinstance(X, torch.Tensor):
        return X.detach().cpu().numpy()
    if isinstance(X, np.ma.MaskedArray):
        return np.ma.filled(X.astype(np.promote_types(X.dtype, np.float32)), np.nan)
    return X


def _pad(items: Sequence[Item], times: Any, *, index: bool) -> Padded:
    series = [_as_channels(x, f"series {i}") for i, x in enumerate(items)]
    channels = _common_names(items)
    _check_channels(series)
    lengths = np.array([x.shape[1] for x in series], dtype=np.int64)
    values = np.full((len(series), int(lengths.max()), len(series[0])), np.nan)
    for row, x in zip(values, series, strict=True):
        row[: x.shape[1]] = x.T
    if index:
        times = [_index_of(x, i) for i, x in enumerate(items)]
    return _finish(values, lengths, times, channels)


def _check_shape(X: Any) -> None:
    """Raise ValueError for an array that does not hold series of numbers."""
    shape = tuple(X.shape)
    if len(shape) not in (2, 3):
        raise ValueError(
            "X must be (n, length), (n, channels, length), or a list of (channels, length) "
            f"arrays; got an array with {len(shape)} dimensions and shape {shape}"
        )
    _refuse_other_types(X, "X")
    if shape[0] == 0:
        raise ValueError("X holds no series: Found array with 0 sample(s)")
    shape = (shape[0], 1, shape[1]) if len(shape) == 2 else shape
    if 0 in shape:
        raise ValueError(
            f"X contains empty series: 0 feature(s) in an array of shape {shape}, while a "
            "minimum of 1 is required for channels and time steps"
        )


def _is_dataset(X: Any) -> bool:
    """Whether this is a data set as those of PyTorch and Hugging Face, of one series after another.

    They are known by what they have and lack: items by number, and no way to be an array.
    """
    arrays = ("__array__", "__dataframe__", "tocsr", "dtype")
    by_number = hasattr(X, "__getitem__") and hasattr(X, "__len__")
    return by_number and not isinstance(X, (list, tuple)) and not any(hasattr(X, a) for a in arrays)


class DatasetRows:
    """The items of a data set with `__len__` and `__getitem__`, one series each.

    An item is a series ``(length,)`` or ``(channels, length)``, a tuple that begins with one, or a
    dict of nothing else. Several are read at once where there is a method for it, `__getitems__`.

    Parameters
    ----------
    dataset : object
        The data set; lengths may differ.
    """

    def __init__(self, dataset: Any):
        self.dataset = dataset
        if len(dataset) == 0:
            raise ValueError("X holds no series: Found array with 0 sample(s)")
        first = _item(dataset[0], 0)
        _check_channels([first])
        self.n_channels, self.n_steps = first.shape

    def __len__(self) -> int:
        return len(self.dataset)

    def read(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return series by ascending indices ``[m]``: ``[m, C, l]``, NaN past the end of one."""
        numbers = index.tolist()
        several = getattr(self.dataset, "__getitems__", None)
        items = [self.dataset[i] for i in numbers] if several is None else several(numbers)
        series = [_item(item, i) for item, i in zip(items, numbers, strict=True)]
        for x, number in zip(series, numbers, strict=True):
            if len(x) != self.n_channels or not x.size:
                raise ValueError(
                    f"all series must have the {self.n_channels} channels of series 0, and a time "
                    f"step; series {number} is (channels, length) = {x.shape}"
                )
        rows = np.full((len(series), self.n_channels, max(x.shape[1] for x in series)), np.nan)
        for row, x in zip(rows, series, strict=True):
            row[:, : x.shape[1]] = x
        return rows


def _item(item: Any, number: int) -> Floats:
    """Return the series of an item of a data set, as (channels, length)."""
    if isinstance(item, Mapping):
        if len(item) != 1:
            raise ValueError(
                f"the items of X have the columns {list(item)[:10]}, of which one is the series: "
                "leave the others out, as with X.select_columns('series'), and pass the labels as y"
            )
        item = next(iter(item.values()))
    elif isinstance(item, tuple) and item:
        item = item[0]
    return _as_channels(_one(item, f"series {number}"), f"series {number}")


def _stored(rows: Rows, times: Any) -> StoredSeries:
    """Read all rows once, for lengths and gaps, and to refuse what `_finish` refuses."""
    n = len(rows)
    steps = np.zeros(n, dtype=np.int64)
    lengths = np.zeros(n, dtype=np.int64)
    gaps: list[Gaps | None] = []
    sizes: list[int] = []
    for index in parts_of(n, rows.n_steps * rows.n_channels):
        values = gathered(rows, index)
        steps[index] = values.shape[1]
        with numbered(index):
            part = _finish(values, steps[index], None)
        lengths[index] = part.lengths
        gaps.append(part.gaps)
        sizes.append(len(part))
    # Those of one array are as many as its steps, whose last may have no values.
    steps = steps if isinstance(rows, ArrayRows) else lengths
    padded_times, clock = (None, None) if times is None else pad_times(times, steps)
    if padded_times is not None:
        padded_times = padded_times[:, : int(lengths.max())]
    return StoredSeries(
        rows, lengths, gaps=Gaps.joined(gaps, sizes), times=padded_times, clock=clock
    )


def _finish(
    values: Floats,
    lengths: npt.NDArray[np.int64],
    times: Any,
    channels: tuple[str, ...] | None = None,
) -> Padded:
    """Refuse infinite values, cut each series after its last value, and add the times."""
    if np.isinf(values).any():
        case, step, channel = (int(i) for i in np.argwhere(np.isinf(values))[0])
        raise SeriesError(
            case,
            f"Input X contains infinity at series {{case}}, channel {channel}, step {step}; "
            "infinite values are not accepted: replace them by NaN, which marks missing values, or "
            "drop them",
        )
    padded_times, clock = (None, None) if times is None else pad_times(times, lengths)
    observed: npt.NDArray[np.bool_] = ~np.isnan(values)
    if observed.all():
        return Padded(values, lengths, padded_times, clock, channels)
    with_value = np.asarray(observed.any(axis=-1))
    if not with_value.any(axis=1).all():
        case = int(np.flatnonzero(~with_value.any(axis=1))[0])
        raise SeriesError(
            case,
            "series {case} has no value at all: Input X contains NaN in all of its steps; drop it",
        )
    # Trailing missing steps are a common way to store a shorter series.
    lengths = values.shape[1] - np.argmax(with_value[:, ::-1], axis=1).astype(np.int64)
    longest = int(lengths.max())
    if padded_times is not None:
        padded_times = padded_times[:, :longest]
    return Padded(values[:, :longest], lengths, padded_times, clock, channels)


def _check_channels(series: Sequence[Floats]) -> None:
    """Raise ValueError for an empty series, or one with other channels than the first."""
    for i, x in enumerate(series):
        if len(x) != len(series[0]):
            swapped = len({x.shape[1] for x in series}) == 1
            raise ValueError(
                f"all series must have the same channels: series 0 has {len(series[0])}, series "
                f"{i} has {len(x)} (its shape {x.shape} is read as (channels, length))"
                + ("; if they are (length, channels), pass [x.T for x in X]" if swapped else "")
            )
        if x.size == 0:
            raise ValueError(
                f"series {i} is empty; every series needs at least one channel and one time step"
            )


def _is_series(x: object) -> bool:
    return isinstance(x, (np.ndarray, torch.Tensor, pd.Series, pd.DataFrame)) and x.ndim > 0


def _has_cells(X: pd.DataFrame) -> bool:
    """Whether the cells of a table are series."""
    first = X.iloc[0] if len(X) else ()
    return any(_is_series(cell) or isinstance(cell, (list, tuple)) for cell in first)


def _is_unequal(X: Sequence[Any]) -> bool:
    """Whether nested lists are ragged, so that NumPy makes no array of them."""
    if not all(isinstance(x, (list, tuple)) for x in X):
        return False
    try:
        np.asarray(X)
    except ValueError:
        return True
    return False


def _one(x: Any, what: str) -> Item:
    """Return an array, or a pandas object as it is."""
    if isinstance(x, (pd.DataFrame, pd.Series)):
        return x
    try:
        return np.asarray(_as_array(x))
    except ValueError as error:
        raise ValueError(
            f"{what} must be (length,) or (channels, length); its channels differ in length"
        ) from error


def _by_first_level(X: pd.DataFrame) -> list[Item]:
    if X.index.nlevels != 2:
        raise ValueError(
            "a DataFrame with a MultiIndex must have two levels, series and step; got "
            f"{X.index.nlevels}: {list(X.index.names)}"
        )
    if not len(X):
        raise ValueError("X holds no series: Found array with 0 sample(s)")
    cases, steps = (X.index.get_level_values(level) for level in (0, 1))
    for level, values in (("series", cases), ("step", steps)):
        if values.hasnans:
            row = int(values.isna().argmax())
            raise ValueError(f"the index of X has no {level} in row {row}; fill it or drop the row")
    steps = ordered_times(steps, "steps of X")
    codes, first = pd.factorize(X.index.codes[0])
    items = cut_by_case(X.set_axis(steps), codes)
    names = X.index.levels[0].tolist()  # of Python, not of NumPy
    for code, frame in zip(first, items, strict=True):
        name, index = names[code], frame.index
        if not index.is_unique:
            step = index[index.duplicated()][0]
            raise ValueError(
                f"two rows for series {name!r} and step {step}; give each "
                "series a name of its own, or aggregate them, for example with "
                "X.groupby(level=[0, 1], sort=False).mean()"
            )
        if not index.is_monotonic_increasing:
            raise ValueError(
                f"steps of series {name!r} are not sorted; use X.sort_index() first, and y in the "
                "order of X.index.unique(0) then"
            )
    return list(items)


def _from_cells(row: Sequence[Any], names: pd.Index, i: int) -> Item:
    """Return one series from a row of cells, one cell per channel."""
    cells = [_one(cell, f"series {i}") for cell in row]
    lengths = [len(cell) if cell.ndim == 1 else -1 for cell in cells]
    if -1 in lengths or len(set(lengths)) > 1:
        raise ValueError(
            f"the cells of series {i} must be one-dimensional and of equal length; got shapes "
            f"{[cell.shape for cell in cells]}"
        )
    indices = [cell.index for cell in cells if isinstance(cell, pd.Series)]
    if any(not index.equals(indices[0]) for index in indices):
        raise ValueError(f"the cells of series {i} differ in their indices; align them by step")
    if indices and not indices[0].is_unique:
        step = indices[0][indices[0].duplicated()][0]
        raise ValueError(f"the cells of series {i} have step {step} twice; aggregate them")
    if isinstance(cells[0], pd.Series):
        columns = [pd.Series(cell).to_numpy() for cell in cells]
        frame = pd.DataFrame(dict(enumerate(columns)), index=cells[0].index)
        return frame.set_axis(names, axis=1)
    return np.stack([np.asarray(cell) for cell in cells])


def _as_channels(x: Item, what: str) -> Floats:
    """Return one series as (channels, length)."""
    if isinstance(x, (pd.DataFrame, pd.Series)):
        values = x.to_frame() if isinstance(x, pd.Series) else x
        kinds = {getattr(dtype, "kind", "O") for dtype in values.dtypes}
        if not kinds <= set("fiub"):
            times = [name for name, column in values.items() if column.dtype.kind in "mM"]
            raise ValueError(
                f"{what} must contain real numbers; its column dtypes are "
                f"{values.dtypes.astype(str).tolist()}"
                + (f"; make the times its index: x.set_index({times[0]!r})" if times else "")
            )
        return values.to_numpy(dtype=np.float64, na_value=np.nan).T
    if x.ndim == 1:
        x = x[None]
    if x.ndim != 2:
        raise ValueError(f"{what} must be (length,) or (channels, length); its shape is {x.shape}")
    _refuse_other_types(x, what)
    return x


def _refuse_other_types(x: Any, what: str) -> None:
    if x.dtype.kind not in "fiub":
        raise ValueError(f"{what} must contain real numbers; its dtype is {x.dtype}")


def _common_names(items: Sequence[Item]) -> tuple[str, ...] | None:
    """Return the channel names if all items are DataFrames whose column names are strings."""
    frames = [x for x in items if isinstance(x, pd.DataFrame)]
    if len(frames) < len(items):
        return None
    for i, frame in enumerate(frames):
        if not frame.columns.equals(frames[0].columns):
            raise ValueError(
                "all series must have the same channels: series 0 has "
                f"{list(frames[0].columns)[:10]}, "
                f"series {i} has {list(frame.columns)[:10]}"
            )
    names = list(frames[0].columns)
    return tuple(names) if all(isinstance(name, str) for name in names) else None


def _index_of(x: Item, i: int) -> pd.Index:
    if isinstance(x, (pd.DataFrame, pd.Series)):
        return x.index
    raise ValueError(
        "timestamps='index' takes the time of each step from a pandas index, but series "
        f"{i} is an array; pass a list of DataFrames, or times= and timestamps=None"
    )
