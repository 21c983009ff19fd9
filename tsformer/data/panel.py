"""Panel: series as tensors to train on, in memory or read and preprocessed batch by batch.

`n` series, `L` time steps of the longest, `C` channels.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from math import ceil
from typing import ClassVar

import torch
from torch import Tensor

from tsformer.data.series import SeriesError, SeriesSource, parts_of

#: Values, mask and times: the arguments of a model. The mask is None if every step is valid.
Taken = tuple[Tensor, Tensor | None, Tensor | None]
Device = torch.device | None
#: Batches to read ahead.
_AHEAD = 2


@dataclass(frozen=True)
class Panel:
    """Series as tensors on one device, padded with zeros."""

    #: Scaled float32 ``[n, L, C]``.
    values: Tensor
    #: ``[n]`` on the CPU: forming a batch never waits for a device.
    lengths: Tensor
    #: ``[n, L]``, False at padding, before the first value and at missing codes.
    mask: Tensor | None = None
    #: ``[n, L]`` in units of one regular step; 0, 1, 2, ... by default.
    times: Tensor | None = None
    #: Whether the values are codes, which must not be averaged.
    symbolic: bool = False
    #: Number of the last channels, which flag missing values.
    n_flags: int = 0
    #: No-op in memory; `StoredPanel` reads ahead.
    ahead = nullcontext

    def __len__(self) -> int:
        return len(self.values)

    @property
    def device(self) -> torch.device:
        """Device of everything except the lengths."""
        return self.values.device

    @property
    def n_bytes(self) -> int:
        """Memory of the tensors in bytes."""
        return sum(x.nbytes for x in (self.values, self.mask, self.times) if x is not None)

    def to(self, device: torch.device) -> Panel:
        """Return the panel with everything except `lengths` on `device`."""
        return self if device == self.values.device else self.mapped(lambda x: x.to(device))

    def pinned(self) -> Panel:
        """Return the panel in page-locked memory, for asynchronous copies to a GPU."""
        return self.mapped(Tensor.pin_memory)

    def part(self, index: Tensor) -> Panel:
        """Return a panel of series by their indices on the CPU."""
        rows = send(index, self.device)
        return replace(self.mapped(lambda tensor: tensor[rows]), lengths=self.lengths[index])

    def parts(self) -> Iterator[Panel]:
        """Yield the whole panel."""
        yield self

    def with_mask(self) -> Panel:
        """Return the panel with an explicit mask if lengths differ."""
        if self.mask is not None or int(self.lengths.min()) == self.values.shape[1]:
            return self
        mask = torch.arange(self.values.shape[1]) < self.lengths[:, None]
        return replace(self, mask=mask.to(self.values.device))

    def mapped(self, change: Callable[[Tensor], Tensor]) -> Panel:
        """Return the panel with all tensors but the lengths changed."""
        mask = None if self.mask is None else change(self.mask)
        times = None if self.times is None else change(self.times)
        return replace(self, values=change(self.values), mask=mask, times=times)

    def take(self, index: Tensor, *, rows: Tensor | None = None, device: Device = None) -> Taken:
        """Return series by their `index` on the CPU; `rows` are the same indices on a device."""
        lengths, here = self.lengths[index], self.values.device
        longest = int(lengths.max())
        if rows is None or rows.device != here:
            rows = index if here.type == "cpu" else send(index, here)
        values, mask = self.values[rows, :longest], None
        times = None if self.times is None else self.times[rows, :longest]
        if self.mask is not None:
            mask = self.mask[rows, :longest]
        elif int(lengths.min()) < longest:
            mask = torch.arange(longest, device=here) < send(lengths, here)[:, None]
        if device is not None and device != here:
            mask = None if mask is None else send(mask, device)
            times = None if times is None else send(times, device)
            values = send(values, device)
        return values, mask, times


def same_device(device: torch.device, wanted: torch.device) -> bool:
    """Whether `device` satisfies `wanted`: "cuda:0" satisfies "cuda"."""
    return device.type == wanted.type and wanted.index in (None, device.index)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Return the tensor on `device`; copies to a GPU are asynchronous."""
    if device.type == "cuda" and tensor.device.type == "cpu":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


