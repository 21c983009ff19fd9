"""Occlusion: how much a logit falls without a window of one channel, for any classifier.

Shape letters: `B` series, `L` time steps, `C` channels, `F` features of a step, `K` classes.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import torch
from torch import Tensor


def mean_falls(
    logits: Callable[[Tensor], Tensor],
    clock: Tensor,
    channel: Tensor,
    *,
    window: float,
    stride: float,
    at_once: int = 1,
) -> Tensor:
    """Return the mean fall ``[B, L, F]`` of a logit over the windows with each feature.

    `logits` maps hidden features ``[k, B, L, F]`` to logits ``[k, B]``; sizes are in median steps.
    """
    n_shifts = ceil(window / stride)
    found = torch.zeros(*clock.shape, len(channel), dtype=torch.float64)
    whole = logits(torch.zeros(1, *found.shape, dtype=torch.bool))
    for shift in range(n_shifts):
        number = windows(clock, channel, window, shift * stride)
        for some in torch.arange(int(number.max()) + 1).split(at_once):
            hidden = number == some[:, None, None, None]
            falls = whole - logits(hidden)
            found += (hidden * falls[..., None, None]).sum(dim=0)
    return found / n_shifts


def windows(clock: Tensor, channel: Tensor, window: float, shift: float) -> Tensor:
    """Return the number of each feature's window and channel, ``[B, L, F]``."""
    number = ((clock + shift) / window).floor().long()
    number = number[..., None] * (int(channel.max()) + 1) + channel
    consecutive: Tensor = number.unique(return_inverse=True)[1]
    return consecutive


def steps_since_start(values: Tensor, times: Tensor | None, time_step: float | None) -> Tensor:
    """Return the clock ``[B, L]`` of `mean_falls`; 0 past the end of a series."""
    B, L = values.shape[:2]
    within = (~values.isnan()).any(dim=-1).long().flip(1).cumsum(dim=1).flip(1) > 0
    if times is None or time_step is None:
        steps = torch.arange(L, dtype=torch.float64).expand(B, L)
    else:
        steps = (times - times[:, :1]) / time_step
    return steps.where(within, 0.0)
