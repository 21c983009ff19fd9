"""Mean and standard deviation of channels, in any unit, of series that come part by part."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["ROUNDING", "Moments", "Summary", "summarise"]

#: Values are equal to rounding if they differ by at most this share of their magnitude.
ROUNDING = 8 * torch.finfo(torch.float64).eps


class Summary(NamedTuple):
    """What `summarise` returns, Tensors of one shape."""

    n_known: Tensor
    mean: Tensor
    norm: Tensor
    low: Tensor
    high: Tensor

    @property
    def std(self) -> Tensor:
        """Standard deviation of the known values; 0 if there are none."""
        return self.norm / self.n_known.clamp(min=1).double().sqrt()

    @property
    def constant(self) -> Tensor:
        """Whether all known values are equal to rounding."""
        return self.high - self.low <= ROUNDING * self.high.abs()


def summarise(x: Tensor, known: Tensor, dim: tuple[int, ...]) -> Summary:
    """Return the moments of known values over some dimensions, which stay with size 1.

    Values are mapped to [0, 1] first. Hence no square overflows or underflows, an offset costs no
    digits, and a factor that is a power of two changes the results by that factor exactly.
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
    """Mean and standard deviation of the known values of each channel.

    Each part has its own mean and sum of squares, which are then combined as in [1]_: that is as
    exact as a second pass, where sums of squares of raw values would cancel. The order of the parts
    is that of the rounding.

    Attributes
    ----------
    summary : Summary
        Of all parts, Tensors [C].

    References
    ----------
    .. [1] Chan, Golub and LeVeque, "Algorithms for computing the sample variance: analysis and
       recommendations", The American Statistician 37, 1983.

    Examples
    --------
    >>> x = 1e9 + torch.arange(12, dtype=torch.float64).view(2, 3, 2)
    >>> moments = Moments()
    >>> for part in x:
    ...     moments.add(part[None], torch.ones_like(part[None], dtype=torch.bool))
    >>> torch.allclose(moments.summary.std, x.flatten(0, 1).std(dim=0, correction=0), rtol=1e-14)
    True
    """

    def __init__(self) -> None:
        zero = torch.zeros(1, dtype=torch.float64)
        self.summary = Summary(zero.long(), zero, zero, zero, zero)

    def add(self, x: Tensor, known: Tensor) -> None:
        """Add a part.

        Parameters
        ----------
        x : Tensor [n, L, C] of float64
            Values.
        known : Tensor [n, L, C] of bool
            Which of them count.
        """
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
