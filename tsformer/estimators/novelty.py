"""Novelty: how unlike the training series a series is, in its shape and in simple statistics.

Shape letters: `m` training series, `B` series, `L` steps, `C` channels, `F` features, `S`
statistics, `r` axes.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsformer.data.preprocessor import Scaler, summarise
from tsformer.data.series import Padded, SeriesError, SeriesSource, parts_of
from tsformer.estimators.targets import Groups
from tsformer.features.random_convolutions import Learned, RandomConvolutions, regular
from tsformer.features.ridge import group_parts

#: Features of the shape, most training series to learn from, and the seed that draws both.
_N_FEATURES, MOST_SERIES, _SEED = 168, 1000, 0
#: Shares of the length at which the growth of the 0.9 quantile is learned, from so many series.
_SHARES, _MOST_CUT, _TYPICAL = np.array([1, 0.85, 0.7, 0.5, 0.25, 0.125]), 100, 0.9
#: Distances of the shape are too small by a factor ``1 + 10 / n^2``: kernels and scales know all.
_FEW = 10.0
#: Share of the training series with a score up to 1, and the penalty in mean eigenvalues.
_SHARE, _PENALTY = 0.99, 0.1
#: Least spread of a statistic over the training series, and its bound in spreads.
_LEAST_SPREAD, _MOST_SPREADS = 0.05, 1e3
#: Share of the usual deviation below which a channel counts as flat.
_FLAT = 1e-3
#: Least number of values that a series counts as, since its features need memory too.
LEAST_VALUES = 2**11


class Leverage(
    Learned, mean=torch.double, axes=torch.float, penalty=torch.double, n_series=torch.double
):
    """Square root of the regularised leverage ``b' (A' A + p I)^-1 b + 1 / m``.

    `A` ``[m, F]`` are the features of the training series and `b` of a series, both centred. The
    leverage `h` is a Mahalanobis distance; its leave-one-out is ``h / (1 - h)``, without refits.
    """

    mean: Tensor
    axes: Tensor  # [F, r]: the sum of squares along the axes is subtracted from |b|^2 / p
    penalty: Tensor
    n_series: Tensor

    def fit(self, features: Tensor) -> Tensor:
        """Learn from features ``[m, F]``; return a root ``[m, r + 1]`` of their hat matrix."""
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
        return torch.cat([vectors * shares.sqrt(), intercept], dim=1)  # H = root root^T

    def left_out(self, features: Tensor, root: Tensor, parts: list[Tensor] | None) -> Tensor:
        """Return distances of the first series, with features ``[k, F]``, without their parts."""
        shares = root[:, :-1].square().sum(dim=0)
        along = (features.double() - self.mean) @ self.axes.double()
        along = along * ((1 - shares) / shares).sqrt()  # rows as of the root
        along = torch.cat([along, root[: len(features), -1:]], dim=1)
        squared = self(features).square()
        if parts is None:
            own = root[: len(features)]
            rest = (1 - own.square().sum(dim=1)).clamp(min=1e-10)
            return (squared + (own * along).sum(dim=1).square() / rest).sqrt()
        for part in parts:
            own, some = root[part], part[part < len(features)]
            cross = own @ along[some].mT
            hat = own @ own.mT
            rest = (1 + 1e-10) * torch.eye(len(part)).to(hat) - hat
            squared[some] += (cross * torch.linalg.solve(rest, cross)).sum(dim=0)
        return squared.clamp(min=0.0).sqrt()

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


class Novelty(
    Learned,
    **dict.fromkeys(("level", "unit", "spread", "quantiles", "length", "growth"), torch.double),
):
    """Distance from the training series, in units of their own leave-one-out distances.

    The shape of a series is `F` features of random convolutions, each channel standardised within
    the series. The statistics of a channel are level, deviation, shares of missing values and of
    unchanged steps, size of the steps, largest value, and correlations with the next two channels.
    The distance of either is a `Leverage`, divided by its growth for shorter series and by the 0.99
    quantile of the training series, and so is the larger of the two ratios.
    """

    level: Tensor  # [C], the median of each channel
    unit: Tensor  # [C], the usual deviation
    spread: Tensor  # [S], the deviation of each statistic over the training series
    quantiles: Tensor  # [3], of the two distances and of the larger ratio
    length: Tensor  # the median
    growth: Tensor  # [2, shares], of the two distances at shares of the median length

    def __init__(self, n_channels: int, time_step: float | None) -> None:
        super().__init__()
        self.scaler = Scaler("series", gap_flag=None)
        self.scaler.n_channels, self.scaler.time_step = n_channels, time_step
        self.convolutions = RandomConvolutions(_N_FEATURES, n_groups=0)
        self.of_shape, self.of_statistics = Leverage(), Leverage()

    @property
    def n_series(self) -> int:
        """Number of training series that it learned from."""
        return int(self.of_shape.n_series)

    @torch.no_grad()
    def fit(self, series: SeriesSource, groups: Groups | None = None) -> Novelty:
        """Learn from training series, leaving out whole groups."""
        chosen = np.random.default_rng(_SEED).permutation(len(series))[:MOST_SERIES]
        sample = series.part(chosen)
        rows: list[list[tuple[Tensor, ...]]] = []
        for index in parts_of(sample, LEAST_VALUES):
            part = sample.read(index)
            if not rows:
                panel = regular(self.scaler.transform(part)).with_mask()
                generator = torch.Generator().manual_seed(_SEED)
                self.convolutions.draw(panel.values, panel.mask, generator)
                n_cut = min(len(part), _MOST_CUT)
                part = _with_shorter(part, n_cut)
            rows.append([each.tensor_split([len(index)]) for each in self._features(part)])
        (features, cut_features), (measured, cut_measured) = (
            (torch.cat([whole for whole, _ in pairs]), pairs[0][1])
            for pairs in zip(*rows, strict=True)
        )
        mean, std = measured.split(series.n_channels, dim=1)[:2]
        self.level = mean.median(dim=0).values
        logs = std.log()
        unit = logs.where(logs.isfinite(), torch.nan).nanmean(dim=0).exp()
        flat = self.level.abs().where(self.level != 0, 1.0)  # for a channel that never varies
        self.unit = unit.where(unit.isfinite(), flat)
        self.convolutions.fit_scales(features)
        self.spread = torch.ones((), dtype=torch.double)
        self.spread = self._statistics(measured).std(dim=0, correction=0).clamp(min=_LEAST_SPREAD)
        of_groups = None if groups is None else group_parts(torch.from_numpy(groups[chosen]))
        n_parts = len(sample) if of_groups is None else len(of_groups)
        self.length = torch.tensor(float(np.median(sample.lengths)), dtype=torch.double)
        distances, growth = [], []
        for leverage, function, seen, shorter in (
            (self.of_shape, self.convolutions.scale, features, cut_features),
            (self.of_statistics, self._statistics, measured, cut_measured),
        ):
            whole, cut = function(seen), function(shorter)
            root = leverage.fit(whole)
            left_out = leverage.left_out(whole, root, of_groups)
            others = [leverage.left_out(each, root, of_groups) for each in cut.split(n_cut)]
            usual = [each.quantile(_TYPICAL) for each in (left_out[:n_cut], *others)]
            distances.append(left_out)
            growth.append((torch.stack(usual) / usual[0]).clamp(min=1.0))
        self.growth = torch.stack(growth)
        expected = torch.stack(distances) / self._expected(sample.lengths)
        units = torch.stack([quantile(each) for each in expected])
        units[0] *= 1 + _FEW / n_parts**2
        larger = (expected / units[:, None]).amax(dim=0)
        self.quantiles = torch.cat([units, quantile(larger)[None]])
        return self

    @torch.no_grad()
    def score(self, series: SeriesSource) -> npt.NDArray[np.float64]:
        """Return the score of each series ``[n]``."""
        scores = np.empty(len(series))
        for index in parts_of(series, LEAST_VALUES):
            part = series.read(index)
            try:
                features, measured = self._features(part)
            except SeriesError as error:
                raise error.among(index) from None
            of_shape = self.of_shape(self.convolutions.scale(features))
            of_statistics = self.of_statistics(self._statistics(measured))
            distances = torch.stack([of_shape, of_statistics]) / self._expected(part.lengths)
            larger = (distances / self.quantiles[:2, None]).amax(dim=0)
            scores[index] = (larger / self.quantiles[2]).numpy()
        return scores

    def check(self) -> None:
        """Raise ValueError if loaded tensors do not belong together."""
        n = self.scaler.n_channels
        n_statistics = 6 * n + sum(n - lag for lag in range(1, min(n, 3)))
        self.of_shape.check(self.convolutions.check(n))
        self.of_statistics.check(n_statistics)
        shapes = {"level": (n,), "unit": (n,), "spread": (n_statistics,), "quantiles": (3,)}
        self._check_shapes(**shapes, length=(), growth=(2, len(_SHARES)))
        for name in ("unit", "spread", "quantiles", "length", "growth"):
            if not bool((getattr(self, name) > 0).all()):
                raise ValueError(f"{name} of a novelty must be positive")

    def _features(self, series: Padded) -> tuple[Tensor, Tensor]:
        """Return features of the shape ``[B, F]``, and measures of the channels ``[B, M]``."""
        panel = regular(self.scaler.transform(series)).with_mask()
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
        for lag in range(1, min(series.n_channels, 3)):
            one, other = slice(lag, None), slice(None, -lag)
            pairs = (known[..., one] & known[..., other]).sum(dim=1).clamp(min=1)
            measured.append((deviations[..., one] * deviations[..., other]).sum(dim=1) / pairs)
        features = self.convolutions.unscaled(panel.values, panel.mask)
        return features, torch.cat(measured, dim=1)

    def _expected(self, lengths: npt.NDArray[np.int64]) -> Tensor:
        """Return the growth of both distances at some lengths ``[2, n]``."""
        at = np.log(self.length.item() / lengths)
        rows = [np.exp(np.interp(at, -np.log(_SHARES), row)) for row in self.growth.log().numpy()]
        return torch.from_numpy(np.stack(rows))

    def _statistics(self, measured: Tensor) -> Tensor:
        """Return the statistics ``[B, S]`` in units of their spread, within bounds."""
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
        return (found / self.spread).clamp(-_MOST_SPREADS, _MOST_SPREADS)


def _with_shorter(series: Padded, n_cut: int) -> Padded:
    """Append the first series, cut to each share from the start and from the end in turn."""
    n, n_shares, at = len(series), len(_SHARES) - 1, np.arange(series.n_steps)
    index = np.concatenate([np.arange(n), np.tile(np.arange(n_cut), n_shares)])
    shares = np.concatenate([np.ones(n), np.repeat(_SHARES[1:], n_cut)])
    whole = series.read(index)
    lengths = np.ceil(shares * whole.lengths).astype(np.int64)
    start = np.where(index % 2, whole.lengths - lengths, 0)
    after = at - start[:, None]
    known = ~np.isnan(whole.values).all(axis=2) & (after >= 0) & (after < lengths[:, None])
    lost = ~known.any(axis=1)  # cut to a gap
    start, lengths = np.where(lost, 0, start), np.where(lost, whole.lengths, lengths)
    steps = np.minimum(start[:, None] + at, at[-1])
    values = np.take_along_axis(whole.values, steps[..., None], axis=1)
    values[at >= lengths[:, None]] = np.nan
    times = None if whole.times is None else np.take_along_axis(whole.times, steps, axis=1)
    observed = np.asarray(~np.isnan(values).all(axis=2))
    lengths = whole.n_steps - observed[:, ::-1].argmax(axis=1)
    return replace(whole, values=values, lengths=lengths, times=times)


def quantile(distances: Tensor) -> Tensor:
    """Return the distance that a new one exceeds with probability 0.01, at most the largest."""
    rank = ceil((len(distances) + 1) * _SHARE)
    return distances.sort().values[min(rank, len(distances)) - 1]
