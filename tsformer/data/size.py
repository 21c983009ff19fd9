"""Size: how large each series is, for a model that reads only the shape of its values."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

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
