"""Panel: series as tensors to train on.

`n` series, `L` time steps of the longest, `C` channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Panel:
    """Series as tensors on one device, padded with zeros."""

    #: Scaled float32 ``[n, L, C]``.
    values: Tensor
    #: ``[n]`` on the CPU, so that forming a batch never waits for a device.
    lengths: Tensor
    #: ``[n, L]``, False at padding, before the first value and at missing codes.
    mask: Tensor | None = None
    #: ``[n, L]`` in units of one regular step; 0, 1, 2, ... by default.
    times: Tensor | None = None
    #: Whether the values are codes, which must not be averaged.
    symbolic: bool = False
    #: Number of the last channels, which flag missing values.
    n_flags: int = 0

    def __len__(self) -> int:
        return len(self.values)

    @property
    def device(self) -> torch.device:
        """Device of everything except the lengths."""
        return self.values.device

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

    def part(self, index: Tensor) -> Panel:
        """Return a panel of series by their indices on the CPU."""
        rows = send(index, self.device)
        return replace(self._each(lambda tensor: tensor[rows]), lengths=self.lengths[index])

    def parts(self) -> Iterator[Panel]:
        """Yield the whole panel."""
        yield self

    def like(self, lengths: Tensor) -> Panel:
        """Return an empty panel for series with these lengths."""
        empty = self._each(lambda tensor: tensor.new_empty((len(lengths), *tensor.shape[1:])))
        return replace(empty, lengths=lengths)

    def put(self, start: int, part: Panel) -> None:
        """Write a part of the series into this panel."""
        rows = slice(start, start + len(part))
        for name in ("values", "mask", "times"):
            held = getattr(self, name)
            if held is not None:
                held[rows] = getattr(part, name)

    def ahead(self, batches: Iterable[Tensor]) -> AbstractContextManager[Iterable[Tensor]]:
        """No-op in memory; `StoredPanel` reads ahead."""
        return nullcontext(batches)

    def with_mask(self) -> Panel:
        """Return the panel with an explicit mask if lengths differ."""
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
        """Return the arguments of a model for series by their `index` on the CPU.

        `rows` are the same indices on the panel's device. The mask is None if every step is valid.
        """
        lengths = self.lengths[index]
        longest = int(lengths.max())
        here = self.device
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
