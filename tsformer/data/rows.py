"""Rows: series that stay in an array or in files; only batches of them are copied."""

from __future__ import annotations

import mmap
import os
from copy import copy
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tsformer._files import FileVersion, changed
from tsformer.data.native import to_numpy
from tsformer.data.series import Floats, Gaps, Padded, SeriesSource

#: Bytes to read in order from a mapped file before its pages are released.
_MAPPED = 2**22
#: Scattered rows to read before that: each may map two megabytes.
_SCATTERED = 16


class Rows(Protocol):
    """`n` series of `C` channels, of equal or unequal length."""

    n_channels: int
    #: Steps of the longest series, as far as known.
    n_steps: int

    @property
    def lengths(self) -> npt.NDArray[np.int64] | None:
        """Steps of each series, if known before reading."""

    def __len__(self) -> int: ...

    def read(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return series by ascending indices ``[m]``: ``[m, C, l]``, NaN past the end of one."""


class ArrayRows:
    """The rows of one array-like, ``(n, length)`` or ``(n, channels, length)``."""

    def __init__(self, array: Any):
        self.array = array
        self.n_channels = 1 if len(array.shape) == 2 else int(array.shape[1])
        self.n_steps = int(array.shape[-1])
        self.lengths: npt.NDArray[np.int64] = np.full(len(self), self.n_steps)
        mapped = _mapped_file(array)
        self._file = "" if mapped is None else os.fspath(mapped.filename or "")
        self._version = FileVersion.of(self._file) if os.path.exists(self._file) else None
        self._mapped = None if mapped is None else _releasable(mapped)
        self._touched = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return ArrayRows, (self.array,)  # a mapping stays in its process

    def __len__(self) -> int:
        return int(self.array.shape[0])

    def read(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return series by ascending indices ``[m]``: ``[m, C, L]``; a view where it can be."""
        # A mapping outlives a replaced file, but changes with its content.
        if self._version is not None and self._version.is_at(self._file):
            self._version.check(self._file)
        # Pages of a mapped file stay resident until the machine runs out of memory.
        if self._mapped is not None and self._touched >= _MAPPED:
            self._mapped.madvise(mmap.MADV_DONTNEED)
            self._touched = 0
        first, stop = int(index[0]), int(index[-1]) + 1
        if stop - first == len(index):
            rows = self.checked(slice(first, stop), len(index))
            self._touched += rows.nbytes
        elif self._mapped is None:
            rows = self.checked(index, len(index))
        else:
            rows = np.empty((len(index), *self.array.shape[1:]), self.array.dtype)
            for start in range(0, len(index), _SCATTERED):
                some = slice(start, start + _SCATTERED)
                rows[some] = self.array[index[some]]
                self._mapped.madvise(mmap.MADV_DONTNEED)
        return rows[:, None] if rows.ndim == 2 else rows

    def checked(self, which: slice | npt.NDArray[np.int64], n: int) -> npt.NDArray[Any]:
        """Read rows; raise ValueError if they contradict `shape` and `dtype`."""
        found = self.array[which]
        rows = to_numpy(found)
        shape, kind = (n, *self.array.shape[1:]), np.dtype(self.array.dtype).kind
        filled = isinstance(found, np.ma.MaskedArray)  # integers become floats, for NaN
        if rows.shape != shape or (found if filled else rows).dtype.kind != kind:
            first, last = (
                (which.start, which.stop - 1) if isinstance(which, slice) else which[[0, -1]]
            )
            raise ValueError(
                f"X has shape {tuple(self.array.shape)} and dtype {self.array.dtype}, but reading "
                f"series {first} to {last} returned an array of shape {rows.shape} and dtype "
                f"{rows.dtype}, not {shape} and {self.array.dtype}; correct the "
                f"{type(self.array).__name__}, or pass np.asarray(X)"
            )
        return rows


class LazySeries(SeriesSource):
    """Series that are read from rows when needed; their times, if any, are in memory."""

    def __init__(
        self,
        rows: Rows,
        lengths: npt.NDArray[np.int64],
        *,
        gaps: Gaps | None = None,
        times: Floats | None = None,
        clock: str | None = None,
        channels: tuple[str, ...] | None = None,
    ):
        self.rows = rows
        self.channels = channels
        self.lengths = lengths
        self.times = times
        self.clock = clock
        self._gaps = gaps
        self._index = np.arange(len(lengths))
        self._n_steps = int(lengths.max())

    @property
    def n_steps(self) -> int:
        """Time steps of what `read` returns."""
        return self._n_steps

    @property
    def n_channels(self) -> int:
        """Channels."""
        return self.rows.n_channels

    @property
    def gaps(self) -> Gaps | None:
        """Where values are missing."""
        return self._gaps

    def read(self, index: npt.NDArray[np.int64]) -> Padded:
        """Return series by their indices, in this order."""
        numbers = self._index[index]
        return Padded(
            gathered(self.rows, numbers, self.n_steps),
            self.lengths[index],
            None if self.times is None else self.times[numbers],
            self.clock,
            self.channels,
        )

    def part(self, index: npt.NDArray[np.int64]) -> LazySeries:
        """Return some of the series by their indices."""
        gaps = None if self.gaps is None else self.gaps.part(index)
        return self._of(self._index[index], self.lengths[index], gaps)

    def joined(self, other: LazySeries) -> LazySeries:
        """Return these series and then others, taken from the same rows."""
        return self._of(
            np.concatenate([self._index, other._index]),
            np.concatenate([self.lengths, other.lengths]),
            Gaps.joined([self.gaps, other.gaps], [len(self), len(other)]),
        )

    def _of(
        self, index: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], gaps: Gaps | None
    ) -> LazySeries:
        """Return other series of the same rows, of equally many steps."""
        chosen = copy(self)
        chosen._index, chosen.lengths, chosen._gaps = index, lengths, gaps
        return chosen

    def padded(self) -> Padded:
        """Return all series in memory."""
        return self.read(np.arange(len(self)))

    def intervals(self) -> Floats:
        """Return the times between all steps."""
        assert self.times is not None
        times = self.times[self._index]
        past = np.arange(1, times.shape[1]) >= self.lengths[:, None]
        return np.diff(times, axis=1)[~past]


