"""The augmentations: `warp`, `slice`, `cutmix` and `jitter`, in the order of `names()`."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import torch
from torch import Tensor

from tsformer._checks import check_number, whole
from tsformer.augmentation.base import Augmentation, Batch, read, relative_times, shifted

Share = Annotated[float, partial(check_number, low=0, high=1)]


@dataclass(eq=False, repr=False, kw_only=True)
class Warp(Augmentation, name="warp"):
    """Let time run at a random speed, between ends that stay in place.

    With probability `p` a series is read at ``w(u) = F(u) / F(1)`` in place of its relative time
    `u`, 0 at the first valid step and 1 at the last. `F` is the integral of the speed, a line
    through ``exp(sigma z_k)`` at `knots` equidistant points, with `z_k` standard normal. Values are
    interpolated linearly between valid steps; codes come from the nearest step.

    Parameters
    ----------
    p : float in [0, 1], default=0.5
        Probability that a series is warped.
    sigma : float in [0, 5], default=0.2
        Standard deviation of the logarithm of the speed; 0 changes nothing.
    knots : int >= 2, default=5
        Points at which the speed is drawn.

    References
    ----------
    Um et al., "Data Augmentation of Wearable Sensor Data for Parkinson's Disease Monitoring using
    Convolutional Neural Networks", ICMI 2017.

    Examples
    --------
    >>> warped = Warp(p=1.0)(Batch(torch.linspace(0, 1, 5)[None, :, None])).values
    >>> warped.shape, warped[0, 0, 0].item(), warped[0, -1, 0].item()
    (torch.Size([1, 5, 1]), 0.0, 1.0)
    """

    symbolic = True
    reference = "Um et al. 2017"

    p: Share = 0.5
    # Speeds beyond exp(5 z) would overflow float32.
    sigma: Annotated[float, partial(check_number, low=0, high=5)] = 0.2
    knots: Annotated[int, whole(2)] = 5

    def __call__(self, batch: Batch) -> Batch:
        B, device = len(batch.values), batch.values.device
        speed = torch.exp(self.sigma * torch.randn(B, self.knots, device=device))
        chosen = torch.rand(B, 1, device=device) < self.p
        return warped(batch, speed.where(chosen, 1.0))


def warped(batch: Batch, speed: Tensor) -> Batch:
    """Return the series read at warped times; only the ratios of the speeds ``[B, K]`` matter."""
    where, n_pieces = relative_times(batch), speed.shape[1] - 1
    mean = (speed.sum(dim=1, keepdim=True) - (speed[:, :1] + speed[:, -1:]) / 2) / n_pieces
    excess = speed / mean - 1  # so that speed 1 moves nothing, bit by bit
    # Hat `k` is 1 at ``k / n_pieces`` and 0 at all other knots; integrals ``[1 | B, L, K]``.
    knot = torch.arange(n_pieces + 1, device=where.device)
    apart = (where[..., None] * n_pieces - knot).clamp(-1.0, 1.0)
    before = 0.5 * (knot > 0)  # the rising half of a hat; the first hat only falls
    integrals = (before + apart * (1 - apart.abs() / 2)) / n_pieces
    shift = (integrals * excess[:, None]).sum(dim=-1)
    # Rounding would leave a trace of a shift at the last step.
    return replace(batch, values=shifted(batch, where, shift.where(where < 1, 0.0)))


@dataclass(eq=False, repr=False, kw_only=True)
class Slice(Augmentation, name="slice"):
    """Stretch a random contiguous part of the series to its full length.

    With probability `p` a series is read at ``w(u) = s u + (1 - s) a`` in place of its relative
    time `u`, 0 at the first valid step and 1 at the last. The share `s` of the part is uniform from
    `min_share` to 1, its offset `a` from 0 to 1. Values are interpolated as by `Warp`.

    Parameters
    ----------
    p : float in [0, 1], default=0.5
        Probability that a series is cut to a part.
    min_share : float in [0, 1], default=0.7
        Smallest share of the series, in time, that remains; 1 changes nothing.

    References
    ----------
    Le Guennec, Malinowski and Tavenard, "Data Augmentation for Time Series Classification using
    Convolutional Neural Networks", AALTD 2016.

    Examples
    --------
    >>> part = Slice(p=1.0, min_share=0.5)(Batch(torch.linspace(0, 1, 5)[None, :, None])).values
    >>> part.shape, bool(part[0, -1] - part[0, 0] >= 0.5)
    (torch.Size([1, 5, 1]), True)
    """

    symbolic = True
    reference = "Le Guennec et al. 2016"

    p: Share = 0.5
    min_share: Share = 0.7

    def __call__(self, batch: Batch) -> Batch:
        B, device = len(batch.values), batch.values.device
        removed = (1 - self.min_share) * torch.rand(B, 1, device=device)
        chosen = torch.rand(B, 1, device=device) < self.p
        offset = torch.rand(B, 1, device=device)
        return sliced(batch, removed.where(chosen, 0.0), offset)


def sliced(batch: Batch, removed: Tensor, offset: Tensor) -> Batch:
    """Stretch each series, cut by shares `removed` at offsets from 0 to 1, both ``[B, 1]``."""
    where = relative_times(batch)
    return replace(batch, values=shifted(batch, where, removed * (offset - where)))


@dataclass(eq=False, repr=False, kw_only=True)
class CutMix(Augmentation, name="cutmix"):
    """Replace a stretch of the series by a stretch of another series of the batch.

    With probability `p` a stretch of a random share of the valid steps, uniform from 0 to
    `max_share` and anywhere in the series, takes the values that a random other series of the batch
    has at the same relative times, interpolated as by `Warp`. The loss is
    ``s loss(y) + (1 - s) loss(y')`` with the targets `y` and `y'` of the two and `s` the share of
    valid steps that were kept. A batch is mixed once.

    Parameters
    ----------
    p : float in [0, 1], default=0.5
        Probability that a series is mixed with another.
    max_share : float in [0, 1], default=1.0
        Largest share of the steps to replace; 0 changes nothing.

    References
    ----------
    Yun et al., "CutMix: Regularization Strategy to Train Strong Classifiers with Localizable
    Features", ICCV 2019.

    Examples
    --------
    >>> out = CutMix(p=1.0)(Batch(torch.tensor([0.0, 1.0])[:, None, None].expand(2, 4, 1)))
    >>> out.partner, torch.equal(out.share[0], 1 - out.values[0].mean())
    (tensor([1, 0]), True)
    """

    mixes = True
    symbolic = True
    reference = "Yun et al. 2019"

    p: Share = 0.5
    max_share: Share = 1.0

    def __call__(self, batch: Batch) -> Batch:
        if batch.partner is not None:
            raise ValueError(f"{self.registered_name} got a batch that is mixed already: mix once")
        B, device = len(batch.values), batch.values.device
        index = torch.arange(B, device=device)
        partner = (index + torch.randint(1, max(B, 2), (B,), device=device)) % B
        chosen = torch.rand(B, 1, device=device) < self.p
        width = self.max_share * torch.rand(B, 1, device=device) * chosen
        start = torch.rand(B, 1, device=device) * (1 - width)
        return mixed(batch, partner, start, width)


def mixed(batch: Batch, partner: Tensor, start: Tensor, width: Tensor) -> Batch:
    """Return each series with a stretch of its partner ``[B]``, unchanged if it is its own partner.

    Step `r` of `n` valid steps is replaced if ``start <= (r + 1/2) / n < start + width``; `start`
    and `width` are ``[B, 1]``.
    """
    x, mask, times = batch.values, batch.mask, batch.times
    B, L = x.shape[:2]
    index = torch.arange(B, device=x.device)[:, None]
    valid = x.new_ones(1, L, dtype=torch.bool) if mask is None else mask
    n_valid = valid.sum(dim=1).clamp(min=1)
    middle = (valid.cumsum(dim=1) - 0.5) / n_valid[:, None]
    replaced = (middle >= start) & (middle < start + width) & valid & (partner[:, None] != index)
    where = relative_times(batch).expand(B, L)
    masks = None if mask is None else mask[partner]
    times = None if times is None else times.expand(B, L)[partner]
    partners = Batch(x[partner], masks, times, batch.symbolic)
    values = read(partners, where[partner], where).where(replaced[..., None], x)
    share = (n_valid - replaced.sum(dim=1)) / n_valid
    return replace(batch, values=values, partner=partner, share=share)


@dataclass(eq=False, repr=False, kw_only=True)
class Jitter(Augmentation, name="jitter"):
    """Add independent Gaussian noise to the values of valid steps: ``x + sigma z``.

    `z` is standard normal, for every step and channel of a series that is chosen, with probability
    `p`; flags of missing values get none, codes are rejected. Values are scaled before: `sigma` is
    a share of a standard deviation.

    Parameters
    ----------
    p : float in [0, 1], default=0.5
        Probability that a series gets noise.
    sigma : float >= 0, default=0.1
        Standard deviation of the noise; 0 changes nothing.

    References
    ----------
    Um et al., "Data Augmentation of Wearable Sensor Data for Parkinson's Disease Monitoring using
    Convolutional Neural Networks", ICMI 2017.

    Examples
    --------
    >>> x = torch.zeros(1, 1000, 1)
    >>> bool((Jitter(p=1.0, sigma=0.3)(Batch(x)).values.std() - 0.3).abs() < 0.03)
    True
    """

    reference = "Um et al. 2017"

    p: Share = 0.5
    sigma: Annotated[float, partial(check_number, low=0)] = 0.1

    def __call__(self, batch: Batch) -> Batch:
        self.check(symbolic=batch.symbolic)
        x = batch.values
        scale = self.sigma * (torch.rand(len(x), 1, 1, device=x.device) < self.p)
        if batch.mask is not None:
            scale = scale * batch.mask[..., None]
        noise = torch.randn_like(x)
        noise[..., x.shape[2] - batch.n_flags :] = 0
        return replace(batch, values=torch.addcmul(x, scale.to(x.dtype), noise))
