"""Novelty: how unlike the training series a series is, in its shape and in simple statistics.

Shape letters: `m` training series, `B` series, `L` steps, `C` channels, `F` features, `S`
statistics, `r` axes.
"""

from __future__ import annotations

from math import ceil

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsformer.data.panel import Panel
from tsformer.data.preprocessor import Scaler, summarise
from tsformer.data.series import Padded, SeriesSource, numbered, parts_of
from tsformer.estimators.targets import Groups
from tsformer.features.random_convolutions import Learned, RandomConvolutions, regular
from tsformer.features.ridge import group_parts

#: Features of the shape.
_N_FEATURES = 168
#: Most training series to learn from.
_MOST_SERIES = 1000
_SEED = 0
#: Share of series like the training series with a score up to 1.
_SHARE = 0.99
#: Penalty of the leverage, in units of the mean eigenvalue.
_PENALTY = 0.1
#: Least spread of a statistic over the training series.
_LEAST_SPREAD = 0.05
#: Bound of statistics, in spreads.
_MOST_SPREADS = 1e3
#: Share of the usual deviation below which a channel counts as flat.
_FLAT = 1e-3
#: Least number of values that a series counts as, since its features need memory too.
_LEAST_VALUES = 2**11


class Leverage(Learned):
    """Square root of the regularised leverage ``b' (A' A + p I)^-1 b + 1 / m``.

    `A` ``[m, F]`` are the features of the training series and `b` of a series, both centred. The
    penalty `p` is a tenth of the mean eigenvalue. The leverage `h` is a Mahalanobis distance whose
    leave-one-out values ``h / (1 - h)`` come without refits.
    """

    mean: Tensor
    #: ``[F, r]``: the sum of squares along the axes is subtracted from ``|b|^2 / p``.
    axes: Tensor
    penalty: Tensor
    n_series: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._empty(
            mean=torch.double, axes=torch.float, penalty=torch.double, n_series=torch.double
        )

    def fit(self, features: Tensor, parts: list[Tensor] | None) -> Tensor:
        """Learn from features ``[m, F]``; return distances ``[m]``, leaving out parts or series."""
        features = features.double()
        self.mean = features.mean(dim=0)
        vectors, singular, axes = torch.linalg.svd(features - self.mean, full_matrices=False)
        kept = singular > 1e-6 * singular[0]
        vectors, values, axes = vectors[:, kept], singular[kept].square(), axes[kept].mT
        unit = values.mean() if len(values) else values.new_ones(())
        self.penalty, self.n_series = _PENALTY * unit, unit.new_tensor(len(features))
        shares = values / (values + self.penalty)
        axes = axes * (shares / self.penalty).sqrt()
        self.axes = axes.float().contiguous()  # as loaded: the same product, bit for bit
        intercept = self.n_series.rsqrt().expand(len(features), 1)
        root = torch.cat([vectors * shares.sqrt(), intercept], dim=1)  # H = root root^T
        if parts is None:
            own = root.square().sum(dim=1)
            left_out = own / (1 - own).clamp(min=1e-10)
        else:
            left_out = torch.empty_like(features[:, 0])
            for part in parts:
                hat = root[part] @ root[part].mT
                rest = (1 + 1e-10) * torch.eye(len(part)).to(hat) - hat
                left_out[part] = torch.linalg.solve(rest, hat).diagonal()
        return left_out.clamp(min=0.0).sqrt()

    def forward(self, features: Tensor) -> Tensor:
        """Return the distances ``[B]`` of features ``[B, F]``."""
        b = features.double() - self.mean
        along = (b @ self.axes.double()).square().sum(dim=1)
        squared = b.square().sum(dim=1) / self.penalty - along
        return (squared.clamp(min=0.0) + 1 / self.n_series).sqrt()

    def check(self, n_features: int) -> None:
        """Raise ValueError if loaded tensors are not for this number of features."""
        n_axes = self.axes.numel() // n_features
        self._check_shapes(mean=(n_features,), axes=(n_features, n_axes), penalty=(), n_series=())
        if not (self.penalty > 0 and self.n_series > 0):
            raise ValueError("penalty and n_series of a leverage must be positive")


