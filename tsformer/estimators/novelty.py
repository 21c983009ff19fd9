"""Novelty: how unlike the training series a series is, in its shape and in simple statistics.

Shape letters: `m` training series, `L` steps, `C` channels, `F` features, `S` statistics.
"""

from dataclasses import replace
from math import ceil
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tsformer.data.preprocessor import Scaler, summarise
from tsformer.data.series import Padded, SeriesError, SeriesSource, parts_of
from tsformer.estimators.groups import Groups
from tsformer.features.random_convolutions import Learned, RandomConvolutions, regular
from tsformer.features.ridge import group_parts

#: Most training series to learn from, and most of them that are cut.
MOST_SERIES, _MOST_CUT = 1000, 100
#: Shares of the length at which the growth of distances is learned.
_SHARES = np.array([1, 0.85, 0.7, 0.5, 0.25, 0.125])
#: Least spread of a statistic over the training series, and its bound in spreads.
_LEAST_SPREAD, _MOST_SPREADS = 0.05, 1e3
#: Share of the usual deviation below which a channel counts as flat.
_FLAT = 1e-3
#: Least number of values that a series counts as, since its features need memory too.
_LEAST_VALUES = 2**11


class Leverage(Learned):
    """Square root of the regularised leverage ``b' (A' A + p I)^-1 b + 1 / m``.

    `A` ``[m, F]`` are the features of the training series and `b` of a series, both centred: a
    Mahalanobis distance, with a tenth of the mean eigenvalue as `p`.
    """

    mean: Annotated[Tensor, torch.double, "F"]
    #: The sum of squares along the axes is subtracted from ``|b|^2 / p``.
    axes: Annotated[Tensor, torch.float, "F r"]
    penalty: Annotated[Tensor, torch.double, "", "positive"]
    n_series: Annotated[Tensor, torch.double, "", "positive"]

    def fit(self, features: Tensor, cut: Tensor, parts: list[Tensor]) -> Tensor:
        """Learn from features ``[m, F]``; return distances ``[1 + V, m]``, without refits.

        The distance of a series is from all but its own part. `cut` ``[V, k, F]`` are other
        features of the first `k` series, and `parts` are indices ``[n, size]`` for each size.
        """
        self.mean = features.double().mean(dim=0)
        _, singular, axes = torch.linalg.svd(features - self.mean, full_matrices=False)
        kept = singular > 1e-6 * singular[0]
        values, axes = singular[kept].square(), axes[kept].mT
        unit = values.mean() if len(values) else values.new_ones(())
        self.penalty, self.n_series = 0.1 * unit, unit.new_tensor(len(features))
        shares = values / (values + self.penalty)
        # Contiguous as loaded: the same product, bit for bit.
        self.axes = (axes * (shares / self.penalty).sqrt()).float().contiguous()
        axes, constant = axes * (shares / values).sqrt(), len(features) ** -0.5
        rows = torch.cat([features, cut.flatten(0, 1)])
        rows = torch.cat([self(rows).square()[:, None], (rows - self.mean) @ axes], dim=1)
        own, cut = rows[: len(features)], rows[len(features) :].unflatten(0, cut.shape[:2])
        rows = torch.cat([own[None], F.pad(cut, (0, 0, 0, len(own) - cut.shape[1]))])
        squared, roots = rows[..., 0], F.pad(rows[..., 1:], (0, 1), value=constant)
        # The hat matrix is root root^T.
        for part in parts:
            own = roots[0, part]
            cross = own @ roots[:, part].mT
            rest = (1 + 1e-10) * torch.eye(part.shape[1]).to(own) - own @ own.mT
            squared[:, part] += (cross * torch.linalg.solve(rest, cross)).sum(dim=-2)
        return squared.clamp(min=0.0).sqrt()

    def forward(self, features: Tensor) -> Tensor:
        """Return the distances ``[...]`` of features ``[..., F]``."""
        b = features.double() - self.mean
        along = (b @ self.axes.double()).square().sum(dim=-1)
        squared = b.square().sum(dim=-1) / self.penalty - along
        return (squared.clamp(min=0.0) + 1 / self.n_series).sqrt()


