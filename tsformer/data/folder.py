"""A folder of `.npy` files with an index: series that do not fit into memory, and their labels.

The index, ``index.json``, names the files in order, with the number of their series and of the time
steps that they are padded to, by NaN at the end. ``labels.npy`` has the labels as text, if there
are any.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tsformer._files import replacing
from tsformer._names import shortened
from tsformer.data.npy import NpyFile, open_npy
from tsformer.data.stored import ArrayRows

__all__ = ["FolderRows", "is_series_folder", "read_labels", "write_folder"]

_INDEX = "index.json"
_LABELS = "labels.npy"
_FORMAT = 1


class FolderRows:
    """The series of all files in a folder, in the order of its index."""

    def __init__(self, folder: str | os.PathLike[str]):
        self.folder = Path(folder)
        self.n_channels, files = _read_index(self.folder)
        self._files = [ArrayRows(_opened(self.folder / name, shape)) for name, shape in files]
        self.n_steps = max(file.n_steps for file in self._files)
        self._ends = np.cumsum([len(file) for file in self._files])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def read(self, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return series by ascending indices ``[m]``: ``[m, C, l]``, NaN past the end of one."""
        of_file = np.searchsorted(self._ends, index, side="right")
        chosen = np.unique(of_file)
        if len(chosen) == 1:
            return self._of(int(chosen[0]), index)
        longest = max(self._files[file].n_steps for file in chosen)
        rows = np.full((len(index), self.n_channels, longest), np.nan)
        for file in chosen.tolist():
            own = of_file == file
            found = self._of(file, index[own])
            rows[own, :, : found.shape[2]] = found
        return rows

    def _of(self, file: int, index: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        first = 0 if file == 0 else int(self._ends[file - 1])
        return self._files[file].read(index - first)


def is_series_folder(path: str | os.PathLike[str]) -> bool:
    """Whether this is a folder that `write_folder` made."""
    return (Path(path) / _INDEX).is_file()


def read_labels(folder: str | os.PathLike[str]) -> npt.NDArray[np.str_] | None:
    """Return the labels of a folder's series, or None if it has none."""
    path = Path(folder) / _LABELS
    if not path.is_file():
        return None
    try:  # `np.load` would advise to unpickle Python objects
        labels: npt.NDArray[np.str_] = NpyFile(path)[:]
    except ValueError as error:
        raise ValueError(
            f"{path} does not hold labels: {error}; write them with np.save as an array of text, "
            "as y.astype(str)"
        ) from error
    n = sum(shape[0] for _, shape in _read_index(Path(folder))[1])
    if labels.shape != (n,) or labels.dtype.kind != "U":
        raise ValueError(
            f"{path} must have a text for each of the {n} series; got {labels.dtype} of shape "
            f"{labels.shape}"
        )
    return labels


def write_folder(
    folder: str | os.PathLike[str],
    parts: Iterable[tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.str_] | None]],
    *,
    dtype: npt.DTypeLike = np.float32,
) -> int:
    """Write series to a new folder, and return their number."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise FileExistsError(f"{path} exists; choose another name, or remove it first")
    path.mkdir(parents=True, exist_ok=True)
    files: list[dict[str, Any]] = []
    labels: list[npt.NDArray[np.str_] | None] = []
    channels = 0
    for number, (X, y) in enumerate(parts):
        channels = channels or X.shape[1]
        if X.shape[1] != channels:
            raise ValueError(
                f"all series must have the same channels: those of part 0 have {channels}, those "
                f"of part {number} have {X.shape[1]}"
            )
        with np.errstate(over="ignore"):
            values = X.astype(dtype, copy=False)
        if (np.isinf(values) & ~np.isinf(X)).any():
            raise ValueError(f"part {number} has values that do not fit into {values.dtype}")
        name = f"series-{number:05d}.npy"
        np.save(path / name, values)
        files.append({"file": name, "series": len(X), "steps": X.shape[2]})
        labels.append(y)
    given = [each for each in labels if each is not None]
    if given and len(given) < len(labels):
        raise ValueError("some of the parts have labels, and others have none; give all or none")
    if given:
        np.save(path / _LABELS, np.concatenate(given).astype(np.str_))
    index = {"format": _FORMAT, "channels": channels, "files": files}
    with replacing(path / _INDEX) as file:
        file.write((json.dumps(index, indent=1) + "\n").encode())
    return sum(each["series"] for each in files)


def _read_index(folder: Path) -> tuple[int, list[tuple[str, tuple[int, int, int]]]]:
    """Return the number of channels, and the name and the shape of each file."""
    path = folder / _INDEX
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder} has no {_INDEX}; `tsformer convert FILE... --out FOLDER` makes one with it, "
            "and a folder of Parquet files needs none"
        )
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        channels = _count(index["channels"])
        files = [
            (str(each["file"]), (_count(each["series"]), channels, _count(each["steps"])))
            for each in index["files"]
        ]
        if index["format"] != _FORMAT or not files:
            raise ValueError(f"it has format {index['format']!r} and {len(files)} files")
        for name, _ in files:
            if Path(name).name != name:
                raise ValueError(f"{shortened(name)} is not a file in this folder")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is no index of series, or is damaged: {error}") from error
    return channels, files


def _count(value: Any) -> int:
    """Return a positive whole number; raise ValueError for anything else."""
    if type(value) is not int or value < 1:
        raise ValueError(f"{shortened(value, 40)} is no positive whole number")
    return value


def _opened(path: Path, shape: tuple[int, int, int]) -> NpyFile:
    array = open_npy(path)
    if array.shape != shape or array.dtype.kind not in "fiub":
        raise ValueError(
            f"{path} holds {array.dtype} of shape {array.shape}, but the index of its folder says "
            f"numbers of shape {shape}"
        )
    return array
