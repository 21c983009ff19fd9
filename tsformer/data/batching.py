"""Batches of similar length: shuffled for training, sorted for prediction."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import torch
from torch import Tensor

__all__ = ["in_order", "shuffled"]

#: Batches within which series are sorted by length: more save padding, fewer shuffle better.
_POOL = 12


def shuffled(lengths: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the batches of one epoch: every series once, in random order, similar lengths together.

    Batch sizes differ by at most one: a small last batch would give its series a larger weight and
    batch norms poor averages. The order is drawn first; within every twelve batches, series are
    then sorted by length, and finally the batches are shuffled. Series of equal length keep the
    drawn order.

    Parameters
    ----------
    lengths : Tensor [n] of int64
        Number of steps of each series, on the CPU.
    batch_size : int
        Maximum number of series per batch; there are ``ceil(n / batch_size)`` batches.
    generator : torch.Generator
        The only source of randomness.

    Yields
    ------
    Tensor of int64
        Indices of the series in a batch.
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
    """Yield batches for prediction, sorted by length, each of at most `max_steps` padded steps."""
    order = lengths.argsort(stable=True)
    if int(lengths.min()) == int(lengths.max()):  # there may be millions
        yield from order.split(max(max_steps // int(lengths[0]), 1))
        return
    start = 0
    while start < len(order):
        # The last series is the longest, so the padded size is its length times their number.
        stop = start + 1
        while stop < len(order) and (stop + 1 - start) * int(lengths[order[stop]]) <= max_steps:
            stop += 1
        yield order[start:stop]
        start = stop