class Novelty(Learned):
    """Distance from the training series, in units of their own leave-one-out distances.

    The shape of a series is `F` features of random convolutions, each channel standardised within
    the series. The distances of shape and statistics are divided by their growth for shorter
    series and by the 0.99 quantile of the training series, and so is the larger of the two ratios.
    """

    level: Annotated[Tensor, torch.double, "C"]  # the median
    unit: Annotated[Tensor, torch.double, "C", "positive"]  # the usual deviation
    spread: Annotated[Tensor, torch.double, "S", "positive"]  # of statistics of training series
    quantiles: Annotated[Tensor, torch.double, "three", "positive"]  # both, and the larger ratio
    length: Annotated[Tensor, torch.double, "", "positive"]  # the median
    growth: Annotated[Tensor, torch.double, "two shares", "positive"]  # by share of this length

    def __init__(self, n_channels: int, time_step: float | None) -> None:
        super().__init__()
        self.scaler = Scaler("series", gap_flag=None)
        self.scaler.n_channels, self.scaler.time_step = n_channels, time_step
        self.convolutions = RandomConvolutions(168, n_groups=0)
        self.of_shape, self.of_statistics = Leverage(), Leverage()

    @torch.no_grad()
    def fit(self, series: SeriesSource, groups: Groups | None = None) -> Self:
        """Learn from training series, leaving out whole groups."""
        chosen = np.random.default_rng(0).permutation(len(series))[:MOST_SERIES]
        sample = series.part(chosen)
        indices = list(parts_of(sample, _LEAST_VALUES))
        rows = [self._features(sample.read(index), draw=not index[0]) for index in indices]
        features, measured = (torch.cat(parts) for parts in zip(*rows, strict=True))
        mean, std = measured.split(series.n_channels, dim=1)[:2]
        self.level = mean.median(dim=0).values
        logs = std.log()
        unit = logs.where(logs.isfinite(), torch.nan).nanmean(dim=0).exp()
        flat = self.level.abs().where(self.level != 0, 1.0)  # for a channel that never varies
        self.unit = unit.where(unit.isfinite(), flat)
        self.convolutions.fit_scales(features)
        self.spread = torch.ones((), dtype=torch.double)
        statistics = self._scaled(features, measured)[1]
        self.spread = statistics.std(dim=0, correction=0).clamp(min=_LEAST_SPREAD)
        self.length = torch.tensor(float(np.median(sample.lengths)), dtype=torch.double)
        parts = [torch.arange(len(sample))[:, None]]
        if groups is not None and (found := group_parts(torch.from_numpy(groups[chosen]))):
            sizes = {len(part) for part in found}
            parts = [torch.stack([part for part in found if len(part) == n]) for n in sizes]
        n_cut = min(len(indices[0]), _MOST_CUT)
        cut = self._scaled(*self._features(_shorter(sample.read(np.arange(n_cut)))))
        pairs = zip(self._scaled(features, measured), cut, strict=True)
        leverages = zip((self.of_shape, self.of_statistics), pairs, strict=True)
        distances = torch.stack(
            [own.fit(x, y.unflatten(0, (-1, n_cut)), parts) for own, (x, y) in leverages]
        )
        usual = distances[..., :n_cut].quantile(0.9, dim=-1)
        self.growth = (usual / usual[:, :1]).clamp(min=1.0)
        distances = distances[:, 0] / self._expected(sample.lengths)
        # A new distance exceeds that of this rank with probability 0.01, unless it is the largest.
        rank = min(ceil((len(sample) + 1) * 0.99), len(sample)) - 1
        units = distances.sort().values[:, rank]
        # Distances of the shape are too small for few series: kernels and scales know all.
        units[0] *= 1 + 10 / sum(map(len, parts)) ** 2
        larger = (distances / units[:, None]).amax(dim=0)
        self.quantiles = torch.cat([units, larger.sort().values[rank, None]])
        return self

    @torch.no_grad()
    def score(self, series: SeriesSource) -> npt.NDArray[np.float64]:
        """Return the score of each series ``[n]``."""
        scores = np.empty(len(series))
        for index in parts_of(series, _LEAST_VALUES):
            try:
                shape, statistics = self._scaled(*self._features(series.read(index)))
            except SeriesError as error:
                raise error.among(index) from None
            distances = torch.stack([self.of_shape(shape), self.of_statistics(statistics)])
            ratios = distances / self._expected(series.lengths[index]) / self.quantiles[:2, None]
            scores[index] = (ratios.amax(dim=0) / self.quantiles[2]).numpy()
        return scores

    def check(self) -> None:
        """Raise ValueError if loaded tensors do not belong together."""
        n = self.scaler.n_channels
        n_statistics = 6 * n + sum(n - lag for lag in range(1, min(n, 3)))
        self.of_shape.check_sizes(F=self.convolutions.check(n))
        self.of_statistics.check_sizes(F=n_statistics)
        self.check_sizes(C=n, S=n_statistics, three=3, two=2, shares=len(_SHARES))

    def _features(self, series: Padded, *, draw: bool = False) -> tuple[Tensor, Tensor]:
        """Return unscaled features ``[n, F]``, and measures of the channels ``[n, S]``."""
        panel = regular(self.scaler.transform(series)).with_mask()
        if draw:
            generator = torch.Generator().manual_seed(0)
            self.convolutions.draw(panel.values, panel.mask, generator)
        x = torch.from_numpy(series.values)
        known = ~x.isnan()
        moments = summarise(x, known, dim=(1,))
        both = known[:, 1:] & known[:, :-1]
        # Values are mapped to [0, 1], so that no square overflows.
        span = (moments.high - moments.low).where(moments.high > moments.low, 1.0)
        steps = ((x - moments.low) / span).diff(dim=1)
        deviations = (x - moments.mean) / moments.std.where(moments.std > 0, torch.inf)
        measured = [
            moments.mean[:, 0],
            moments.std[:, 0],
            1 - moments.n_known[:, 0] / torch.from_numpy(series.lengths)[:, None],
            _mean((steps == 0).float(), both),
            span[:, 0] * _mean(steps.square(), both).sqrt(),
            torch.maximum(moments.high - moments.mean, moments.mean - moments.low)[:, 0],
        ]
        for lag in range(1, min(series.n_channels, 3)):
            one, other = slice(lag, None), slice(None, -lag)
            products = deviations[..., one] * deviations[..., other]
            measured.append(_mean(products, known[..., one] & known[..., other]))
        features = self.convolutions.unscaled(panel.values, panel.mask)
        return features, torch.cat(measured, dim=1)

    def _expected(self, lengths: npt.NDArray[np.int64]) -> Tensor:
        """Return the growth of both distances at some lengths ``[2, n]``."""
        at = np.log(self.length.item() / lengths)
        rows = [np.exp(np.interp(at, -np.log(_SHARES), row)) for row in self.growth.log().numpy()]
        return torch.from_numpy(np.stack(rows))

    def _scaled(self, features: Tensor, measured: Tensor) -> tuple[Tensor, Tensor]:
        """Scale features of the shape ``[n, F]``; return statistics ``[n, S]``, in spreads."""
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
        found = torch.cat(statistics, dim=1).nan_to_num(0.0, _MOST_SPREADS, -_MOST_SPREADS)
        bounded = (found / self.spread).clamp(-_MOST_SPREADS, _MOST_SPREADS)
        return self.convolutions.scale(features), bounded


