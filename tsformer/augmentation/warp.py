"""`warp`: time runs faster here and slower there."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tsformer.augmentation.base import Augmentation, Batch, check_range, relative_times, shifted


class Warp(Augmentation, name="warp"):
    """Let time run at a random speed, between ends that stay in place.

    With probability `p` a series is read at ``w(u) = F(u) / F(1)`` in place of its relative time
    `u`, which is 0 at the first valid step and 1 at the last. `F` is the integral of the speed, a
    line through ``exp(sigma z_k)`` at `knots` equidistant points, with `z_k` standard normal. All
    channels are read alike, by linear interpolation between valid steps; codes come from the
    nearest step.

    It takes 4 % of the time of a training step, for 16 series of 500 steps.

    Parameters
    ----------
    p : float, default=0.5
        Probability that a series is warped.
    sigma : float, default=0.2
        Standard deviation of the logarithm of the speed, at most 5; 0 changes nothing.
    knots : int, default=5
        Points at which the speed is drawn, at least 2.

    Raises
    ------
    ValueError
        If an option is out of range.

    References
    ----------
    Um et al., "Data Augmentation of Wearable Sensor Data for Parkinson's Disease Monitoring using
    Convolutional Neural Networks", ICMI 2017.

    Examples
    --------
    >>> import torch
    >>> from tsformer.augmentation import Batch, Warp
    >>> x = torch.linspace(0, 1, 5)[None, :, None]
    >>> warped = Warp(p=1.0)(Batch(x)).values
    >>> warped.shape, warped[0, 0, 0].item(), warped[0, -1, 0].item()
    (torch.Size([1, 5, 1]), 0.0, 1.0)
    """

    symbolic = True
    reference = "Um et al. 2017"

    def __init__(self, *, p: float = 0.5, sigma: float = 0.2, knots: int = 5):
        self.p = p
        self.sigma = sigma
        self.knots = knots
        check_range(self, "p", 0, 1)
        check_range(self, "sigma", 0, 5)  # speeds beyond exp(5 z) would overflow float32
        check_range(self, "knots", 2, whole=True)

    def __call__(self, batch: Batch) -> Batch:
        B, device = len(batch.values), batch.values.device
        speed = torch.exp(self.sigma * torch.randn(B, self.knots, device=device))
        chosen = torch.rand(B, 1, device=device) < self.p
        return warped(batch, speed.where(chosen, 1.0))


def warped(batch: Batch, speed: Tensor) -> Batch:
    """Return the series read at warped times.

    `speed` ``[B, K]`` holds positive speeds at `K` equidistant points in relative time; only their
    ratios matter. A series whose speeds are all 1 is unchanged, bit by bit.
    """
    where = relative_times(batch)
    n_pieces = speed.shape[1] - 1
    mean = (speed.sum(dim=1, keepdim=True) - (speed[:, :1] + speed[:, -1:]) / 2) / n_pieces
    # Integrate the excess over the mean speed: speed 1 moves nothing.
    excess = speed / mean - 1
    shift = (_hat_integrals(where, n_pieces) * excess[:, None]).sum(dim=-1)
    # Rounding would leave a trace of a shift at the last step.
    return replace(batch, values=shifted(batch, where, shift.where(where < 1, 0.0)))


def _hat_integrals(where: Tensor, n_pieces: int) -> Tensor:
    """Integrate from 0 to each time the hat functions that interpolate linearly between knots.

    Returns ``[1 | B, L, n_pieces + 1]``: hat `k` is 1 at ``k / n_pieces`` and 0 at all other knots.
    """
    knot = torch.arange(n_pieces + 1, device=where.device)
    apart = (where[..., None] * n_pieces - knot).clamp(-1.0, 1.0)
    before = 0.5 * (knot > 0)  # the rising half of a hat; the first hat only falls
    return (before + apart * (1 - apart.abs() / 2)) / n_pieces
