"""Summaries of relevance: the most relevant windows, and sums over spans of time."""

from typing import Any

import numpy as np
import numpy.typing as npt

from tsformer._checks import check_number

#: Least relevance of a window, as a share of the largest.
_LEAST = 0.25


def most_relevant_windows(
    relevance: npt.ArrayLike, n_windows: int = 3, width: int | None = None
) -> list[tuple[int, int, int]]:
    """Return the windows of one channel whose relevance adds up to most, without overlap.

    Parameters
    ----------
    relevance : array-like (channels, length)
        Of one series, as in a row of what `TSTransformerClassifier.explain` returns.
    n_windows : int, default=3
        Most windows to return. Their sums are positive, and at least a quarter of the largest.
    width : int, optional
        Steps of a window; by default a tenth of the length.

    Returns
    -------
    list of (channel, begin, end)
        The most relevant first; `end` is the step after the last.

    Examples
    --------
    >>> most_relevant_windows([[0, 0, 2, 3, 0, 0], [0, 2, 0, 0, 0, 0]], width=2)
    [(0, 2, 4), (1, 0, 2)]
    """
    values = np.asarray(relevance, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(f"relevance must be (channels, length), not empty; got {values.shape}")
    length = values.shape[1]
    width = max(1, round(length / 10)) if width is None else width
    check_number("n_windows", n_windows, 0, whole=True)
    check_number("width", width, 1, length, whole=True)
    sums = np.lib.stride_tricks.sliding_window_view(values, width, axis=1).sum(axis=2).copy()
    least = _LEAST * sums.max()
    windows: list[tuple[int, int, int]] = []
    while len(windows) < n_windows:
        channel, begin = (int(at) for at in np.unravel_index(sums.argmax(), sums.shape))
        if not sums[channel, begin] > 0 or sums[channel, begin] < least:
            break
        windows.append((channel, begin, begin + width))
        sums[channel, max(begin - width + 1, 0) : begin + width] = -np.inf
    return windows


def relevance_over_time(
    relevance: npt.ArrayLike, times: npt.ArrayLike, edges: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """Add up the relevance of the steps within each span of time, to compare irregular series.

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
        Without the relevance of steps outside all spans.

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
    clocks: Any = times
    clocks = [clocks] * len(values) if len(clocks) and np.ndim(clocks[0]) == 0 else clocks
    for i, (channels, at) in enumerate(zip(values, clocks, strict=True)):
        if len(at) > values.shape[2]:
            raise ValueError(f"series {i} has {len(at)} times, and {values.shape[2]} steps")
        sums[i] = [np.histogram(at, ends, weights=x[: len(at)])[0] for x in channels]
    return sums
