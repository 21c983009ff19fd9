"""NpyFile: the array in a `.npy` file, of which rows are read as they are needed."""

from __future__ import annotations

import mmap
import os
from io import RawIOBase
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tsformer._files import FileVersion, changed

__all__ = ["NpyFile", "open_npy"]


class NpyFile:
    """The array in a `.npy` file, whose rows along the first axis are read by seeking.

    The file is not mapped, unless it is in Fortran order. A map takes address space as large as the
    file, which a limit of it (``ulimit -v``) counts in full, and the pages that were read stay
    resident until memory is short. The file is not kept open either, so that a folder may have more
    files than a process may open. Each read checks that the file is as it was when it was opened.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/X.npy", np.arange(12.0).reshape(4, 3))
    ...     file = NpyFile(f"{folder}/X.npy")
    ...     file[np.array([0, 2])].tolist(), file[3:].tolist()
    ([[0.0, 1.0, 2.0], [6.0, 7.0, 8.0]], [[9.0, 10.0, 11.0]])
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = Path(path).absolute()
        with self.path.open("rb") as file:
            self._version = FileVersion.of(file.fileno())
            self.shape, self._in_c_order, self.dtype = _header(file)
            self._start = file.tell()
            file.seek(0)
            self._header = file.read(self._start)
        self._stride = self.dtype.itemsize * prod(self.shape[1:])
        size, needed = self._version.size, self._start + self._stride * len(self)
        if size < needed:
            raise ValueError(f"it is cut off: it has {size:,} of {needed:,} bytes")

    def __len__(self) -> int:
        return self.shape[0] if self.shape else 1

    def __getitem__(self, which: slice | npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return rows by a slice or by ascending indices."""
        if isinstance(which, slice):
            which = np.arange(*which.indices(len(self)))
        rows = np.empty((len(which), *self.shape[1:]), self.dtype)
        if not rows.size:
            return rows
        with self.path.open("rb", buffering=0) as file:
            self._version.check(self.path, file.fileno())
            if file.read(self._start) != self._header:
                raise OSError(changed(self.path))
            if self._in_c_order:
                self._seek(file, which, rows.reshape(len(which), -1).view(np.uint8))
            else:
                rows[:] = self._mapped(file)[which]
            self._version.check(self.path, file.fileno())
        return rows

    def _seek(
        self, file: RawIOBase, which: npt.NDArray[np.int64], raw: npt.NDArray[np.uint8]
    ) -> None:
        """Read rows, each run of adjacent rows at once."""
        starts = np.flatnonzero(np.diff(which, prepend=-2) != 1)
        for start, stop in zip(starts, [*starts[1:], len(which)], strict=True):
            file.seek(self._start + int(which[start]) * self._stride)
            run = raw[start:stop].reshape(-1)
            while len(run):  # the system reads at most 2 GiB at once
                n = file.readinto(run.data)
                if not n:
                    raise OSError(changed(self.path))
                run = run[n:]

    def _mapped(self, file: RawIOBase) -> npt.NDArray[Any]:
        """Map an array in Fortran order, whose rows lie apart."""
        pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return np.ndarray(self.shape, self.dtype, pages, self._start, order="F")


def open_npy(path: str | os.PathLike[str]) -> NpyFile:
    """Open a `.npy` file."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no such file: {os.fspath(path)}")
    try:  # `np.load` would advise to unpickle Python objects
        return NpyFile(path)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} does not hold an array of numbers: {error}") from error


def _header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return the shape, whether it is in C order, and the type of the array that follows."""
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran_order, dtype = np.lib.format.read_array_header_2_0(file)
    else:  # of tables whose columns have names that are not Latin
        raise ValueError(f"its format is {version}, and that of an array of numbers 1.0 or 2.0")
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if any(n < 0 for n in shape):
        raise ValueError(f"its shape is {shape}")
    return shape, not fortran_order, dtype
