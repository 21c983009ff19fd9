"""Read series between their steps, as everything that moves values in time does.

Positions are relative times: 0 at the first valid step of a series and 1 at its last, linear in the
times of the steps between.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tsformer.augmentation.base import Batch


def relative_times(batch: Batch) -> Tensor:
    """Return times ``[1 | B, L]`` relative to the series: 0 at its first valid step, 1 at its last.

    They are 0 if all valid steps have one time, and arbitrary where the mask is False.

    Examples
    --------
    >>> mask = torch.tensor([[False, True, True, True, False]])
    >>> relative_times(Batch(torch.zeros(1, 5, 2), mask))
    tensor([[0.0000, 0.0000, 0.5000, 1.0000, 1.0000]])
    """
    x, mask, t = batch.values, batch.mask, batch.times
    if t is None:
        t = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[None]
    if mask is None:
        first, last = t[:, :1], t[:, -1:]
    else:
        first = t.where(mask, torch.inf).amin(dim=1, keepdim=True)
        last = t.where(mask, -torch.inf).amax(dim=1, keepdim=True)
    span = last - first
    return ((t - first) / span.where(span > 0, 1.0)).clamp(0.0, 1.0)


def read(batch: Batch, where: Tensor, at: Tensor) -> Tensor:
    """Return the values ``[B, M, C]`` at any relative times `at` ``[B, M]``.

    `where` are the `relative_times` of the batch. Values are interpolated linearly between valid
    steps, codes come from the nearer step. Of several steps at one time the last is read.
    """
    x, mask = batch.values, batch.mask
    known = where.expand(x.shape[:2]).contiguous()
    steps = None
    last: Tensor | int = x.shape[1] - 1
    if mask is not None:
        steps, last = _valid_steps(mask)
        n_valid = torch.arange(x.shape[1], device=x.device) <= last
        known = known.gather(1, steps).where(n_valid, torch.inf)
    after = torch.searchsorted(known, at.contiguous(), right=True)
    left = (after - 1).clamp(min=0)
    right = after
    if isinstance(last, Tensor):
        left, right = left.minimum(last), right.minimum(last)
    else:
        right = right.clamp(max=last)
    start, end = known.gather(1, left), known.gather(1, right)
    gap = end - start
    part = ((at - start) / gap.where(gap > 0, 1.0)).clamp(0.0, 1.0)
    if steps is not None:
        left, right = steps.gather(1, left), steps.gather(1, right)
    if batch.symbolic:
        return _take(x, left.where(part < 0.5, right))
    return torch.lerp(_take(x, left), _take(x, right), part[..., None].to(x.dtype))


def shifted(batch: Batch, where: Tensor, shift: Tensor) -> Tensor:
    """Return the values ``[B, L, C]`` of each step read `shift` later, in relative time.

    Where the shift ``[B, L]`` is exactly 0, and at masked steps, the value is kept.
    """
    moved = shift != 0
    if batch.mask is not None:
        moved = moved & batch.mask
    return read(batch, where, where + shift).where(moved[..., None], batch.values)


def _valid_steps(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return indices of valid steps, zeros after them, and the last place."""
    B, L = mask.shape
    rank = mask.cumsum(dim=1) - 1
    place = rank.where(mask, L)  # masked steps go to an additional place, which is cut off
    step = torch.arange(L, device=mask.device).expand(B, L)
    steps = torch.zeros(B, L + 1, dtype=torch.long, device=mask.device).scatter(1, place, step)
    return steps[:, :L], rank[:, -1:].clamp(min=0)


def _take(x: Tensor, steps: Tensor) -> Tensor:
    """Gather values ``[B, M, C]`` at the steps ``[B, M]``."""
    return x.gather(1, steps[..., None].expand(-1, -1, x.shape[2]))
