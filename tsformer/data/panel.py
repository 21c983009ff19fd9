"""Panel: the one place where a container of series becomes numbers, and where they are scaled.

`n` series, `L` time steps of the longest, `C` channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsformer._names import unknown

__all__ = ["SCALINGS", "Panel", "Scaler", "is_ragged", "is_there", "to_panel"]

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Panel:
    """Series as tensors on one device, shorter ones filled up with zeros at their end.

    Parameters
    ----------
    values : Tensor [n, L, C]
        float32, scaled.
    lengths : Tensor [n] of int64, on the CPU
        Steps of each series. They stay on the CPU, so that cutting a batch never waits for a
        device.
    """

    values: Tensor
    lengths: Tensor

    def __len__(self) -> int:
        return len(self.values)

    def to(self, device: torch.device) -> Panel:
        """Return the panel with its values on `device`."""
        return Panel(self.values.to(device), self.lengths)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return values ``[B, L', C]`` and keep ``[B, L']`` of the series `index`, a CPU tensor.

        `L'` is the longest length among them; `keep` is None where all are that long.
        """
        lengths = self.lengths[index]
        longest = int(lengths.max())
        device = self.values.device
        values = self.values[index.to(device), :longest]
        if int(lengths.min()) == longest:
            return values, None
        keep = torch.arange(longest) < lengths[:, None]
        return values, keep.to(device)


def is_ragged(X: object) -> bool:
    """Whether `X` is a list of arrays, one a series, rather than one array of numbers."""
    return (
        isinstance(X, (list, tuple))
        and len(X) > 0
        and all(isinstance(series, np.ndarray) and series.ndim > 0 for series in X)
    )


def to_panel(X: Floats | Sequence[Floats]) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Convert a container of series to padded values and lengths.

    Parameters
    ----------
    X : ndarray (n, length) or (n, channels, length), or list of (length,) or (channels, length)
    arrays
        The series; those of a list may differ in length, but not in channels.

    Returns
    -------
    values : ndarray [n, L, C] of float64
        A copy, zero past the end of each series.
    lengths : ndarray [n] of int64

    Raises
    ------
    ValueError
        If there are no series, a series is empty, channels differ, a value is not finite, or the
        number of dimensions is another. The message names the first series at fault.
    """
    if is_ragged(X):
        series = [_as_channels(np.asarray(x), f"series {i}") for i, x in enumerate(X)]
    else:
        array = np.asarray(X)
        if array.ndim not in (2, 3):
            raise ValueError(
                "X must be (n, length), (n, channels, length), or a list of (channels, length) "
                f"arrays; got an array with {array.ndim} dimensions and shape {array.shape}"
            )
        if array.shape[0] == 0:
            raise ValueError("X holds no series: Found array with 0 sample(s)")
        array = array[:, None, :] if array.ndim == 2 else array
        if array.shape[1] == 0 or array.shape[2] == 0:
            raise ValueError(
                f"X holds series without values: 0 feature(s) in an array of shape {array.shape}, "
                "while a minimum of 1 is required for channels and time steps"
            )
        _refuse_non_finite(array)
        values = np.array(array.transpose(0, 2, 1), dtype=np.float64, order="C")
        return values, np.full(len(values), values.shape[1], dtype=np.int64)

    n_channels = len(series[0])
    for i, x in enumerate(series):
        if len(x) != n_channels:
            raise ValueError(
                f"all series need the same channels: series 0 has {n_channels}, series {i} has "
                f"{len(x)} (its shape is {x.shape}, read as (channels, length))"
            )
        if x.shape[1] == 0:
            raise ValueError(f"series {i} is empty; every series needs at least one time step")
        _refuse_non_finite(x, case=i)
    lengths = np.array([x.shape[1] for x in series], dtype=np.int64)
    values = np.zeros((len(series), int(lengths.max()), n_channels))
    for row, x in zip(values, series, strict=True):
        row[: x.shape[1]] = x.T
    return values, lengths


def _as_channels(x: npt.NDArray[Any], what: str) -> Floats:
    """Return one series as (channels, length)."""
    if x.ndim == 1:
        x = x[None]
    if x.ndim != 2:
        raise ValueError(f"{what} must be (length,) or (channels, length); its shape is {x.shape}")
    if x.dtype.kind not in "fiub":
        raise ValueError(f"{what} must hold real numbers; its dtype is {x.dtype}")
    return x


def _refuse_non_finite(x: npt.NDArray[Any], case: int | None = None) -> None:
    if x.dtype.kind != "f" or np.isfinite(x).all():
        return
    place = [int(i) for i in np.argwhere(~np.isfinite(x))[0]]
    if case is not None:
        place = [case, *place]
    value = x[tuple(place[-x.ndim :])]
    raise ValueError(
        f"Input X contains {'NaN' if np.isnan(value) else 'infinity'} at series {place[0]}, "
        f"channel {place[1]}, "
        f"step {place[2]}; missing and infinite values are not accepted: impute or drop them first"
    )


SCALINGS = ("channel", "series", None)


class Scaler:
    """Bring values to mean 0 and standard deviation 1 and hand them over as tensors.

    Parameters
    ----------
    how : {"channel", "series", None}
        "channel": by each channel's mean and deviation over the training series; "series": each
        channel of each series by its own; None: not at all.
    """

    def __init__(self, how: str | None):
        if how not in SCALINGS:
            raise ValueError(unknown("scaling", how, SCALINGS))
        self.how = how
        self.mean: Floats | None = None
        self.std: Floats | None = None

    def fit(self, values: Floats, lengths: npt.NDArray[np.int64]) -> Scaler:
        """Learn what `transform` needs from padded `values` ``[n, L, C]``."""
        if self.how == "channel":
            mean, std = _moments(values, lengths, axis=(0, 1))
            self.mean, self.std = mean[0, 0], std[0, 0]
        return self

    def transform(self, values: Floats, lengths: npt.NDArray[np.int64]) -> Panel:
        """Scale padded `values` ``[n, L, C]`` in float64 and return them as a float32 panel."""
        if self.mean is not None and self.std is not None:
            values = (values - self.mean) / self.std
        elif self.how == "series":
            mean, std = _moments(values, lengths, axis=(1,))
            values = (values - mean) / std
        values = np.where(is_there(values, lengths), values, 0.0)
        return Panel(torch.from_numpy(values.astype(np.float32)), torch.from_numpy(lengths))


def is_there(values: Floats, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return ``[n, L, 1]``: which steps of padded `values` ``[n, L, C]`` are not padding."""
    return (np.arange(values.shape[1]) < lengths[:, None])[..., None]


def _moments(
    values: Floats, lengths: npt.NDArray[np.int64], axis: tuple[int, ...]
) -> tuple[Floats, Floats]:
    """Mean and standard deviation over the steps that are there; 1 for a constant."""
    there = np.broadcast_to(is_there(values, lengths), values.shape)
    mean = values.mean(axis=axis, keepdims=True, where=there)
    std = values.std(axis=axis, keepdims=True, where=there)
    # A constant has a deviation of rounding error only; dividing by that would make noise of it.
    constant = std <= 1e-12 * np.maximum(np.abs(mean), 1.0)
    return mean, np.where(constant, 1.0, std)
