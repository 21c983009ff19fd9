"""Mean and standard deviation of channels, in any unit, of series that come part by part."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

#: Values are equal to rounding if they differ by at most this share of their magnitude.
ROUNDING = 8 * torch.finfo(torch.float64).eps


class Summary(NamedTuple):
    """The tensors that `summarise` returns."""

    n_known: Tensor
    mean: Tensor
    norm: Tensor
    low: Tensor
    high: Tensor

    @property
    def std(self) -> Tensor:
        """Standard deviation of the known values; 0 without values."""
        return self.norm / self.n_known.clamp(min=1).double().sqrt()

    @property
    def constant(self) -> Tensor:
        """Whether all known values are equal to rounding."""
        return self.high - self.low <= ROUNDING * self.high.abs()


def summarise(x: Tensor, known: Tensor, dim: tuple[int, ...]) -> Summary:
    """Return the moments of known values over some dimensions, which stay with size 1.

    Values are mapped to [0, 1] first: no square overflows, an offset costs no digits, and a power
    of two scales the results exactly.
    """
    count = known.sum(dim=dim, keepdim=True)
    low = x.where(known, torch.inf).amin(dim=dim, keepdim=True).where(count > 0, 0.0)
    high = x.where(known, -torch.inf).amax(dim=dim, keepdim=True).where(count > 0, 0.0)
    unit = (high - low).where(high > low, 1.0)
    shares = ((x - low) / unit).where(known, 0.0)
    mean = shares.sum(dim=dim, keepdim=True) / count.clamp(min=1)
    squares = (shares - mean).where(known, 0.0).square().sum(dim=dim, keepdim=True)
    return Summary(count, low + unit * mean, unit * squares.sqrt(), low, high)


class Moments:
    """Mean and deviation of the known values of each channel, added part by part.

    Chan, Golub and LeVeque (The American Statistician 37, 1983): as exact as a second pass.
    """

    def __init__(self) -> None:
        zero = torch.zeros(1, dtype=torch.float64)
        self.summary = Summary(zero.long(), zero, zero, zero, zero)

    def add(self, x: Tensor, known: Tensor) -> None:
        """Add values ``[n, L, C]``, counting the `known`."""
        past, part = self.summary, Summary(*(t[0, 0] for t in summarise(x, known, dim=(0, 1))))
        total = past.n_known + part.n_known
        share = part.n_known / total.clamp(min=1).double()
        apart = part.mean - past.mean
        between = apart.abs() * (past.n_known * share).sqrt()
        low = part.low.minimum(past.low.where(past.n_known > 0, torch.inf))
        high = part.high.maximum(past.high.where(past.n_known > 0, -torch.inf))
        self.summary = Summary(
            total,
            past.mean + apart * share,
            past.norm.hypot(part.norm).hypot(between),
            low.where(part.n_known > 0, past.low),
            high.where(part.n_known > 0, past.high),
        )
