"""Scaler: values of a common size, missing ones filled and flagged, times in regular steps."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt
import torch

from tsformer._names import unknown
from tsformer.data.panel import Floats, Padded, Panel

__all__ = ["SCALINGS", "Scaler", "make_panel", "regular_step"]

SCALINGS = ("channel", "series", None)


class Scaler:
    """Bring values to mean 0 and standard deviation 1 and hand them over as tensors.

    A missing value becomes 0 after scaling, which is the mean. Each channel that has missing
    values in training is followed, after all the others, by one more that says where it was
    observed (1) and where not (0); steps without any value are masked.

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
        """Channels of the panel: those of the series and those that say what was observed."""
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
        observed = series.there[..., None] & ~missing
        values = np.where(observed, values, 0.0)
        values = np.concatenate([values, observed[..., self.flagged]], axis=-1)
        _refuse_too_large(values)
        return make_panel(values, series, np.asarray(observed.any(axis=-1)), self.step)

    def _warn_of_new_gaps(self, missing: npt.NDArray[np.bool_]) -> None:
        new = np.flatnonzero(missing.any(axis=(0, 1)) & ~self.flagged)
        if len(new):
            warnings.warn(
                f"X has missing values in channels {new[:10].tolist()}, where the training data "
                "had none: they are read as the channel's mean, and the model never learned what "
                "a gap there means",
                stacklevel=5,
            )


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
