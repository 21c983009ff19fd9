"""Views: inputs derived from each channel."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from tsformer._names import unknown
from tsformer._numbers import check_number
from tsformer.data.moments import ROUNDING, Moments

VIEWS = ("values", "difference")


def views_in(views: str) -> tuple[str, ...]:
    """Return the parts of a sum of views, such as ``"values+difference"``."""
    if not isinstance(views, str):
        raise TypeError(f"views must be a name or a sum of names; got {views!r}")
    parts = tuple(part.strip() for part in views.split("+"))
    for part in parts:
        if part not in VIEWS:
            raise ValueError(unknown("view", part, VIEWS))
        if parts.count(part) > 1:
            raise ValueError(f"views={views!r} names {part!r} twice")
    return parts


class Difference(nn.Module):
    r"""The first difference of each channel, in units of its standard deviation.

    .. math:: d_t = s \, (x_t - x_{t-1}) / (\sigma \, \Delta t)

    :math:`\sigma` is the deviation over the training series, :math:`\Delta t` the time between
    the steps in median steps. It is 0 without two observed values at different times; the first
    value of a series takes the difference of the second.
    """

    std: Tensor

    def __init__(self, scale: float = 0.25):
        super().__init__()
        check_number("scale of the difference", scale, 0, excluded=True)
        self.scale = scale
        self.register_buffer("std", torch.ones(0, dtype=torch.float64))

    def fit(self, parts: Iterable[tuple[Tensor, Tensor, Tensor | None]]) -> None:
        """Learn `std` part by part."""
        moments, rounding = Moments(), torch.zeros(1, dtype=torch.float64)
        for x, magnitude, elapsed in parts:
            difference = _difference(x, elapsed)
            known = ~difference.isnan()
            moments.add(difference, known)
            error = _over_time(magnitude + _before(magnitude), elapsed)
            if elapsed is not None:
                passed = elapsed[..., None]
                error = error + difference.abs() * _over_time(passed + _before(passed), elapsed)
            rounding = rounding.maximum(error.where(known, 0.0).amax(dim=(0, 1)))
        std = moments.summary.std
        self.std = std.where(std > ROUNDING * rounding, 1.0)

    def forward(self, x: Tensor, elapsed: Tensor | None = None) -> Tensor:
        """Return the differences of ``x [B, L, C]``, 0 if undefined."""
        difference = _difference(x, elapsed)
        # The first observed value has no predecessor in all its series: it takes the next one's.
        count = (~x.isnan()).long().cumsum(dim=1)
        first = (count == 1) & ~x.isnan()
        following = torch.cat([difference[:, 1:], difference[:, -1:]], dim=1)
        difference = following.where(first, difference)
        return difference.nan_to_num(0.0) * (self.scale / self.std)


def make_difference(params: Mapping[str, Any] | None) -> Difference:
    """Return a Difference with these options, or raise ValueError with the nearest match."""
    options = list(inspect.signature(Difference).parameters)
    for name in params or {}:
        if name not in options:
            raise ValueError(unknown("option of the difference", name, options))
    return Difference(**(params or {}))


def _difference(x: Tensor, elapsed: Tensor | None) -> Tensor:
    """Return the difference over time ``[B, L, C]``, NaN if undefined."""
    return _over_time(x - _before(x), elapsed)


def _before(x: Tensor) -> Tensor:
    """Shift series by a step; NaN at the first."""
    return torch.cat([torch.full_like(x[:, :1], float("nan")), x[:, :-1]], dim=1)


def _over_time(x: Tensor, elapsed: Tensor | None) -> Tensor:
    """Divide by the time since the step before; NaN where none has passed."""
    if elapsed is None:
        return x
    step = torch.cat([torch.zeros_like(elapsed[:, :1]), elapsed[:, 1:] - elapsed[:, :-1]], dim=1)
    forward = (step > 0)[..., None]
    # Dividing by NaN would make the gradient NaN, also where it is multiplied by 0 afterwards.
    return (x / step[..., None].where(forward, 1.0)).where(forward, float("nan"))
