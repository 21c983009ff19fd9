"""Mean and standard deviation of each channel, in one pass over series that come part by part."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["Moments"]


class Moments:
    """Mean and standard deviation of the known values of each channel.

    Each part has its own mean and sum of squares, which are then combined as in [1]_: that is as
    exact as a second pass, where sums of squares of raw values would cancel. The order of the parts
    is that of the rounding; of a single part the result is that of the plain formulas.

    Attributes
    ----------
    count, mean : Tensor [C] of float64
        Number of the known values, and their mean; 0 if there are none.

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
    >>> torch.allclose(moments.std, x.flatten(0, 1).std(dim=0, correction=0), rtol=1e-14)
    True
    """

    def __init__(self) -> None:
        self.count = torch.zeros(1, dtype=torch.int64)
        self.mean = torch.zeros(1, dtype=torch.float64)
        self._squares = torch.zeros(1, dtype=torch.float64)

    def add(self, x: Tensor, known: Tensor) -> None:
        """Add a part.

        Parameters
        ----------
        x : Tensor [n, L, C] of float64
            Values.
        known : Tensor [n, L, C] of bool
            Which of them count.
        """
        count = known.sum(dim=(0, 1))
        mean = x.where(known, 0.0).sum(dim=(0, 1)) / count.clamp(min=1)
        squares = (x - mean).where(known, 0.0).square().sum(dim=(0, 1))
        total = self.count + count
        share = count / total.clamp(min=1).double()
        apart = mean - self.mean
        self._squares = self._squares + squares + apart.square() * self.count * share
        self.mean = self.mean + apart * share
        self.count = total

    @property
    def std(self) -> Tensor:
        """Standard deviation of the known values; 0 if there are none."""
        return (self._squares / self.count.clamp(min=1)).sqrt()
