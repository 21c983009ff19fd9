"""Problem: a data set and a split, loaded once per process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer.data import load_dataset
from tsformer.data.archive import folder_of
from tsformer.studies.design.study_file import WHOLE
from tsformer.studies.run.resample import nested_subset, stratified_resample, subset_size, taken

# A worker gets the data sets of a study in any order; keeping more could fill its memory.
_KEPT = 16
# The file of a problem with the fold or the group of each series.
_SPLIT = "_SPLIT.csv"


@dataclass(frozen=True)
class Problem:
    """A data set with a split, or with a subset of its train split."""

    name: str
    resample: int
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    groups_train: np.ndarray | None = None
    train_size: str = WHOLE
    seed: int = 0

    @classmethod
    def load(cls, name: str, resample: int = 0, train_size: str = WHOLE, seed: int = 0) -> Problem:
        """Load by name: split or fold number `resample`, and the `train_size` drawn with `seed`."""
        split, table = _official(name), _split_table(name)
        folds, groups = table.get("fold"), table.get("group")
        if folds is not None:
            split = _fold(name, split, folds, resample)
            groups = None if groups is None else groups[folds != resample]
        elif resample and groups is not None:
            raise ValueError(
                f"{name} has groups, which resamples would divide between both parts: a study of "
                "it has one resample"
            )
        elif resample:
            split = stratified_resample(*split, seed=resample)
        elif groups is not None:
            groups = groups[: len(split[1])]
        if train_size == WHOLE:
            return cls(name, resample, *split, groups)
        X, y, X_test, y_test = split
        places = nested_subset(y, train_size, seed=seed)
        groups = None if groups is None else groups[places]
        X, y = taken(X, places), y[places]
        return cls(name, resample, X, y, X_test, y_test, groups, train_size, seed)

    def loader(self, context: str) -> str:
        """Return the expression that loads one part, to be recorded with a run."""
        subset = context == "train" and self.train_size != WHOLE
        if not self.resample and not subset and not _split_table(self.name):
            return f"tsformer.data.load_dataset({self.name!r}, split={context!r})"
        said = f"{self.name!r}, {self.resample}"
        said += f", {self.train_size!r}, seed={self.seed}" if subset else ""
        return f"tsformer.studies.run.problem.Problem.load({said}).X_{context}"


@cache
def n_train(name: str, resample: int, train_size: str) -> int:
    """Return the number of series that a fit of this size is trained on, under any seed."""
    try:
        return subset_size(Problem.load(name, resample).y_train, train_size)
    except ValueError as error:
        raise ValueError(f"train size {train_size} on {name}: {error}") from error


def fold_sizes(name: str) -> list[int]:
    """Return the number of series in each fold; none without folds."""
    return np.bincount(_split_table(name).get("fold", [])).tolist()


def write_split(stem: Path, columns: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the fold or the group of each series, train split first."""
    pd.DataFrame(columns).to_csv(f"{stem}{_SPLIT}", index=False, lineterminator="\n")


def _fold(
    name: str,
    split: tuple[Any, np.ndarray, Any, np.ndarray],
    folds: npt.NDArray[np.int64],
    number: int,
) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Return the split that tests on one fold."""
    if number > folds.max():
        raise ValueError(
            f"{name} has {folds.max() + 1} folds, which are its resamples, numbered from 0; got "
            f"number {number}. A study of it has at most {folds.max() + 1} resamples"
        )
    X_train, y_train, X_test, y_test = split
    X, y = [*X_train, *X_test], np.concatenate([y_train, y_test])
    parts = [np.flatnonzero(folds != number), np.flatnonzero(folds == number)]
    (X_train, y_train), (X_test, y_test) = (([X[i] for i in part], y[part]) for part in parts)
    return X_train, y_train, X_test, y_test


@lru_cache(maxsize=_KEPT)
def _split_table(name: str) -> dict[str, npt.NDArray[Any]]:
    """Return the folds and groups of a problem's series, if it has any."""
    home = folder_of(name)
    file = None if home is None else Path(f"{home / name}{_SPLIT}")
    if file is None or not file.is_file():
        return {}
    table = pd.read_csv(file, dtype={"fold": np.int64, "group": str}, keep_default_na=False)
    return {str(column): table[column].to_numpy() for column in table}


@cache
def series_digest(name: str) -> str:
    """Return a hash of all series and labels of a data set, sixteen hex digits."""
    found = hashlib.sha256()
    X_train, y_train, X_test, y_test = _official(name)
    for X, y in ((X_train, y_train), (X_test, y_test)):
        for x, label in zip(X, y, strict=True):
            found.update(f"{x.shape} {label}\n".encode())
            found.update(np.ascontiguousarray(x, dtype="<f8").tobytes())
        found.update(b"part\n")
    return found.hexdigest()[:16]


@lru_cache(maxsize=_KEPT)
def _official(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    split = (*load_dataset(name, split="train"), *load_dataset(name, split="test"))
    for part in split:  # all fits of a process share the arrays
        for array in part if isinstance(part, list) else [part]:
            array.flags.writeable = False
    return split
