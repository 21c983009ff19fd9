"""Which series go through the model together: shuffled batches of like length, or all in turn."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

__all__ = ["in_order", "shuffled"]

#: Batches whose series are sorted by length among themselves: more save padding, fewer mix better.
_POOL = 8


def shuffled(lengths: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the indices of one epoch: every series once, in random order, like lengths together.

    The order is drawn first; among every eight batches of it the series are then sorted
    by length and cut into batches, which come in random order. Equal lengths keep the order drawn.

    Parameters
    ----------
    lengths : Tensor [n] of int64
        Steps of each series, on the CPU.
    batch_size : int
        Series in a batch; the last one may hold fewer.
    generator : torch.Generator
        The only source of randomness.
    """
    order = torch.randperm(len(lengths), generator=generator)
    if int(lengths.min()) == int(lengths.max()):
        yield from order.split(batch_size)
        return
    batches: list[Tensor] = []
    for pool in order.split(_POOL * batch_size):
        by_length = pool[lengths[pool].argsort(stable=True)]
        batches.extend(by_length.split(batch_size))
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
