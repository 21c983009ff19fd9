"""StoredPanel: series that are read and preprocessed batch by batch, ahead of their use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from tsformer.data.panel import Panel
from tsformer.data.series import Padded, SeriesSource, numbered

#: Batches to read ahead.
_AHEAD = 2


@dataclass(eq=False)
class StoredPanel:
    """Series that are read and preprocessed batch by batch, equal to `kept` bit for bit."""

    device: ClassVar = torch.device("cpu")

    series: SeriesSource
    preprocess: Callable[[Padded], tuple[Tensor, Tensor, Tensor | None]]
    n_inputs: int
    masked: bool
    timed: bool
    symbolic: bool
    n_flags: int
    lengths: Tensor = field(init=False)
    _coming: tuple[Tensor, Future[Panel]] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.lengths = torch.from_numpy(self.series.lengths)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def n_bytes(self) -> int:
        """Memory of the panel that `kept` returns, in bytes."""
        each = 4 * self.n_inputs + self.masked + 4 * self.timed
        return len(self) * self.series.n_steps * each

    def part(self, index: Tensor) -> Panel:
        """Return a panel of some of the series, in memory."""
        padded = self.series.read(index.numpy())
        with torch.no_grad(), numbered(index.numpy()):
            values, mask, times = self.preprocess(padded)
        lengths = torch.from_numpy(padded.lengths)
        kept = mask if self.masked else None
        return Panel(values, lengths, kept, times, self.symbolic, self.n_flags)

    def take(
        self,
        index: Tensor,
        *,
        rows: Tensor | None = None,
        device: torch.device | None = None,
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return a batch; see `Panel.take`."""
        if self._coming is not None and self._coming[0] is index:
            batch = self._coming[1].result()
        else:
            batch = self.part(index)
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
        for index in self.series.parts():
            yield self.part(torch.from_numpy(index))

    def kept(self, device: torch.device | None = None) -> Panel:
        """Return all series in the memory of a device."""
        device = self.device if device is None else device
        parts = self.parts()
        first = next(parts).to(device)
        if len(first) == len(self):
            return first
        whole = first.like(self.lengths)
        whole.put(0, first)
        start = len(first)
        for part in parts:
            whole.put(start, part)
            start += len(part)
        return whole

    def to(self, device: torch.device) -> AnyPanel:
        """Return the panel on a device; on the CPU, series are not read."""
        return self if device.type == "cpu" else self.kept(device)

    def pinned(self) -> StoredPanel:
        """Return the panel: each batch is pinned when it is taken."""
        return self


AnyPanel = Panel | StoredPanel
