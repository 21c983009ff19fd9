"""Problem: a data set and a split, loaded once per process, and how splits are drawn."""

import hashlib
import re
import tempfile
import warnings
from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from tsformer._warnings import warn_caller
from tsformer.data import load_dataset
from tsformer.data.archive import folder_of
from tsformer.data.containers import to_arrays, to_items, warn_of_missing_rows
from tsformer.data.table import Source
from tsformer.data.tsfile import writable_labels, write_ts
from tsformer.estimators.targets import warn_of_labels
from tsformer.studies.design.study import WHOLE

#: Series and labels to train on, and to test on.
Split = tuple[Any, np.ndarray, Any, np.ndarray]
# A worker gets the data sets of a study in any order; keeping more could fill its memory.
_KEPT = 16
# The file of a problem with the fold and the group of each series.
_SPLIT = "_SPLIT.csv"


def stratified_resample(
    X_train: np.ndarray | Sequence[Any],
    y_train: np.ndarray,
    X_test: np.ndarray | Sequence[Any],
    y_test: np.ndarray,
    *,
    seed: int,
) -> Split:
    """Draw a split with the official class counts, as sktime and aeon do with this seed."""
    y = np.concatenate([y_train, y_test])
    generator = np.random.RandomState(seed)  # not a Generator: published splits use this
    train, test = list[int](), list[int]()
    for label in np.unique(y):
        index = np.flatnonzero(y == label)
        generator.shuffle(index)
        n = int(np.sum(y_train == label))
        train += index[:n].tolist()
        test += index[n:].tolist()
    return _divided((X_train, y_train, X_test, y_test), train, test)


def _divided(split: Split, train: Any, test: Any) -> Split:
    """Divide the series of train and test split again."""
    X: Any = [*split[0], *split[2]]
    X = np.stack(X) if len({x.shape for x in X}) == 1 and isinstance(split[0], np.ndarray) else X
    y = np.concatenate([split[1], split[3]])
    return taken(X, train), y[train], taken(X, test), y[test]


def taken(X: np.ndarray | Sequence[Any], index: Sequence[int] | np.ndarray) -> Any:
    """Return series by index: an array of an array, a list of a list."""
    return X[index] if isinstance(X, np.ndarray) else [X[i] for i in index]


def cross_validation_folds(
    y: npt.NDArray[Any], groups: npt.NDArray[Any] | None = None, *, n_folds: int = 5
) -> npt.NDArray[np.int64]:
    """Divide series into stratified folds; all series of a group are in one fold."""
    folds = np.full(len(y), -1, dtype=np.int64)
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    # The checks below suffice for small classes.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        draw = kind(n_folds, shuffle=True, random_state=0)
        for number, (_, test) in enumerate(draw.split(np.zeros(len(y)), y, groups)):
            folds[test] = number
    if len(np.unique(folds)) < n_folds:
        raise ValueError(f"a fold of n_folds={n_folds} has no series; use fewer folds")
    for label, n in pd.Series(folds).groupby(y).nunique().items():
        if n == 1:
            problem = f"class {str(label)!r} has series in only one of the {n_folds} folds"
            raise ValueError(f"{problem}; drop the class, or change folds or groups")
    return folds


def subset_size(y: npt.NDArray[Any], size: str, of: str = "") -> int:
    """Return the number of series that a size stands for."""
    n_classes = len(np.unique(y))
    if size.endswith("%"):
        return max(n_classes, int(len(y) * float(size[:-1]) / 100 + 0.5))
    if not n_classes <= (n := int(size)) <= len(y):
        raise ValueError(f"train size {n}{of}: take from {n_classes} to {len(y)}, or a percentage")
    return n


def nested_order(y: npt.NDArray[Any], *, seed: int) -> npt.NDArray[np.intp]:
    """Return an order of series in which every prefix is stratified, by the Sainte-Lague method.

    After one series of each class a prefix minimises the sum over classes of ``(drawn - due) ** 2 /
    due``, where `due` is the proportional number (Balinski and Young, "Fair Representation", 2001).
    """
    shuffled = np.random.default_rng(seed).permutation(len(y))
    drawn = pd.Series(y[shuffled]).groupby(y[shuffled])
    rank = drawn.cumcount()  # within its class
    due = ((rank + 0.5) / drawn.transform("size")).where(rank > 0, 0.0)
    return shuffled[np.argsort(due.to_numpy(), kind="stable")]


def nested_subset(y: npt.NDArray[Any], size: str, *, seed: int) -> npt.NDArray[np.intp]:
    """Return a stratified subset; subsets of the same seed are nested."""
    return np.sort(nested_order(y, seed=seed)[: subset_size(y, size)])


class Problem(NamedTuple):
    """A data set with a split, or with a subset of its train split."""

    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    groups_train: np.ndarray | None = None

    @classmethod
    def load(cls, name: str, resample: int = 0, train_size: str = WHOLE, seed: int = 0) -> Self:
        """Load by name: split or fold number `resample`, and the `train_size` drawn with `seed`."""
        split, table, groups = official_split(name), _split_table(name), None
        if table:
            folds = table["fold"]
            if resample > folds.max():
                raise ValueError(f"{name} has {1 + folds.max()} folds, from 0; got {resample}")
            train = np.flatnonzero(folds != resample)
            split = _divided(split, train, np.flatnonzero(folds == resample))
            groups = table["group"][train] if "group" in table else None
        elif resample:
            split = stratified_resample(*split, seed=resample)
        if train_size == WHOLE:
            return cls(*split, groups)
        X, y, X_test, y_test = split
        index = nested_subset(y, train_size, seed=seed)
        groups = None if groups is None else groups[index]
        return cls(taken(X, index), y[index], X_test, y_test, groups)


