"""Problem: a data set and a split, loaded once per process, and how splits are drawn."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from tsformer.data import load_dataset
from tsformer.data.archive import folder_of


def stratified_resample(
    X_train: np.ndarray | Sequence[Any],
    y_train: np.ndarray,
    X_test: np.ndarray | Sequence[Any],
    y_test: np.ndarray,
    *,
    seed: int,
) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Draw a new train/test split with the class counts of the official one.

    All series, train before test, are shuffled within each class. The same seed gives the same
    split as the functions of this name in sktime and aeon, so that published results of numbered
    resamples refer to these splits.
    """
    y = np.concatenate([y_train, y_test])
    n_train = {label: int(np.sum(y_train == label)) for label in np.unique(y)}
    generator = np.random.RandomState(seed)  # not a Generator: published splits use this
    train: list[int] = []
    test: list[int] = []
    for label, n in n_train.items():
        places = np.flatnonzero(y == label)
        generator.shuffle(places)
        train += places[:n].tolist()
        test += places[n:].tolist()
    X = _joined(X_train, X_test)
    return taken(X, train), y[train], taken(X, test), y[test]


def stratified_split(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split series at random: 30 % of each class are for testing."""
    generator = np.random.default_rng(0)
    test: list[int] = []
    for label in np.unique(y):
        places = generator.permutation(np.flatnonzero(y == label))
        if len(places) < 2:
            raise ValueError(
                f"class {str(label)!r} has a single series, which cannot be both trained on and "
                "tested on; leave it out, or give test series of their own"
            )
        n_test = min(max(round(0.3 * len(places)), 1), len(places) - 1)
        test += places[:n_test].tolist()
    return np.setdiff1d(np.arange(len(y)), test), np.array(sorted(test))


def cross_validation_folds(
    y: npt.NDArray[Any], groups: npt.NDArray[Any] | None = None, *, n_folds: int = 5
) -> npt.NDArray[np.int64]:
    """Divide series into folds for cross-validation.

    Each fold has about the same share of each class. All series of a group are in one fold, so
    that no model is tested on a patient or machine that it was trained on.
    """
    n_apart = len(y) if groups is None else len(np.unique(groups))
    what = "series" if groups is None else "groups"
    if n_folds < 2 or n_folds > n_apart:
        raise ValueError(
            f"the number of folds must be at least 2 and at most that of {what}, {n_apart}; got "
            f"{n_folds}"
        )
    classes, counts = np.unique(y, return_counts=True)
    if n_folds > counts.max():
        raise ValueError(
            f"the number of folds must be at most that of series of the largest class, "
            f"{counts.max()}, or no class has series in each; got {n_folds}"
        )
    found = np.full(len(y), -1, dtype=np.int64)
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    with warnings.catch_warnings():
        # The warning that a class has fewer series than folds: the checks below suffice.
        warnings.simplefilter("ignore", UserWarning)
        draw = kind(n_folds, shuffle=True, random_state=0)
        for number, (_, test) in enumerate(draw.split(np.zeros(len(y)), y, groups)):
            found[test] = number
    for label in classes:
        where = found[y == label]
        if len(set(where.tolist())) < 2:
            in_one = "a single series" if groups is None or len(where) == 1 else "one group only"
            raise ValueError(
                f"class {str(label)!r} has series in one of the {n_folds} folds only, where no "
                f"model would know it; leave it out if it has {in_one}, or take other folds"
            )
    if len(set(found.tolist())) < n_folds:
        raise ValueError(f"a fold of {n_folds} has no series; take fewer folds")
    return found


def _joined(first: Any, second: Any) -> np.ndarray | list[Any]:
    arrays = isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    if arrays and first.shape[1:] == second.shape[1:]:
        return np.concatenate([first, second])
    return [*first, *second]


def taken(X: np.ndarray | Sequence[Any], places: Sequence[int] | np.ndarray) -> Any:
    """Return the series at these places: an array of an array, a list of a list."""
    return X[places] if isinstance(X, np.ndarray) else [X[i] for i in places]


# A worker gets the data sets of a study in any order; keeping more could fill its memory.
_KEPT = 16
# The file of a problem with the fold or the group of each series.
_SPLIT = "_SPLIT.csv"


@dataclass(frozen=True)
class Problem:
    """A data set with a split."""

    name: str
    resample: int
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    groups_train: np.ndarray | None = None

    @classmethod
    def load(cls, name: str, resample: int = 0) -> Problem:
        """Load by name the split or fold number `resample`."""
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
        return cls(name, resample, *split, groups)

    def loader(self, context: str) -> str:
        """Return the expression that loads one part, to be recorded with a run."""
        if not self.resample and not _split_table(self.name):
            return f"tsformer.data.load_dataset({self.name!r}, split={context!r})"
        said = f"{self.name!r}, {self.resample}"
        return f"tsformer.studies.run.problem.Problem.load({said}).X_{context}"


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
    """Return a hash of all series, times and labels of a data set, sixteen hex digits."""
    found = hashlib.sha256()
    X_train, y_train, X_test, y_test = _official(name)
    for X, y in ((X_train, y_train), (X_test, y_test)):
        for x, label in zip(X, y, strict=True):
            found.update(f"{x.shape} {label}\n".encode())
            if isinstance(x, pd.DataFrame):
                found.update(f"{x.index.tolist()}\n".encode())
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
