"""Novelty: how unlike the training series a series is, in its shape and in simple statistics."""

from math import ceil
from typing import Annotated, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from tsformer.data.preprocessor import Scaler, summarise
from tsformer.data.series import Padded, SeriesSource, parts_of
from tsformer.estimators.groups import Groups
from tsformer.features.random_convolutions import Learned, RandomConvolutions, regular
from tsformer.features.ridge import group_indices

#: Shares of the length at which the growth of distances is learned, and most series to cut.
_SHARES, _MOST_CUT = np.array([1, 0.85, 0.7, 0.5, 0.25, 0.125]), 100
#: Least spread of a statistic over the training series, and its bound in spreads; and the share of
#: the usual deviation below which a channel counts as flat.
_LEAST_SPREAD, _MOST_SPREADS, _FLAT = 0.05, 1e3, 1e-3
#: Least number of values that a series counts as, since its features need memory too.
LEAST_VALUES = 2**11


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

    def fit(self, features: Tensor, cut: Tensor, folds: list[Tensor]) -> Tensor:
        """Learn from features ``[m, F]``; return distances ``[1 + V, m]`` from the other folds.

        `cut` ``[V, k, F]`` are features of the first `k` series, `folds` are indices ``[n, size]``.
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
        rows = torch.cat([features[None], F.pad(cut, (0, 0, 0, len(features) - cut.shape[1]))])
        squared, roots = self(rows).square(), (rows - self.mean) @ (axes * (shares / values).sqrt())
        # The hat matrix is root root^T.
        roots = F.pad(roots, (0, 1), value=len(features) ** -0.5)
        for fold in folds:
            root = roots[0, fold]
            cross = root @ roots[:, fold].mT
            rest = (1 + 1e-10) * torch.eye(fold.shape[1]).to(root) - root @ root.mT
            squared[:, fold] += (cross * torch.linalg.solve(rest, cross)).sum(dim=-2)
        return squared.clamp(min=0.0).sqrt()

    def forward(self, features: Tensor) -> Tensor:
        """Return the distances ``[...]`` of features ``[..., F]``."""
        b = features.double() - self.mean
        squared = b.square().sum(-1) / self.penalty - (b @ self.axes.double()).square().sum(-1)
        return (squared.clamp(min=0.0) + 1 / self.n_series).sqrt()


class Novelty(Learned):
    """Distance from the training series, in units of their own leave-one-out distances.

    The shape is features of random convolutions of standardised channels. Both distances are
    divided by their growth for shorter series and by their 0.99 quantile, then the larger ratio is.
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
        chunks = list(parts_of(series, LEAST_VALUES))
        values = (torch.from_numpy(series.read(index).values) for index in chunks)
        moments = [summarise(x, ~x.isnan(), dim=(1,)) for x in values]
        self.level = torch.cat([chunk.mean[:, 0] for chunk in moments]).median(dim=0).values
        logs = torch.cat([chunk.std[:, 0] for chunk in moments]).log()
        unit = logs.where(logs.isfinite(), torch.nan).nanmean(dim=0).exp()
        flat = self.level.abs().where(self.level != 0, 1.0)  # for a channel that never varies
        self.unit = unit.where(unit.isfinite(), flat)
        first = regular(self.scaler.transform(series.read(chunks[0]))).with_mask()
        self.convolutions.draw(first.values, first.mask, torch.Generator().manual_seed(0))
        columns = zip(*(self._measure(series.read(index)) for index in chunks), strict=True)
        features, statistics = (torch.cat(column) for column in columns)
        self.convolutions.fit_scales(features)
        self.spread = statistics.std(dim=0, correction=0).clamp(min=_LEAST_SPREAD)
        self.length = torch.tensor(float(np.median(series.lengths)), dtype=torch.double)
        n, n_cut = len(series), min(len(chunks[0]), _MOST_CUT)
        folds = None if groups is None else group_indices(torch.from_numpy(groups))
        folds = [torch.arange(n)[:, None]] if folds is None else [fold[None] for fold in folds]
        whole = self._scaled(features, statistics)
        cut = self._scaled(*self._measure(_shorter(series.read(np.arange(n_cut)))))
        of_shape = self.of_shape.fit(whole[0], cut[0].unflatten(0, (-1, n_cut)), folds)
        of_rest = self.of_statistics.fit(whole[1], cut[1].unflatten(0, (-1, n_cut)), folds)
        distances = torch.stack([of_shape, of_rest])
        usual = distances[..., :n_cut].quantile(0.9, dim=-1)
        self.growth = (usual / usual[:, :1]).clamp(min=1.0)
        distances = distances[:, 0] / self._expected(series.lengths)
        # A new distance exceeds that of this rank with probability 0.01, unless it is the largest.
        rank = min(ceil((n + 1) * 0.99), n) - 1
        units = distances.sort().values[:, rank]
        # Distances of the shape are too small for few series: kernels and scales know all.
        units[0] *= 1 + 10 / sum(map(len, folds)) ** 2
        larger = (distances / units[:, None]).amax(dim=0)
        self.quantiles = torch.cat([units, larger.sort().values[rank, None]])
        return self

    @torch.no_grad()
    def score(self, series: Padded) -> npt.NDArray[np.float64]:
        """Return the score of each series ``[n]``."""
        shape, statistics = self._scaled(*self._measure(series))
        distances = torch.stack([self.of_shape(shape), self.of_statistics(statistics)])
        ratios = distances / self._expected(series.lengths) / self.quantiles[:2, None]
        return np.asarray((ratios.amax(dim=0) / self.quantiles[2]).numpy())

    def check(self) -> None:
        """Raise ValueError if loaded tensors do not belong together."""
        n = self.scaler.n_channels
        n_statistics = 6 * n + sum(n - lag for lag in range(1, min(n, 3)))
        self.of_shape.check_sizes(F=self.convolutions.check(n))
        self.of_statistics.check_sizes(F=n_statistics)
        self.check_sizes(C=n, S=n_statistics, three=3, two=2, shares=len(_SHARES))

    def _measure(self, series: Padded) -> tuple[Tensor, Tensor]:
        """Return unscaled features ``[n, F]`` and statistics ``[n, S]``."""
        panel = regular(self.scaler.transform(series)).with_mask()
        x = torch.from_numpy(series.values)
        known = ~x.isnan()
        n_known, mean, _, low, high = moments = summarise(x, known, dim=(1,))
        both, least, std = known[:, 1:] & known[:, :-1], _FLAT * self.unit, moments.std
        # Values are mapped to [0, 1], so that no square overflows.
        span = (high - low).where(high > low, 1.0)
        steps = ((x - low) / span).diff(dim=1)
        statistics = [
            ((mean - self.level) / self.unit).asinh(),
            (std / self.unit + _FLAT).log(),
            1 - n_known / torch.from_numpy(series.lengths)[:, None, None],
            _mean((steps == 0).float(), both),
            ((span * _mean(steps.square(), both).sqrt() + least) / (std + least)).log(),
            ((torch.maximum(high - mean, mean - low) + least) / (std + least)).log(),
        ]
        deviations = (x - mean) / std.where(std > 0, torch.inf)
        for lag in range(1, min(series.n_channels, 3)):
            both = known[..., lag:] & known[..., :-lag]
            statistics.append(_mean(deviations[..., lag:] * deviations[..., :-lag], both))
        # Differences of values near the largest float64 are infinite; no logarithm is above 745.
        finite = torch.cat(statistics, dim=2)[:, 0].nan_to_num(0.0, _MOST_SPREADS, -_MOST_SPREADS)
        return self.convolutions.unscaled(panel.values, panel.mask), finite

    def _expected(self, lengths: npt.NDArray[np.int64]) -> Tensor:
        """Return the growth of both distances at some lengths ``[2, n]``."""
        at = np.log(self.length.item() / lengths)
        rows = [np.exp(np.interp(at, -np.log(_SHARES), row)) for row in self.growth.log().numpy()]
        return torch.from_numpy(np.stack(rows))

    def _scaled(self, features: Tensor, statistics: Tensor) -> tuple[Tensor, Tensor]:
        """Scale features of the shape, and divide statistics by their spreads."""
        bounded = (statistics / self.spread).clamp(-_MOST_SPREADS, _MOST_SPREADS)
        return self.convolutions.scale(features), bounded


def _mean(x: Tensor, known: Tensor) -> Tensor:
    """Average over the known steps ``[n, 1, C]``; 0 without any."""
    return x.where(known, 0.0).sum(1, keepdim=True) / known.sum(1, keepdim=True).clamp(min=1)


def _shorter(series: Padded) -> Padded:
    """Cut series around each share, from the first value and from the end in turn."""
    n, last = len(series), len(_SHARES) - 1
    whole = series.read(np.tile(np.arange(n), last))
    # At a share alone all series of a periodic process may have whole periods.
    places = np.add.outer(np.arange(1, last + 1), (np.arange(n) + 0.5) / n - 0.5).ravel()
    shares = np.exp(np.interp(places, np.arange(last + 1), np.log(_SHARES)))
    lengths = np.ceil(shares * whole.lengths).astype(np.int64)
    start, first = whole.lengths - lengths, (~np.isnan(whole.values).all(axis=2)).argmax(axis=1)
    start[::2] = np.minimum(start, first)[::2]  # with a value, as the last step has one
    return whole.cut(lengths, start)
