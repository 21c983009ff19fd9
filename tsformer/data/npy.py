"""Read series from files by seeking: `FileRows`, and the arrays in `.npy` files."""

from __future__ import annotations

import os
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tsformer._files import FileVersion, changed


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
