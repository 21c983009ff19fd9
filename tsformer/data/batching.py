"""Which series go through the model together: shuffled batches of like length, or all in turn."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import torch
from torch import Tensor

__all__ = ["in_order", "shuffled"]

#: Batches whose series are sorted by length among themselves: more save padding, fewer mix better.
_POOL = 12


def shuffled(lengths: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the indices of one epoch: every series once, in random order, like lengths together.

    Batches differ in size by one at the most: a small rest would weigh each of its series
    more than the others, and give a batch norm poor averages. The order is drawn first; among
    every twelve batches of it the series are then sorted by length, and the batches come in random
    order. Equal lengths keep the order drawn.

    Parameters
    ----------
    lengths : Tensor [n] of int64
        Steps of each series, on the CPU.
    batch_size : int
        The most series in a batch; there are ``ceil(n / batch_size)`` of them.
    generator : torch.Generator
        The only source of randomness.
    """
    order = torch.randperm(len(lengths), generator=generator)
    drawn = order.tensor_split(ceil(len(order) / batch_size))
    if int(lengths.min()) == int(lengths.max()):
        yield from drawn
        return
    batches: list[Tensor] = []
    for start in range(0, len(drawn), _POOL):
        together = drawn[start : start + _POOL]
        pool = torch.cat(together)
        by_length = pool[lengths[pool].argsort(stable=True)]
        batches.extend(by_length.split([len(batch) for batch in together]))
    for i in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[i]


def in_order(lengths: Tensor, max_steps: int) -> Iterator[Tensor]:
    """Yield indices for predicting: sorted by length, as many as fit `max_steps` padded steps."""
    order = lengths.argsort(stable=True)
    start = 0
    while start < len(order):
        # Sorted, so the last series of a batch is its longest: the batch grows while the product
        # fits.
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * int(lengths[order[stop]]) <= max_steps:
            stop += 1
        yield order[start:stop]
        start = stop
