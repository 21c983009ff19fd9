"""Batches: shuffled for training, sorted by length for prediction."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import torch
from torch import Tensor


def shuffled(n: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the batches of one epoch: every series once, in random order.

    Batch sizes differ by at most one: a small last batch would overweight its series. Series of
    similar length are not batched together, although that saves padding: batch norms would see one
    length at a time, which costs accuracy where lengths depend on the class.
    """
    yield from torch.randperm(n, generator=generator).tensor_split(ceil(n / batch_size))


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
