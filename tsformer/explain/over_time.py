"""Relevance at real times: sums over spans of time, for series of any times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["relevance_over_time"]


def relevance_over_time(
    relevance: npt.ArrayLike, times: npt.ArrayLike, edges: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Add up the relevance of the steps within each span of time.

    Steps of irregular times are not comparable between series, nor evenly spread in one: a picture
    by step stretches where observations are dense. Sums over spans are comparable, and keep the
    total.

    Parameters
    ----------
    relevance : array-like (n, channels, length)
        As `TSTransformerClassifier.explain` returns it.
    times : array-like (length,) or (n, length), or list of (length,) arrays
        Times of the steps.
    edges : array-like (K + 1,)
        Where spans begin and end, increasing; the last span includes its end.

    Returns
    -------
    ndarray (n, channels, K)
        The relevance of steps outside all spans is in none of them.

    Raises
    ------
    ValueError
        If shapes do not fit, or `edges` do not increase.

    Examples
    --------
    >>> relevance_over_time([[[1.0, 2.0, 4.0]]], [0.0, 0.5, 3.0], [0, 1, 2, 3])
    array([[[3., 0., 4.]]])
    """
    values = np.asarray(relevance, dtype=np.float64)
    ends = np.asarray(edges, dtype=np.float64)
    if values.ndim != 3:
        raise ValueError(f"relevance must be (n, channels, length); got {values.shape}")
    if ends.ndim != 1 or len(ends) < 2 or not (np.diff(ends) > 0).all():
        raise ValueError(f"edges must be two or more increasing numbers; got {ends.tolist()[:10]}")
    sums = np.zeros((*values.shape[:2], len(ends) - 1))
    for i, steps in enumerate(_each(times, len(values))):
        at = np.asarray(steps, dtype=np.float64)
        if len(at) > values.shape[2]:
            raise ValueError(
                f"series {i} has {len(at)} times, but relevance of {values.shape[2]} steps"
            )
        span = np.searchsorted(ends, at, side="right") - 1
        span[at == ends[-1]] = len(ends) - 2
        within = (span >= 0) & (span < len(ends) - 1)
        for channel, row in zip(sums[i], values[i, :, : len(at)], strict=True):
            np.add.at(channel, span[within], row[within])
    return sums


def _each(times: Any, n: int) -> list[Any]:
    """Return the times of each series."""
    if len(times) and np.ndim(times[0]) == 0:
        return [times] * n
    if len(times) != n:
        raise ValueError(f"relevance is of {n} series, but times has {len(times)}")
    return list(times)