@cache
def n_train(name: str, resample: int, train_size: str) -> int:
    """Return the number of series that a fit of this size is trained on, under any seed."""
    return subset_size(Problem.load(name, resample).y_train, train_size, f" on {name}")


def fold_sizes(name: str) -> list[int]:
    """Return the number of series in each fold; none without folds."""
    return np.bincount(_split_table(name).get("fold", [])).tolist()


@lru_cache(maxsize=_KEPT)
def _split_table(name: str) -> dict[str, npt.NDArray[Any]]:
    """Return the folds and groups of a problem's series, if it has any."""
    home = folder_of(name)
    if home is None or not (file := home / f"{name}{_SPLIT}").is_file():
        return {}
    table = pd.read_csv(file, dtype={"fold": np.int64, "group": str}, keep_default_na=False)
    return {str(column): table[column].to_numpy() for column in table}


@lru_cache(maxsize=_KEPT)
def official_split(name: str) -> Split:
    """Load train and test split."""
    split = (*load_dataset(name, split="train"), *load_dataset(name, split="test"))
    for values in split:  # all fits of a process share the arrays
        for array in values if isinstance(values, list) else [values]:
            array.flags.writeable = False
    return split


@cache
def series_digest(name: str) -> str:
    """Return a hash of all series, times and labels of a data set, sixteen hex digits."""
    X_train, y_train, X_test, y_test = official_split(name)
    return digest_of(((X_train, y_train), (X_test, y_test)))[:16]


def digest_of(splits: Iterable[tuple[Sequence[Any], npt.NDArray[Any]]], also: str = "") -> str:
    """Return a hash of the series, times and labels of splits, and of a text."""
    code = hashlib.sha256(also.encode())
    for X, y in splits:
        for x, label in zip(X, y, strict=True):
            code.update(f"{x.shape} {label}\n".encode())
            if isinstance(x, pd.DataFrame | pd.Series):
                code.update(f"{x.index.tolist()}\n".encode())
            code.update(np.ascontiguousarray(x, dtype="<f8").tobytes())
        code.update(b"part\n")
    return code.hexdigest()


class OwnProblem(NamedTuple):
    """A problem that was written: its name, its folder, and how it was split."""

    name: str
    home: Path
    split: str


def own_problem(
    title: str, source: Source, *, n_folds: int, timestamps: object = None
) -> OwnProblem:
    """Write series as a problem, with times if fits read them, that `load_dataset` finds."""
    X, labels = to_arrays(source.X), np.asarray(source.y)
    items: Sequence[Any] = X if timestamps is None else to_items(source.X)
    if timestamps is None and isinstance(source.X, (list, tuple)):
        warn_of_missing_rows(source.X)
    classes = np.unique(labels)
    if len(classes) < 2:
        raise ValueError(f"a comparison needs two labels or more; got {classes.tolist()}")
    warn_of_labels(classes)
    folds = cross_validation_folds(labels, source.groups, n_folds=n_folds)
    equal = pd.factorize(pd.Series([(x.shape, x.tobytes()) for x in X]))[0]
    if copies := int(pd.Series(folds).groupby(equal).transform("nunique").gt(1).sum()):
        where = f"{copies} of the {len(X)} series have a copy in another fold"
        warn_caller(f"{where}, so that accuracies are too high; leave the copies out")
    split = f"cross-validated in {n_folds} stratified folds, each tested on by a fit to the others"
    order = np.argsort(folds == 0, kind="stable")  # the first fold is the test split
    table = pd.DataFrame({"fold": folds[order]})
    if source.groups is not None:
        table["group"] = source.groups[order]
        named = repr(source.schema.group) if source.schema and source.schema.group else "group"
        n_groups = table["group"].nunique()
        split += f"; all series of one {named}, of {n_groups}, are in one fold"
    y, n, items = writable_labels(labels[order]), (folds != 0).sum(), [items[i] for i in order]
    splits = {"TRAIN": (items[:n], y[:n]), "TEST": (items[n:], y[n:])}
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", title).strip("-")[:80] or "own"
    name = f"{stem}-{digest_of(splits.values(), table.to_csv(index=False))[:8]}"
    home = Path("data") / name
    if home.is_dir():
        return OwnProblem(name, home, split)
    home.parent.mkdir(parents=True, exist_ok=True)
    # In the target folder, so that the move is an atomic rename.
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=home.parent) as temporary:
        folder = Path(temporary) / name
        folder.mkdir()
        for label, (series, y) in splits.items():
            write_ts(folder / f"{name}_{label}.ts", series, y, comment=f"Written from {title}.")
        table.to_csv(folder / f"{name}{_SPLIT}", index=False, lineterminator="\n")
        folder.rename(home)
    return OwnProblem(name, home, split)