def _mean(x: Tensor, known: Tensor) -> Tensor:
    """Average over the known steps; 0 without any."""
    return x.where(known, 0.0).sum(dim=1) / known.sum(dim=1).clamp(min=1)


def _shorter(series: Padded) -> Padded:
    """Cut series around each share, from the first value and from the end in turn."""
    n, n_steps, last = len(series), series.n_steps, len(_SHARES) - 1
    whole = series.read(np.tile(np.arange(n), last))
    # At a share alone all series of a periodic process may have whole periods.
    places = np.add.outer(np.arange(1, last + 1), (np.arange(n) + 0.5) / n - 0.5).ravel()
    shares = np.exp(np.interp(places, np.arange(last + 1), np.log(_SHARES)))
    lengths = np.ceil(shares * whole.lengths).astype(np.int64)
    start, first = whole.lengths - lengths, (~np.isnan(whole.values).all(axis=2)).argmax(axis=1)
    start[::2] = np.minimum(start, first)[::2]  # with a value, as the last step has one
    steps = np.minimum(start[:, None] + np.arange(n_steps), n_steps - 1)
    values = np.take_along_axis(whole.values, steps[..., None], axis=1)
    values[np.arange(n_steps) >= lengths[:, None]] = np.nan
    times = None if whole.times is None else np.take_along_axis(whole.times, steps, axis=1)
    return replace(whole, values=values, lengths=lengths, times=times)
