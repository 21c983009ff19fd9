"""Batches: shuffled for training, sorted by length for prediction."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import torch
from torch import Tensor


def shuffled(n: int, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the batches of one epoch: every series once, in random order.

    Sizes differ by at most one: a small last batch would overweight its series. Lengths are mixed:
    batch norms would otherwise see one length at a time, which costs accuracy.
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
