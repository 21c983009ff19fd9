"""Padded and Panel: series of unequal length as one array, and as tensors to train on.

`n` series, `L` time steps of the longest, `C` channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Floats", "Padded", "Panel", "same_device", "send"]

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Padded:
    """Series as one array, whatever their original container.

    Parameters
    ----------
    values : ndarray [n, L, C] of float64
        NaN where a value is missing and past the end of a series.
    lengths : ndarray [n] of int64
        Number of steps of each series; the last step has a value.
    times : ndarray [n, L] of float64, optional
        Times of the steps, relative to the first step of each series; None means 0, 1, 2, ...
    clock : {None, "numbers", "dates"}
        Unit of the times: numbers in the caller's own unit, or seconds between dates.
    channels : tuple of str, optional
        Names of the channels, if the container has them.
    """

    values: Floats
    lengths: npt.NDArray[np.int64]
    times: Floats | None = None
    clock: str | None = None
    channels: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mask(self) -> npt.NDArray[np.bool_]:
        """True at steps that are not padding, ``[n, L]``."""
        return np.arange(self.values.shape[1]) < self.lengths[:, None]

    def take(self, chosen: npt.NDArray[np.bool_]) -> Padded:
        """Return the series that a boolean mask ``[n]`` selects."""
        times = None if self.times is None else self.times[chosen]
        return Padded(self.values[chosen], self.lengths[chosen], times, self.clock, self.channels)


@dataclass(frozen=True)
class Panel:
    """Series as tensors on one device, shorter ones padded with zeros at the end.

    Parameters
    ----------
    values : Tensor [n, L, C]
        float32, scaled.
    lengths : Tensor [n] of int64, on the CPU
        Number of steps of each series. Always on the CPU, so that forming a batch never waits for
        a device.
    mask : Tensor [n, L] of bool, optional
        True at valid steps; False at padding, at steps before the first value and at missing codes.
        By default every step of a series is valid.
    times : Tensor [n, L], optional
        Times of the steps in units of one regular step; ``0, 1, 2, ...`` by default.
    symbolic : bool, default=False
        Whether the values are numbers of codes, which must not be averaged.
    """

    values: Tensor
    lengths: Tensor
    mask: Tensor | None = None
    times: Tensor | None = None
    symbolic: bool = False

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_bytes(self) -> int:
        """Memory of the tensors in bytes."""
        held = (self.values, self.mask, self.times)
        return sum(tensor.numel() * tensor.element_size() for tensor in held if tensor is not None)

    def to(self, device: torch.device) -> Panel:
        """Return the panel with everything except `lengths` on `device`."""
        return self._each(lambda tensor: tensor.to(device))

    def pinned(self) -> Panel:
        """Return the panel in page-locked memory, for asynchronous copies to a GPU."""
        return self._each(Tensor.pin_memory)

    def with_mask(self) -> Panel:
        """Return the panel with an explicit mask if lengths differ.

        The mask of a batch is then sliced on the device instead of computed from host lengths.
        """
        if self.mask is not None or int(self.lengths.min()) == self.values.shape[1]:
            return self
        mask = torch.arange(self.values.shape[1]) < self.lengths[:, None]
        return replace(self, mask=mask.to(self.values.device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Panel:
        mask = None if self.mask is None else change(self.mask)
        times = None if self.times is None else change(self.times)
        return replace(self, values=change(self.values), mask=mask, times=times)

    def take(
        self,
        index: Tensor,
        *,
        rows: Tensor | None = None,
        device: torch.device | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return a batch: the arguments of a model for some of the series.

        Parameters
        ----------
        index : Tensor [B] of int64, on the CPU
            Indices of the series.
        rows : Tensor [B] of int64, optional
            The same indices on the panel's device, if the caller has them there already.
        device : torch.device, optional
            Device of the batch; that of the panel by default.

        Returns
        -------
        values : Tensor [B, L', C]
            `L'` is the longest length among them.
        mask : Tensor [B, L'] of bool, or None
            None if all have that length and every step is valid.
        times : Tensor [B, L'], or None
            None if the panel has none.
        """
        lengths = self.lengths[index]
        longest = int(lengths.max())
        here = self.values.device
        rows = send(index, here) if rows is None else rows
        values = self.values[rows, :longest]
        times = None if self.times is None else self.times[rows, :longest]
        mask = None
        if self.mask is not None:
            mask = self.mask[rows, :longest]
        elif int(lengths.min()) < longest:
            mask = torch.arange(longest, device=here) < send(lengths, here)[:, None]
        if device is None:
            return values, mask, times
        return (
            send(values, device),
            None if mask is None else send(mask, device),
            None if times is None else send(times, device),
        )


def same_device(device: torch.device, wanted: torch.device) -> bool:
    """Whether `device` satisfies `wanted`: "cuda:0" satisfies "cuda"."""
    return device.type == wanted.type and wanted.index in (None, device.index)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on `device`; copies to a GPU are asynchronous."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