class Novelty(Learned):
    """Distance from the training series, in units of their own leave-one-out distances.

    The shape of a series is `F` features of random convolutions, after each channel is standardised
    within the series. The statistics of a channel are level, deviation, share of missing values,
    share of unchanged steps, size of the steps, largest value, and correlations with the next two
    channels. The distance of either is a `Leverage`, divided by the 0.99 quantile of the training
    series, and so is the larger of the two ratios.
    """

    #: Median level, and usual deviation, of each channel ``[C]``.
    level: Tensor
    unit: Tensor
    #: Deviation of each statistic over the training series ``[S]``.
    spread: Tensor
    #: Quantiles of the two distances and of the larger ratio ``[3]``.
    quantiles: Tensor

    def __init__(self, n_channels: int, time_step: float | None) -> None:
        super().__init__()
        self.scaler = Scaler("series", gap_flag=None)
        self.scaler.n_channels, self.scaler.time_step = n_channels, time_step
        self.convolutions = RandomConvolutions(_N_FEATURES, n_groups=0)
        self.of_shape, self.of_statistics = Leverage(), Leverage()
        self._empty(**dict.fromkeys(("level", "unit", "spread", "quantiles"), torch.double))

    @property
    def n_series(self) -> int:
        """Number of training series that it learned from."""
        return int(self.of_shape.n_series)

    @torch.no_grad()
    def fit(self, series: SeriesSource, groups: Groups | None = None) -> Novelty:
        """Learn from training series, leaving out whole groups."""
        chosen = np.random.default_rng(_SEED).permutation(len(series))[:_MOST_SERIES]
        sample = series.part(chosen)
        read: list[tuple[Tensor, Tensor]] = []
        for index in _parts(sample):
            part = sample.read(index)
            panel = self._panel(part)
            if not read:
                generator = torch.Generator().manual_seed(_SEED)
                self.convolutions.draw(panel.values, panel.mask, generator)
            read.append((self.convolutions.unscaled(panel.values, panel.mask), _measured(part)))
        features, measured = (torch.cat(each) for each in zip(*read, strict=True))
        mean, std = measured.split(series.n_channels, dim=1)[:2]
        self.level = mean.median(dim=0).values
        logs = std.log()
        unit = logs.where(logs.isfinite(), torch.nan).nanmean(dim=0).exp()
        flat = self.level.abs().where(self.level != 0, 1.0)  # for a channel that never varies
        self.unit = unit.where(unit.isfinite(), flat)
        self.convolutions.fit_scales(features)
        raw = self._raw(measured)
        self.spread = raw.std(dim=0, correction=0).clamp(min=_LEAST_SPREAD)
        parts = group_parts(None if groups is None else torch.from_numpy(groups[chosen]))
        shapes, statistics = self.convolutions.scale(features), self._in_spreads(raw)
        distances = torch.stack(
            [self.of_shape.fit(shapes, parts), self.of_statistics.fit(statistics, parts)]
        )
        of_each = torch.stack([quantile(each) for each in distances])
        larger = (distances / of_each[:, None]).amax(dim=0)
        self.quantiles = torch.cat([of_each, quantile(larger)[None]])
        return self

    @torch.no_grad()
    def score(self, series: SeriesSource) -> npt.NDArray[np.float64]:
        """Return the score of each series ``[n]``."""
        scores = np.empty(len(series))
        for index in _parts(series):
            with numbered(index):
                part = series.read(index)
                shapes = self.convolutions.scale(self._features(part))
            statistics = self._in_spreads(self._raw(_measured(part)))
            distances = [self.of_shape(shapes), self.of_statistics(statistics)]
            larger = (torch.stack(distances, dim=1) / self.quantiles[:2]).amax(dim=1)
            scores[index] = (larger / self.quantiles[2]).numpy()
        return scores

    def check(self) -> None:
        """Raise ValueError if loaded tensors do not belong together."""
        n_channels = self.scaler.n_channels
        n_statistics = 6 * n_channels + sum(n_channels - lag for lag in _lags(n_channels))
        n_of_channel, n_of_statistics = (n_channels,), (n_statistics,)
        self.of_shape.check(self.convolutions.check(n_channels))
        self.of_statistics.check(n_statistics)
        self._check_shapes(
            level=n_of_channel, unit=n_of_channel, spread=n_of_statistics, quantiles=(3,)
        )
        for name in ("unit", "spread", "quantiles"):
            if not bool((getattr(self, name) > 0).all()):
                raise ValueError(f"{name} of a novelty must be positive")

    def _panel(self, series: Padded) -> Panel:
        return regular(self.scaler.transform(series)).with_mask()

    def _features(self, series: Padded) -> Tensor:
        """Return unscaled features of the shape ``[B, F]``."""
        panel = self._panel(series)
        return self.convolutions.unscaled(panel.values, panel.mask)

    def _in_spreads(self, statistics: Tensor) -> Tensor:
        """Return statistics ``[B, S]`` in units of their spread, within bounds."""
        return (statistics / self.spread).clamp(-_MOST_SPREADS, _MOST_SPREADS)

    def _raw(self, measured: Tensor) -> Tensor:
        """Return the statistics ``[B, S]`` of what `_measured` returns."""
        n_channels, least = len(self.unit), _FLAT * self.unit
        mean, std, missing, unchanged, size, largest = measured.split(n_channels, dim=1)[:6]
        statistics = [
            ((mean - self.level) / self.unit).asinh(),
            (std / self.unit + _FLAT).log(),
            missing,
            unchanged,
            ((size + least) / (std + least)).log(),
            ((largest + least) / (std + least)).log(),
            measured[:, 6 * n_channels :],
        ]
        # Differences of values near the largest float64 are infinite; no logarithm is above 745.
        return torch.cat(statistics, dim=1).nan_to_num(0.0, _MOST_SPREADS, -_MOST_SPREADS)


