"""Padded and Panel: series of unequal length as one array, and as tensors to train on.

`n` series, `L` time steps of the longest, `C` channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["Floats", "Padded", "Panel", "same_device", "send"]

Floats = npt.NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Padded:
    """Series as one array, whatever container they came in.

    Parameters
    ----------
    values : ndarray [n, L, C] of float64
        NaN where a value is missing and past the end of a series.
    lengths : ndarray [n] of int64
        Steps of each series. Each has a value in its last step.
    times : ndarray [n, L] of float64, optional
        When the steps were taken, counted from the first of each series; 0, 1, 2, ... where None.
    clock : {None, "numbers", "dates"}
        What the times are in: numbers of the caller's own unit, or seconds between dates.
    channels : tuple of str, optional
        Names of the channels, where the container has them.
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
        """Which steps are not padding, ``[n, L]``."""
        return np.arange(self.values.shape[1]) < self.lengths[:, None]

    def take(self, chosen: npt.NDArray[np.bool_]) -> Padded:
        """Return the series of a boolean mask ``[n]``."""
        times = None if self.times is None else self.times[chosen]
        return Padded(self.values[chosen], self.lengths[chosen], times, self.clock, self.channels)


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
    mask : Tensor [n, L] of bool, optional
        False at padding and at steps that are left out: those before the first value, and gaps in
        codes. By default every step of a series is valid.
    times : Tensor [n, L], optional
        Times of the steps in units of one regular step; ``0, 1, 2, ...`` by default.
    """

    values: Tensor
    lengths: Tensor
    mask: Tensor | None = None
    times: Tensor | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_bytes(self) -> int:
        """Memory of the tensors."""
        held = (self.values, self.mask, self.times)
        return sum(tensor.numel() * tensor.element_size() for tensor in held if tensor is not None)

    def to(self, device: torch.device) -> Panel:
        """Return the panel with all but its lengths on `device`."""
        return self._each(lambda tensor: tensor.to(device))

    def pinned(self) -> Panel:
        """Return the panel in page-locked memory, from where batches go to a GPU unwaited for."""
        return self._each(Tensor.pin_memory)

    def with_mask(self) -> Panel:
        """Return the panel with a mask of its own wherever lengths differ.

        A batch's mask is then read on the device, and not made of lengths on the host.
        """
        if self.mask is not None or int(self.lengths.min()) == self.values.shape[1]:
            return self
        mask = torch.arange(self.values.shape[1]) < self.lengths[:, None]
        return Panel(self.values, self.lengths, mask.to(self.values.device), self.times)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Panel:
        mask = None if self.mask is None else change(self.mask)
        times = None if self.times is None else change(self.times)
        return Panel(change(self.values), self.lengths, mask, times)

    def take(
        self,
        index: Tensor,
        *,
        rows: Tensor | None = None,
        device: torch.device | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return what a model is called with for some series.

        Parameters
        ----------
        index : Tensor [B] of int64, on the CPU
            Which.
        rows : Tensor [B] of int64, optional
            The same on the panel's device, where the caller has it there already.
        device : torch.device, optional
            Where the batch is wanted; by default where the panel is.

        Returns
        -------
        values : Tensor [B, L', C]
            `L'` is the longest length among them.
        mask : Tensor [B, L'] of bool, or None
            None where all are that long and have no gap.
        times : Tensor [B, L'], or None
            None where the panel has none.
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


def same_device(there: torch.device, asked: torch.device) -> bool:
    """Whether a tensor that is `there` is where it is `asked` to be: "cuda:0" is "cuda" too."""
    return there.type == asked.type and asked.index in (None, there.index)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on `device`, without waiting for a GPU to take it."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)
