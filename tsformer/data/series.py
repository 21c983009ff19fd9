"""SeriesSource: series in memory, in an array or in files, read by index.

Statistics over all series are computed in parts of a fixed size and order: the results are equal,
bit for bit, wherever the series are. `n` series, `L` time steps of the longest, `C` channels.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tsformer._files import FileVersion, changed
from tsformer.data.native import to_numpy

Floats = npt.NDArray[np.floating[Any]]
Index = npt.NDArray[np.int64] | npt.NDArray[np.bool_]

#: Values in a part: 16 MiB of float64, and a few times that while it is preprocessed.
_VALUES = 2**21


class SeriesError(ValueError):
    """A series has a value that cannot be used."""

    def __init__(self, case: int, message: str):
        super().__init__(case, message)  # pickled by its arguments
        self.case, self.message = case, message

    def __str__(self) -> str:
        return self.message.replace("{case}", str(self.case))

    def among(self, index: npt.NDArray[np.int64]) -> SeriesError:
        """Return the error with the index in the whole data set."""
        return SeriesError(int(index[self.case]), self.message)


class Gaps(NamedTuple):
    """Missing values before the last step of each series."""

    #: Number of missing values of each channel of a series, ``[n, C]``.
    missing: npt.NDArray[np.int32]
    #: Whether the first step, and whether any step, of a series has no value, ``[n]``.
    late: npt.NDArray[np.bool_]
    empty: npt.NDArray[np.bool_]


class SeriesSource:
    """Series that are read by index, as `Padded`."""

    #: Channels `C`, and time steps `L` of what `read` returns.
    n_channels: int
    n_steps: int
    #: Number of steps of each series ``[n]``; the last step has a value.
    lengths: npt.NDArray[np.int64]
    #: Times ``[n, L]`` since the first step of each series; None means 0, 1, 2, ...
    times: Floats | None
    #: Unit of the times: None, "numbers" for the caller's, or "dates" for seconds.
    clock: str | None
    #: Names of the channels.
    channels: tuple[str, ...] | None
    #: Missing values; None without gaps.
    gaps: Gaps | None

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, index: Index) -> Padded:
        """Return series by their indices ``[m]``, in this order, or by a mask ``[n]``."""
        raise NotImplementedError

    def part(self, index: Index) -> Self:
        """Return some of the series, without reading them."""
        raise NotImplementedError

    def padded(self) -> Padded:
        """Return all series in memory."""
        return self.read(np.arange(len(self)))

    def intervals(self) -> Floats:
        """Return the times between all steps; only with times."""
        assert self.times is not None
        within = np.arange(1, self.times.shape[1]) < self.lengths[:, None]
        return np.diff(self.times, axis=1)[within]


@dataclass(eq=False)
class Padded(SeriesSource):
    """Series as one array."""

    #: float64 ``[n, L, C]``, NaN where a value is missing and past the end of a series.
    values: Floats
    lengths: npt.NDArray[np.int64]
    times: Floats | None = None
    clock: str | None = None
    channels: tuple[str, ...] | None = None
    n_steps: int = field(init=False, default=0)
    n_channels: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        _, self.n_steps, self.n_channels = self.values.shape

    @cached_property
    def gaps(self) -> Gaps | None:  # type: ignore[override]
        within = np.arange(self.n_steps) < self.lengths[:, None]
        missing = np.isnan(self.values) & within[..., None]
        if not missing.any():
            return None
        nothing = np.asarray(missing.all(axis=2))
        counts = missing.sum(axis=1, dtype=np.int32)
        return Gaps(counts, nothing[:, 0], np.asarray(nothing.any(axis=1)))

    def part(self, index: Index) -> Padded:
        times = None if self.times is None else self.times[index]
        return Padded(self.values[index], self.lengths[index], times, self.clock, self.channels)

    read = part

    def padded(self) -> Padded:
        return self

    def cut(self, lengths: npt.NDArray[np.int64], start: npt.ArrayLike = 0) -> Padded:
        """Keep some steps of each series, `lengths` of them from `start` on."""
        steps, past = np.arange(self.n_steps), np.arange(self.n_steps) >= lengths[:, None]
        index = np.minimum(np.reshape(start, (-1, 1)) + steps, self.n_steps - 1)
        rows = np.arange(len(self))[:, None]
        values, times = self.values[rows, index], self.times
        values[past] = np.nan
        if times is not None:
            times = np.where(past, 0.0, times[rows, index])
        return replace(self, values=values, lengths=lengths, times=times)


def parts_of(series: SeriesSource | Rows, least: int = 1) -> Iterator[npt.NDArray[np.int64]]:
    """Return the indices of all series, part by part; a series counts as `least` values or more."""
    n, size = len(series.lengths), max(series.n_steps * series.n_channels, least)
    size = max(_VALUES // size, 1)
    return (np.arange(start, min(start + size, n)) for start in range(0, n, size))


class ArrayRows:
    """The rows of one array-like, ``(n, length)`` or ``(n, channels, length)``.

    `in_file` if it is mapped, so that its values may change.
    """

    def __init__(self, array: Any, lengths: npt.NDArray[np.int64] | None = None):
        self.array = array
        self.n_channels = 1 if len(array.shape) == 2 else int(array.shape[1])
        self.n_steps = int(array.shape[-1])
        lengths = np.full(int(array.shape[0]), self.n_steps) if lengths is None else lengths
        self.lengths: npt.NDArray[np.int64] = lengths
        mapped = array
        while isinstance(mapped, np.ndarray) and not isinstance(mapped, np.memmap):
            mapped = mapped.base
        self.in_file = isinstance(mapped, np.memmap)
        self._file = getattr(mapped, "filename", None) if self.in_file else None
        self._version = None if self._file is None else FileVersion.of(self._file)

    def read(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return series by ascending indices ``[m]``: ``[m, C, L]``; a view where it can be."""
        # A mapping outlives a replaced file, but changes with its content.
        if self._file is not None and self._version is not None and self._version.is_at(self._file):
            self._version.check(self._file)
        array, first, stop = self.array, int(index[0]), int(index[-1]) + 1
        rows = array[first:stop] if stop - first == len(index) else array[index]
        rows = rows if type(rows) is np.ndarray else to_numpy(rows)
        shape = (len(index), *array.shape[1:])
        if rows.shape != shape or rows.dtype.kind not in "fiub":
            kinds = f"{tuple(array.shape)}, {array.dtype}, but a slice {rows.shape}, {rows.dtype}"
            raise ValueError(f"X is of {kinds}; pass np.asarray(X)")
        return rows[:, None] if rows.ndim == 2 else rows


