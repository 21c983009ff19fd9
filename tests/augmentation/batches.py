"""Batches as the fit makes them, of every kind, and augmentations as a user would write them."""

from dataclasses import replace
from itertools import pairwise

import torch
from torch import Tensor

from tsformer.augmentation import Batch

LENGTHS = (12, 7, 1, 2, 9)
LENGTH, CHANNELS = max(LENGTHS), 3
KINDS = ("regular", "padded", "shared times", "times", "codes")


def batch(kind: str, *, seed: int = 0) -> Batch:
    """Return five series; those with times or codes are padded and have masked steps inside."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(len(LENGTHS), LENGTH, CHANNELS, generator=generator)
    if kind == "regular":
        return Batch(x)
    if kind == "shared times":
        gaps = torch.rand(1, LENGTH, generator=generator)
        return Batch(x, times=gaps.cumsum(1) - gaps[:, :1])
    within = torch.arange(LENGTH) < torch.tensor(LENGTHS)[:, None]
    mask, times = within, None
    if kind != "padded":
        holes = torch.rand(mask.shape, generator=generator) < 0.3
        holes[[2, 3]] = False  # these have no step to spare
        mask = within & ~holes
    if kind == "times":
        gaps = torch.randint(0, 4, mask.shape, generator=generator) / 2
        times = (gaps.cumsum(1) - gaps[:, :1]) * within
    if kind == "codes":
        x = torch.randint(1, 9, (*mask.shape, 1), generator=generator).float()
    return Batch(x * mask[..., None], mask, times, symbolic=kind == "codes")


def series(batch: Batch, i: int) -> tuple[list[float], list[Tensor], list[int]]:
    """Return the times, the values and the indices of the valid steps of one series."""
    L = batch.values.shape[1]
    mask = torch.ones(L, dtype=torch.bool) if batch.mask is None else batch.mask[i]
    times = torch.arange(float(L))
    if batch.times is not None:
        times = batch.times[i if len(batch.times) > 1 else 0]
    steps = [step for step in range(L) if mask[step]]
    values = [batch.values[i, step].double() for step in steps]
    return [float(times[step]) for step in steps], values, steps


def read_slowly(times: list[float], values: list[Tensor], t: float, *, symbolic: bool) -> Tensor:
    """Read one series by linear interpolation, codes at the nearest step, at a tie the last."""
    if t < times[0]:
        return values[0]
    for before, after in pairwise(range(len(times))):
        start, end = times[before], times[after]
        if start <= t < end:
            share = (t - start) / (end - start)
            if symbolic:
                return values[before] if share < 0.5 else values[after]
            return (1 - share) * values[before] + share * values[after]
    return values[-1]


def padded(batch: Batch, n: int) -> Batch:
    """Return the batch with `n` more masked steps at the end, of times 0."""
    B, L, C = batch.values.shape
    mask = torch.ones(B, L, dtype=torch.bool) if batch.mask is None else batch.mask
    times = batch.times
    if times is not None:
        times = torch.cat([times, torch.zeros(len(times), n)], dim=1)
    values = torch.cat([batch.values, torch.zeros(B, n, C)], dim=1)
    mask = torch.cat([mask, torch.zeros(B, n, dtype=torch.bool)], dim=1)
    return replace(batch, values=values, mask=mask, times=times)
