"""Scaler: values of a common size, gaps filled and flagged, times in regular steps."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch

from tsformer._names import unknown
from tsformer.data.panel import Floats, Padded, Panel

__all__ = ["GAP", "SCALINGS", "Scaler", "make_panel", "regular_step"]

SCALINGS = ("channel", "series", None)
#: What says that a value is missing, beside values of size 1. As large as these it costs more
#: where gaps mean nothing: experiments/missing_values.py compares.
GAP = -0.1


class Scaler:
    """Bring values to mean 0 and standard deviation 1 and hand them over as tensors.

    A gap is filled along the straight line in time between the values around it, or with the one
    value there is at an end; a channel without any value in a series becomes 0, the mean. Each
    channel that has gaps in training gets one more, after all the others, which is `GAP` where a
    value is missing and 0 where it was observed. Steps before the first value are masked.

    Parameters
    ----------
    how : {"channel", "series", None}
        "channel": by each channel's mean and deviation over the training series; "series": each
        channel of each series by its own; None: not at all.

    Attributes
    ----------
    mean, std : ndarray [C] of float64, or None
        With "channel", after `fit`.
    flagged : ndarray [C] of bool
        Which channels have missing values in training.
    step : float or None
        One regular step in the unit of the times given; None where the series came without.
    """

    def __init__(self, how: str | None):
        if how not in SCALINGS:
            raise ValueError(unknown("scaling", how, SCALINGS))
        self.how = how
        self.mean: Floats | None = None
        self.std: Floats | None = None
        self.flagged: npt.NDArray[np.bool_] = np.zeros(0, dtype=bool)
        self.step: float | None = None

    @property
    def n_inputs(self) -> int:
        """Channels of the panel: those of the series and those that say where gaps are."""
        return len(self.flagged) + int(self.flagged.sum())

    def fit(self, series: Padded) -> Scaler:
        """Learn what `transform` needs."""
        self.flagged = np.asarray(np.isnan(series.values).any(axis=(0, 1)))
        self.step = regular_step(series)
        if self.how == "channel":
            mean, std = _moments(series, axis=(0, 1))
            self.mean, self.std = mean[0, 0], std[0, 0]
        return self

    def transform(self, series: Padded) -> Panel:
        """Scale in float64 and return a float32 panel."""
        values, missing = series.values, np.isnan(series.values)
        self._warn_of_new_gaps(missing)
        if self.mean is not None and self.std is not None:
            with np.errstate(over="ignore"):  # refused below, with its place
                values = (values - self.mean) / self.std
        elif self.how == "series":
            mean, std = _moments(series, axis=(1,))
            values = (values - mean) / std
        _refuse_too_large(values)
        there = series.there[..., None]
        seen = series.there
        if missing.any():
            values = _interpolated(values, there & ~missing, series.times)
            seen = np.maximum.accumulate((there & ~missing).any(axis=-1), axis=1) & seen
        flags = GAP * (there & missing)[..., self.flagged]
        values = np.concatenate([np.where(there, values, 0.0), flags], axis=-1)
        return make_panel(values, series, seen, self.step)

    def _warn_of_new_gaps(self, missing: npt.NDArray[np.bool_]) -> None:
        new = np.flatnonzero(missing.any(axis=(0, 1)) & ~self.flagged)
        if len(new):
            warnings.warn(
                f"X has missing values in channels {new[:10].tolist()}, where the training data "
                "had none: gaps are filled from the values around them, but the model never "
                "learned what a gap there means",
                stacklevel=5,
            )


def _interpolated(values: Floats, observed: npt.NDArray[np.bool_], times: Floats | None) -> Floats:
    """Return `values` with straight lines over the gaps, level at the ends; 0 for no value."""
    n_steps = values.shape[1]
    step = np.arange(n_steps)[:, None]
    before = np.maximum.accumulate(np.where(observed, step, -1), axis=1)
    after = np.minimum.accumulate(np.where(observed, step, n_steps)[:, ::-1], axis=1)[:, ::-1]
    nothing = before[:, -1:] < 0
    before, after = np.where(before < 0, after, before), np.where(after == n_steps, before, after)
    before, after = before.clip(0, n_steps - 1), after.clip(0, n_steps - 1)
    clock = np.arange(n_steps, dtype=np.float64)[None] if times is None else times
    t = np.broadcast_to(clock[..., None], values.shape)
    start = np.take_along_axis(t, before, axis=1)
    span = np.take_along_axis(t, after, axis=1) - start
    part = np.where(span > 0, t - start, 0.0) / np.where(span > 0, span, 1.0)
    left = np.take_along_axis(values, before, axis=1)
    right = np.take_along_axis(values, after, axis=1)
    # Weighed, not left + part (right - left), which would round a value that was observed.
    filled = np.where(part == 0, left, left * (1 - part) + right * part)
    return np.where(nothing, 0.0, np.where(observed, values, filled))


def make_panel(
    values: Floats, series: Padded, seen: npt.NDArray[np.bool_], step: float | None
) -> Panel:
    """Return `values` ``[n, L, C']`` of `series` as tensors, with gaps and times where it has."""
    gaps = not np.array_equal(seen, series.there)
    times = None
    if series.times is not None and step is not None:
        times = torch.from_numpy((series.times / step).astype(np.float32))
    return Panel(
        torch.from_numpy(values.astype(np.float32)),
        torch.from_numpy(series.lengths),
        torch.from_numpy(seen) if gaps else None,
        times,
    )


def regular_step(series: Padded) -> float | None:
    """Return the median distance between steps that are apart; None where there are no times."""
    if series.times is None:
        return None
    apart = np.diff(series.times, axis=1)[series.there[:, 1:]]
    apart = apart[apart > 0]
    return float(np.median(apart)) if len(apart) else 1.0


def _moments(series: Padded, axis: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of the values that are there; 0 and 1 for none or a constant."""
    values = series.values
    there = series.there[..., None] & ~np.isnan(values)
    count = np.maximum(there.sum(axis=axis, keepdims=True), 1)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below, with a reason
        mean = values.sum(axis=axis, keepdims=True, where=there) / count
        squares = (values - mean) ** 2
        std = np.sqrt(squares.sum(axis=axis, keepdims=True, where=there) / count)
    if not np.isfinite(std).all():
        raise ValueError(
            f"X has values as large as {np.nanmax(np.abs(values)):.3g}, whose squares are too "
            "large for a standard deviation in float64; divide X by a constant first"
        )
    # A constant has a deviation of rounding error only; dividing by that would make noise of it.
    constant = std <= 1e-12 * np.maximum(np.abs(mean), 1.0)
    return mean, np.where(constant, 1.0, std)


def _refuse_too_large(values: Floats) -> None:
    too_large = np.abs(values) > np.finfo(np.float32).max
    if too_large.any():
        case, step, channel = (int(i) for i in np.argwhere(too_large)[0])
        raise ValueError(
            f"X is too large for float32 after scaling: {values[case, step, channel]:.3g} at "
            f"series {case}, channel {channel}, step {step}"
        )
