"""Convert the times of steps, numbers or dates, to numbers relative to the first step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer.data.panel import Floats

__all__ = ["pad_times"]


def pad_times(times: Any, lengths: npt.NDArray[np.int64]) -> tuple[Floats, str]:
    """Convert the times of series to padded numbers, and return their unit.

    Parameters
    ----------
    times : ndarray (length,) or (n, length), or list of n (length,) arrays or pandas indices
        Non-decreasing numbers or dates; a single one-dimensional array applies to all series.
    lengths : ndarray [n] of int64
        Number of steps of each series.

    Returns
    -------
    times : ndarray [n, L] of float64
        Time since the first step of each series, for dates in seconds. Zero past the end.
    clock : {"numbers", "dates"}
        The unit of the times.

    Raises
    ------
    ValueError
        If there are not as many times as steps, or a time is missing, infinite or less than the
        one before. The message names the series.
    TypeError
        If they are neither numbers nor dates, or a mixture of both.
    """
    each = _one_by_one(times, lengths)
    padded = np.zeros((len(lengths), int(lengths.max())))
    clocks = set()
    for i, (row, given, length) in enumerate(zip(padded, each, lengths.tolist(), strict=True)):
        numbers, clock = _numbers(given, f"times of series {i}")
        if len(numbers) != length:
            raise ValueError(f"series {i} has {length} steps, but {len(numbers)} times")
        if not np.isfinite(numbers).all():
            step = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise ValueError(
                f"the time of step {step} of series {i} is missing or infinite; every step needs "
                "a time, even if its values are missing"
            )
        falls = np.flatnonzero(np.diff(numbers) < 0)
        if len(falls):
            raise ValueError(
                f"times of series {i} decrease after step {int(falls[0])}; sort its steps by time"
            )
        row[:length] = numbers
        clocks.add(clock)
    if len(clocks) > 1:
        raise TypeError("the times of some series are dates and those of others are numbers")
    return padded, clocks.pop()


def _one_by_one(times: Any, lengths: npt.NDArray[np.int64]) -> Sequence[Any]:
    if isinstance(times, (list, tuple)) and len(times) and np.ndim(times[0]) == 1:
        each: Sequence[Any] = times
    elif isinstance(times, (pd.Index, pd.Series)):
        each = [times] * len(lengths)
    else:
        array = np.asarray(times)
        if array.ndim not in (1, 2):
            raise ValueError(
                "times must be (length,), (n, length), or a list of n (length,) arrays; got "
                f"{array.ndim} dimensions, shape {array.shape}"
            )
        each = [array] * len(lengths) if array.ndim == 1 else list(array)
    if len(each) != len(lengths):
        raise ValueError(f"X has {len(lengths)} series, but times has {len(each)}")
    return each


def _numbers(given: Any, what: str) -> tuple[Floats, str]:
    """Return the times relative to the first, and their unit."""
    index = given if isinstance(given, pd.Index) else pd.Index(given)
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    values = index.to_numpy()
    if len(values) == 0:
        return np.zeros(0), "numbers"
    if values.dtype.kind not in "Mmfiu":
        raise TypeError(
            f"{what} must be numbers or dates; got {type(index).__name__} of {index.dtype}, such "
            f"as {index[0]!r}. pandas.to_datetime parses dates from text"
        )
    if values.dtype.kind in "iu":  # small types would wrap around
        values = values.astype(np.float64 if values.dtype == np.uint64 else np.int64)
    apart = values - values[0]  # before the conversion, which would round nanoseconds since 1970
    if values.dtype.kind in "Mm":
        seconds = apart / np.timedelta64(1, "s")
        return seconds, "dates"
    return apart.astype(np.float64), "numbers"