def _measured(series: Padded) -> Tensor:
    """Return level, deviation, shares, step size, largest value and correlations ``[B, S]``."""
    x = torch.from_numpy(series.values)
    known = ~x.isnan()
    moments = summarise(x, known, dim=(1,))
    both = known[:, 1:] & known[:, :-1]
    n_steps = both.sum(dim=1).clamp(min=1)
    # Values are mapped to [0, 1], so that no square overflows.
    span = (moments.high - moments.low).where(moments.high > moments.low, 1.0)
    steps = ((x - moments.low) / span).diff(dim=1).where(both, 1.0)
    size = span[:, 0] * (steps.square().where(both, 0.0).sum(dim=1) / n_steps).sqrt()
    deviations = (x - moments.mean) / moments.std.where(moments.std > 0, torch.inf)
    deviations = deviations.where(known, 0.0)
    measured = [
        moments.mean[:, 0],
        moments.std[:, 0],
        1 - moments.n_known[:, 0] / torch.from_numpy(series.lengths)[:, None],
        (steps == 0).sum(dim=1) / n_steps,
        size,
        torch.maximum(moments.high - moments.mean, moments.mean - moments.low)[:, 0],
    ]
    for lag in _lags(series.n_channels):
        one, other = slice(lag, None), slice(None, -lag)
        pairs = (known[..., one] & known[..., other]).sum(dim=1).clamp(min=1)
        measured.append((deviations[..., one] * deviations[..., other]).sum(dim=1) / pairs)
    return torch.cat(measured, dim=1)


def _lags(n_channels: int) -> range:
    """Return the distances between channels to correlate."""
    return range(1, min(n_channels, 3))


def _parts(series: SeriesSource) -> list[npt.NDArray[np.int64]]:
    """Return the indices of series to read at a time."""
    n_values = series.n_steps * series.n_channels
    return list(parts_of(len(series), max(n_values, _LEAST_VALUES)))


def quantile(distances: Tensor) -> Tensor:
    """Return the distance that a new one exceeds with probability 0.01, at most the largest."""
    rank = ceil((len(distances) + 1) * _SHARE)
    return distances.sort().values[min(rank, len(distances)) - 1]
