"""Nested stratified subsets of a train split."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


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
    ``(drawn - due) ** 2 / due``, where `due` is the proportional number.

    References
    ----------
    Balinski and Young, "Fair Representation", 2001.

    Examples
    --------
    >>> y = np.array(list("aaaaaabbb"))
    >>> order = nested_order(y, seed=0)
    >>> [sorted(y[order[:n]].tolist()) for n in (2, 3, 6)]
    [['a', 'b'], ['a', 'a', 'b'], ['a', 'a', 'a', 'a', 'b', 'b']]
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
