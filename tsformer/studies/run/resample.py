"""Stratified resamples of a data set, the same as those of sktime and aeon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["stratified_resample"]


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
    return _taken(X, train), y[train], _taken(X, test), y[test]


def _joined(first: Any, second: Any) -> np.ndarray | list[Any]:
    arrays = isinstance(first, np.ndarray) and isinstance(second, np.ndarray)
    if arrays and first.shape[1:] == second.shape[1:]:
        return np.concatenate([first, second])
    return [*first, *second]


def _taken(X: np.ndarray | list[Any], places: list[int]) -> Any:
    return X[places] if isinstance(X, np.ndarray) else [X[i] for i in places]
