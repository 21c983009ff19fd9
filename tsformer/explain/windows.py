"""The windows in which most of a prediction's relevance is."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tsformer._numbers import check_number

__all__ = ["most_relevant_windows"]

#: Windows with less than this share of the relevance of the first are not worth a look.
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
        The most windows to return; only those are whose sum is positive, and at least a quarter of
        the largest.
    width : int, optional
        Steps of a window; by default a tenth of the length.

    Returns
    -------
    list of (channel, begin, end)
        The most relevant first; `end` is the step after the last.

    Raises
    ------
    ValueError
        If `relevance` is of another shape or empty, `n_windows` is no whole number, or `width` is
        none from 1 to the length.

    Examples
    --------
    >>> most_relevant_windows([[0, 0, 2, 3, 0, 0], [0, 2, 0, 0, 0, 0]], width=2)
    [(0, 2, 4), (1, 0, 2)]
    """
    values = np.asarray(relevance, dtype=np.float64)
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"relevance must be (channels, length), one or more of each; got {values.shape}"
        )
    length = values.shape[1]
    width = max(1, round(length / 10)) if width is None else width
    check_number("n_windows", n_windows, 0, whole=True)
    check_number("width", width, 1, whole=True)
    if width > length:
        raise ValueError(f"width must be from 1 to the length, {length}; got {width}")
    sums = np.lib.stride_tricks.sliding_window_view(values, width, axis=1).sum(axis=2).copy()
    least = _LEAST * sums.max()
    found: list[tuple[int, int, int]] = []
    while len(found) < n_windows:
        channel, begin = (int(at) for at in np.unravel_index(sums.argmax(), sums.shape))
        if not sums[channel, begin] > 0 or sums[channel, begin] < least:
            break
        found.append((channel, begin, begin + width))
        sums[channel, max(begin - width + 1, 0) : begin + width] = -np.inf
    return found
