"""Splits of a data set: resamples as in sktime and aeon, folds by group, nested subsets."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold


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


def stratified_split(
    y: np.ndarray, *, test_share: float = 0.3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Split series at random: the same share of each class is for testing."""
    generator = np.random.default_rng(seed)
    test: list[int] = []
    for label in np.unique(y):
        places = generator.permutation(np.flatnonzero(y == label))
        if len(places) < 2:
            raise ValueError(
                f"class {str(label)!r} has a single series, which cannot be both trained on and "
                "tested on; leave it out, or give test series of their own"
            )
        n_test = min(max(round(test_share * len(places)), 1), len(places) - 1)
        test += places[:n_test].tolist()
    return np.setdiff1d(np.arange(len(y)), test), np.array(sorted(test))


def cross_validation_folds(
    y: npt.NDArray[Any],
    groups: npt.NDArray[Any] | None = None,
    *,
    n_folds: int = 5,
    seed: int = 0,
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
        draw = kind(n_folds, shuffle=True, random_state=seed)
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


def subset_size(y: npt.NDArray[Any], size: str) -> int:
    """Return the number of series that a size stands for."""
    n_classes = len(np.unique(y))
    if size.endswith("%"):
        return max(n_classes, int(len(y) * float(size[:-1]) / 100 + 0.5))
    n = int(size)
    if n < n_classes:
        raise ValueError(
            f"{n} series are fewer than the {n_classes} classes; take at least {n_classes}, or a "
            "percentage, which is rounded up to one series of each class"
        )
    if n > len(y):
        raise ValueError(
            f"{n} series are more than the {len(y)} of the train split; take fewer, or 100% for "
            "all of them"
        )
    return n


def nested_order(y: npt.NDArray[Any], *, seed: int) -> npt.NDArray[np.intp]:
    """Return an order of series in which every prefix is stratified.

    Series are shuffled within their classes. The order starts with one series of each class and
    continues by the Sainte-Lague method: each prefix minimises the sum over classes of
    ``(drawn - due) ** 2 / due``, where `due` is the proportional number (Balinski
    and Young, "Fair Representation", 2001).
    """
    shuffled = np.random.default_rng(seed).permutation(len(y))
    _, classes, counts = np.unique(y[shuffled], return_inverse=True, return_counts=True)
    place = np.empty(len(y))  # within its class
    for label, count in enumerate(counts):
        place[classes == label] = np.arange(count)
    due = np.where(place == 0, 0.0, (place + 0.5) / counts[classes])
    return shuffled[np.argsort(due, kind="stable")]


def nested_subset(y: npt.NDArray[Any], size: str, *, seed: int) -> npt.NDArray[np.intp]:
    """Return a stratified subset; subsets of the same seed are nested."""
    return np.sort(nested_order(y, seed=seed)[: subset_size(y, size)])
