"""Stratified resamples of a data set, the same as those of sktime and aeon; and a first split."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["stratified_resample", "stratified_split", "taken"]


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

    Parameters
    ----------
    X_train, X_test : array (B, C, L) or sequence of arrays (C, L)
        The official split. Lists give lists, and so do arrays of different lengths.
    y_train, y_test : array (B,)
        The labels.
    seed : int
        Number of the resample.

    Returns
    -------
    tuple
        `X_train, y_train, X_test, y_test`, sorted by class.

    Examples
    --------
    >>> X, y = np.arange(6.0).reshape(6, 1, 1), np.array(list("aabbab"))
    >>> X_train, y_train, X_test, y_test = stratified_resample(X[:4], y[:4], X[4:], y[4:], seed=1)
    >>> y_train.tolist(), y_test.tolist()
    (['a', 'a', 'b', 'b'], ['a', 'b'])
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
    """Split series without an official split: the same share of each class is for testing.

    Series are taken to be independent. Where several come from one person or machine, a model may
    recognise it by the others: split such data by person or machine instead.

    Parameters
    ----------
    y : array (B,)
        The labels.
    test_share : float
        Share of the series of each class to test on, rounded, at least one and never all.
    seed : int
        Seed of the draw.

    Returns
    -------
    train, test : array of int
        The places of the series in `y`, in order.

    Raises
    ------
    ValueError
        If a class has a single series.

    Examples
    --------
    >>> y = np.array(list("aaabbbbbbb"))
    >>> train, test = stratified_split(y)
    >>> "".join(y[train]), "".join(y[test])
    ('aabbbbb', 'abb')
    """
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


def _joined(first: Any, second: Any) -> np.ndarray | list[Any]:
    arrays = isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    if arrays and first.shape[1:] == second.shape[1:]:
        return np.concatenate([first, second])
    return [*first, *second]


def taken(X: np.ndarray | Sequence[Any], places: Sequence[int] | np.ndarray) -> Any:
    """Return the series at these places: an array of an array, a list of a list."""
    return X[places] if isinstance(X, np.ndarray) else [X[i] for i in places]
