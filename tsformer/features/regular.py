"""Resample series with times of their own to regular steps, which is what kernels slide over."""

from __future__ import annotations

import torch
from torch import Tensor

from tsformer.data.panel import Panel

#: A series with long pauses is resampled to at most this many times its steps.
_MOST = 4


def regular(panel: Panel) -> Panel:
    """Interpolate a panel linearly at regular times; a panel without times is returned unchanged.

    The steps of a series with times ``t_0, ..., t_m``, in units of the median interval of training,
    are ``t_0 + k u`` for ``k = 0, 1, ..., floor((t_m - t_0) / u)``. `u` is 1, or larger where that
    makes more than four times as many steps as the series has. Of steps with the same time the last
    one counts.
    The valid steps of a series are in one run.
    """
    if panel.times is None:
        return panel
    steps = torch.arange(panel.values.shape[1])
    valid = panel.mask if panel.mask is not None else steps < panel.lengths[:, None]
    first = valid.long().argmax(dim=1, keepdim=True)
    last = first + valid.sum(dim=1, keepdim=True) - 1
    # Padding gets infinite times: searchsorted needs sorted rows.
    times = panel.times.double().where(steps <= last, torch.inf)
    start, stop = times.gather(1, first), times.gather(1, last)
    most = _MOST * (last - first + 1)
    unit = ((stop - start) / (most - 1).clamp(min=1)).clamp(min=1.0)
    lengths = ((stop - start) / unit + 1e-6).floor().long() + 1
    asked = start + torch.arange(int(lengths.max())) * unit
    asked = asked.minimum(stop)
    left = torch.searchsorted(times, asked.contiguous(), right=True) - 1
    left = left.clamp(min=first, max=last)
    right = (left + 1).minimum(last)
    apart = times.gather(1, right) - times.gather(1, left)
    part = (asked - times.gather(1, left)).where(apart > 0, 0.0) / apart.where(apart > 0, 1.0)
    values = _at(panel.values, left).lerp(_at(panel.values, right), part.float()[..., None])
    inside = torch.arange(asked.shape[1]) < lengths
    return Panel(values.where(inside[..., None], 0.0), lengths[:, 0])


def _at(values: Tensor, steps: Tensor) -> Tensor:
    return values.gather(1, steps[..., None].expand(-1, -1, values.shape[2]))