def gathered(rows: Rows, index: npt.NDArray[np.int64], n_steps: int | None = None) -> Floats:
    """Read rows in any order; files are read by ascending index."""
    order = np.argsort(index, kind="stable")
    found = rows.read(index[order])[..., :n_steps]
    n_steps = found.shape[2] if n_steps is None else n_steps
    values = np.empty((len(index), n_steps, rows.n_channels))
    values[:, found.shape[2] :] = np.nan
    values[order, : found.shape[2]] = found.transpose(0, 2, 1)
    return values


def is_sliced(X: Any) -> bool:
    """Whether an array is read by slices, as in h5py and zarr."""
    if isinstance(X, np.ndarray) or not hasattr(X, "__getitem__") or hasattr(X, "tocsr"):
        return False
    kind = getattr(getattr(X, "dtype", None), "kind", None)
    return kind in tuple("fiub") and len(getattr(X, "shape", ())) in (2, 3)


def _mapped_file(array: Any) -> np.memmap[Any, Any] | None:
    """Return the mapped file behind an array."""
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap) and array.filename is not None:
            return array
        array = array.base
    return None


def _releasable(mapped: np.memmap[Any, Any]) -> mmap.mmap | None:
    """Return the mapping if its pages can be released."""
    if not hasattr(mmap, "MADV_DONTNEED"):  # Windows trims working sets
        return None
    array: Any = mapped
    while isinstance(array, np.ndarray):
        array = array.base
    return array if mapped.mode != "c" and isinstance(array, mmap.mmap) else None


class FileRows:
    """Series one after another in a file; the file is neither mapped nor kept open."""

    def __init__(
        self,
        path: Path,
        dtype: np.dtype[Any],
        lengths: npt.NDArray[np.int64],
        n_channels: int,
        offset: int = 0,
    ):
        self.path = path.absolute()
        self.n_channels = n_channels
        self.n_steps = int(lengths.max())
        self._dtype = dtype
        self.lengths = lengths
        sizes = lengths * (n_channels * dtype.itemsize)
        self._starts = offset + np.cumsum(sizes) - sizes
        self._version = FileVersion.of(self.path)
        with self.path.open("rb") as file:
            self._header = file.read(offset)

    def __len__(self) -> int:
        return len(self.lengths)

    def read(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return series by ascending indices ``[m]``: ``[m, C, l]``, NaN past the end of one."""
        lengths = self.lengths[index]
        shape = (len(index), self.n_channels, int(lengths.max()))
        rows = np.empty(shape, self._dtype)
        known = np.arange(shape[2]) < lengths[:, None]
        equal = bool(known.all())
        if not equal:
            rows[:] = np.nan
        starts = np.flatnonzero(np.diff(index, prepend=-2) != 1)
        with self.path.open("rb") as file:
            self._version.check(self.path)
            if file.read(len(self._header)) != self._header:
                raise OSError(changed(self.path))
            for start, stop in zip(starts, [*starts[1:], len(index)], strict=True):
                file.seek(int(self._starts[index[start]]))
                n_bytes = int(lengths[start:stop].sum()) * self.n_channels * self._dtype.itemsize
                data = file.read(n_bytes)
                if len(data) < n_bytes:
                    raise OSError(changed(self.path))
                numbers, run = np.frombuffer(data, self._dtype), rows[start:stop]
                if equal:
                    run[:] = numbers.reshape(run.shape)
                else:
                    run[np.broadcast_to(known[start:stop, None], run.shape)] = numbers
            self._version.check(self.path)
        return rows


class NpyHeader(NamedTuple):
    """Shape, order, type and position of the array in a `.npy` file."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    offset: int


def npy_header(path: str | os.PathLike[str]) -> NpyHeader:
    """Read the header of a `.npy` file; `np.load` would advise to unpickle Python objects."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        with path.open("rb") as file:
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
            elif version == (2, 0):
                shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(file)
            else:  # tables whose column names are not Latin-1
                raise ValueError(f"its format is {version}; numbers have 1.0 or 2.0")
            found = NpyHeader(shape, fortran_order, dtype, file.tell())
        if found.dtype.hasobject:
            raise ValueError("it holds Python objects")
        if any(n < 0 for n in found.shape):
            raise ValueError(f"its shape is {found.shape}")
        size, needed = path.stat().st_size, found.offset + found.dtype.itemsize * prod(found.shape)
        if size < needed:
            raise ValueError(f"it is cut off: it has {size:,} of {needed:,} bytes")
    except ValueError as error:
        raise ValueError(f"{path} does not hold an array of numbers: {error}") from error
    return found