class FileRows:
    """The rows of an array in C order in a file, which is neither mapped nor kept open."""

    in_file = True

    def __init__(self, path: Path, shape: tuple[int, ...], dtype: np.dtype[Any], offset: int):
        self.path, self.shape, self.dtype, self._offset = path.absolute(), shape, dtype, offset
        self.n_channels, self.n_steps = prod(self.shape[1:-1]), self.shape[-1]
        self.lengths: npt.NDArray[np.int64] = np.full(self.shape[0], self.n_steps)
        self._version = FileVersion.of(self.path)

    def read(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return series by ascending indices ``[m]``: ``[m, C, L]``."""
        rows = np.empty((len(index), self.n_channels, self.n_steps), self.dtype)
        size = self.n_channels * self.n_steps * self.dtype.itemsize
        starts = np.flatnonzero(np.diff(index, prepend=-2) != 1).tolist()
        with self.path.open("rb") as file:
            self._version.check(self.path)
            for start, stop in pairwise([*starts, len(index)]):
                file.seek(self._offset + size * int(index[start]))
                run = rows[start:stop].view(np.uint8)
                if file.readinto(run.data) != run.size:
                    raise OSError(changed(self.path))
            self._version.check(self.path)
        return rows


Rows = ArrayRows | FileRows


def mapped_rows(array: Any) -> Any:
    """Return the rows of a memmap that is a whole file; other arrays as they are."""
    whole = isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap)
    if not whole or array.filename is None or array.mode == "c" or not array.flags.c_contiguous:
        return array
    return FileRows(Path(str(array.filename)), array.shape, array.dtype, array.offset)


@dataclass(eq=False)
class StoredSeries(SeriesSource):
    """Series that are read from rows when needed; their times, if any, are in memory."""

    rows: Rows
    #: Numbers of the series among the rows ``[n]``.
    numbers: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    #: Steps of the longest of all rows.
    n_steps: int = 0
    gaps: Gaps | None = None
    times: Floats | None = None
    clock: str | None = None
    channels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        self.n_channels = self.rows.n_channels

    def read(self, index: Index) -> Padded:
        values = gathered(self.rows, self.numbers[index], self.n_steps)
        times = None if self.times is None else self.times[index]
        return Padded(values, self.lengths[index], times, self.clock, self.channels)

    def part(self, index: Index) -> StoredSeries:
        gaps = self.gaps
        if gaps is not None:
            gaps = Gaps(gaps.missing[index], gaps.late[index], gaps.empty[index])
        return replace(
            self,
            numbers=self.numbers[index],
            lengths=self.lengths[index],
            gaps=gaps if gaps is not None and gaps.missing.any() else None,
            times=None if self.times is None else self.times[index],
        )


def gathered(rows: Rows, index: npt.NDArray[np.int64], n_steps: int | None = None) -> Floats:
    """Read rows in any order; files are read by ascending index."""
    order = np.argsort(index, kind="stable")
    ascending = rows.read(index[order])[..., :n_steps].transpose(0, 2, 1)
    values = np.empty(ascending.shape)
    values[order] = ascending
    return values


def is_sliced(X: Any) -> bool:
    """Whether an array is read by slices, as in h5py and zarr."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__getitem__") or hasattr(X, "tocsr"):
        return False
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    return kind in tuple("fiub") and len(getattr(X, "shape", ())) in (2, 3)