@dataclass(eq=False)
class StoredPanel:
    """Series that are read and preprocessed batch by batch, equal to `kept` bit for bit."""

    device: ClassVar = torch.device("cpu")

    series: SeriesSource
    preprocess: Callable[[Tensor, Tensor | None], Taken]
    lengths: Tensor
    #: Memory of the panel that `kept` returns, in bytes.
    n_bytes: int
    masked: bool
    symbolic: bool
    n_flags: int
    _coming: tuple[Tensor, Future[Panel]] | None = None

    def __len__(self) -> int:
        return len(self.lengths)

    def part(self, index: Tensor) -> Panel:
        """Return a panel of some of the series, in memory."""
        padded = self.series.read(index.numpy())
        clock = None if padded.times is None else torch.from_numpy(padded.times)
        try:
            with torch.no_grad():
                values, mask, times = self.preprocess(torch.from_numpy(padded.values), clock)
        except SeriesError as error:
            raise error.among(index.numpy()) from None
        lengths = torch.from_numpy(padded.lengths)
        kept = mask if self.masked else None
        return Panel(values, lengths, kept, times, self.symbolic, self.n_flags)

    def take(self, index: Tensor, *, rows: Tensor | None = None, device: Device = None) -> Taken:
        """Return a batch; see `Panel.take`."""
        ahead = self._coming
        batch = self.part(index) if ahead is None or ahead[0] is not index else ahead[1].result()
        return batch.take(torch.arange(len(index)), device=device)

    @contextmanager
    def ahead(self, batches: Iterable[Tensor]) -> Iterator[Iterable[Tensor]]:
        """Read the batches in a thread, while the block works on earlier batches."""
        waiting: deque[tuple[Tensor, Future[Panel]]] = deque()
        earlier = self._coming

        def each() -> Iterator[Tensor]:
            for index in batches:
                waiting.append((index, reader.submit(self.part, index)))
                if len(waiting) > _AHEAD:
                    self._coming = waiting.popleft()
                    yield self._coming[0]
            while waiting:
                self._coming = waiting.popleft()
                yield self._coming[0]

        with ThreadPoolExecutor(1, thread_name_prefix="tsformer-reader") as reader:
            try:
                yield each()
            finally:
                self._coming = earlier
                for _, read in waiting:
                    read.cancel()

    def parts(self) -> Iterator[Panel]:
        """Yield the series part by part, each in memory."""
        for index in parts_of(self.series):
            yield self.part(torch.from_numpy(index))

    def kept(self, device: Device = None) -> Panel:
        """Return all series in the memory of a device."""
        kept: Panel | None = None
        for index in parts_of(self.series):
            chunk = self.part(torch.from_numpy(index))
            if len(index) == len(self.lengths):
                return chunk if device is None else chunk.to(device)
            if kept is None:
                kept = chunk.mapped(lambda x: x.new_empty((len(self), *x.shape[1:]), device=device))
            for name in ("values", "mask", "times"):
                if (tensor := getattr(kept, name)) is not None:
                    tensor[index[0] : index[-1] + 1] = getattr(chunk, name)
        assert kept is not None  # there is at least one series
        return replace(kept, lengths=self.lengths)

    def to(self, device: torch.device) -> AnyPanel:
        """Return the panel on a device; on the CPU, series are not read."""
        return self if device.type == "cpu" else self.kept(device)

    def pinned(self) -> StoredPanel:
        """Return the panel: each batch is pinned when it is taken."""
        return self


AnyPanel = Panel | StoredPanel


def shuffled(n: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the batches of one epoch: every series once, in random order, lengths mixed."""
    # Sizes differ by at most one: a small last batch would overweight its series.
    yield from torch.randperm(n, generator=generator).tensor_split(ceil(n / batch_size))


def in_order(lengths: Tensor, max_steps: int) -> Iterator[Tensor]:
    """Yield batches for prediction, sorted by length, each of at most `max_steps` padded steps."""
    order = lengths.argsort(stable=True)
    start = 0
    for stop, length in enumerate(lengths[order].tolist()):
        # The last series is the longest, so the padded size is its length times their number.
        if stop > start and (stop + 1 - start) * length > max_steps:
            yield order[start:stop]
            start = stop
    yield order[start:]
