"""Views: inputs derived from each channel, and the moments by which they are scaled."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tsformer._checks import check_number, unknown

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


#: Sizes further from the mean of the training series are taken to be so far, in deviations.
_MOST = 5.0


class Size(nn.Module):
    r"""The size and the level of each channel of a series, on scales for several decades.

    .. math:: a = \log \sigma, \qquad b = \operatorname{asinh}(\mu / u)

    where :math:`\mu` and :math:`\sigma` are the mean and deviation of the channel in the series,
    and :math:`u` is the geometric mean of :math:`\sigma` over the training series. Both are
    standardised over the training series and cut at five deviations. `floor`, the least
    deviation in training, is the size of a constant channel.
    """

    floor: Tensor
    mean: Tensor
    std: Tensor
    level_mean: Tensor
    level_std: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("floor", "mean", "std", "level_mean", "level_std"):
            self.register_buffer(name, torch.ones(0, dtype=torch.float64))

    def fit(self, parts: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Learn from the arguments of `forward` for part after part of the training series."""
        means, deviations = (torch.cat(each)[:, 0] for each in zip(*parts, strict=True))
        lowest = deviations.where(deviations > 0, torch.inf).amin(dim=0)
        level = means.abs().amax(dim=0)  # the unit of a channel whose series are all constant
        self.floor = lowest.where(lowest.isfinite(), level.where(level > 0, 1.0))
        logs = deviations.maximum(self.floor).log()
        self.mean, self.std = logs.mean(dim=0), _positive(logs)
        levels = _asinh(means / self.mean.exp())
        self.level_mean, self.level_std = levels.mean(dim=0), _positive(levels)

    def forward(self, mean: Tensor, std: Tensor) -> Tensor:
        """Return sizes, then levels ``[B, 1, 2 C]``, of means and deviations ``[B, 1, C]``."""
        size = (std.maximum(self.floor).log() - self.mean) / self.std
        level = (_asinh(mean / self.mean.exp()) - self.level_mean) / self.level_std
        return torch.cat([size, level], dim=-1).clamp(-_MOST, _MOST)


def _asinh(x: Tensor) -> Tensor:
    """Return the area hyperbolic sine, which ONNX Runtime does not have for float64."""
    unit = x.abs().clamp(min=1.0)  # no square overflows
    root = ((x / unit).square() + unit.reciprocal().square()).sqrt()
    return x.sign() * (unit.log() + (x.abs() / unit + root).log())


def _positive(x: Tensor) -> Tensor:
    """Return deviations over series, 1 where rounding errors are all there is."""
    std = x.std(dim=0, correction=0)
    return std.where(std > 1e-12 * (1 + x.abs().amax(dim=0)), 1.0)


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
