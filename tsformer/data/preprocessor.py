"""Preprocessor: everything that happens to values before they reach a model.

A fitted preprocessor is a torch module: `fit`, `predict`, saving and exports share its arithmetic.
Shapes: `B` series, `L` time steps, `C` channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Annotated, Any, NamedTuple, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn

from tsformer._checks import Finite, Positive, check_known, check_number, one_of, read_fields
from tsformer._registry import check_options
from tsformer._warnings import warn_caller
from tsformer.data.panel import AnyPanel, Panel, StoredPanel
from tsformer.data.series import SeriesError, SeriesSource, parts_of

SCALINGS = ("channel", "series", "series+size", None)
VIEWS = ("values", "difference")
#: Values are equal to rounding if they differ by at most this share of their magnitude.
ROUNDING = 8 * torch.finfo(torch.float64).eps
#: Largest size, in deviations, and ratio of levels from which their logarithms matter.
_MOST_DEVIATIONS, _WIDE = 5.0, 10.0
#: Flags a missing value; larger flags cost accuracy (experiments/results/missing_values.csv).
GAP_FLAG = -0.1
#: Most bytes of preprocessed series that are kept in memory; more are preprocessed batch by batch.
_KEPT = 2**26
#: Without scaling, float32 keeps the digits of channels whose largest magnitude is this.
_LEAST_UNSCALED = 2.0**-102
#: Days are 24 hours; other factors between units are larger.
_OTHER_UNIT = 20

_Result = TypeVar("_Result")


class Preprocessor(nn.Module):
    """Base of `Scaler`, for measurements, and `Vocabulary`, for codes."""

    #: Prefix of its tensor names in a saved file.
    prefix: str
    #: Whether it returns numbers of codes.
    symbolic = False
    #: Channels `C` of the series that it was fitted to.
    n_channels: int
    #: Channels with gaps in training, each flagged by an input after all others.
    gap_channels: Tensor
    #: Unit of the times that the model reads.
    time_step: float | None = None
    #: Return the values and the mask of `forward`; warn of gaps or codes that training lacked.
    _convert: Callable[[Tensor, Tensor | None, Tensor | None], tuple[Tensor, Tensor]]
    _warn_of_unseen: Callable[[SeriesSource], None]

    #: Channels that the model reads.
    n_inputs = 1

    def fit(self, series: SeriesSource) -> Self:
        """Learn what `transform` needs, from one part of the series after another."""
        raise NotImplementedError

    def _over(
        self, series: SeriesSource, function: Callable[[Tensor, Tensor | None], _Result]
    ) -> Iterator[_Result]:
        """Yield a function of values ``[m, L, C]`` and times, for each part."""
        for index in parts_of(series):
            chunk = series.read(index)
            elapsed = None if chunk.times is None else self._elapsed(torch.from_numpy(chunk.times))
            try:
                result = function(torch.from_numpy(chunk.values), elapsed)
            except SeriesError as error:
                raise error.among(index) from None
            yield result

    def forward(
        self, x: Tensor, times: Tensor | None = None, size: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Preprocess series ``x [B, L, C]`` of float64, NaN where a value is missing.

        `size` ``[B, 1, 2 C]`` replaces what ``scaling="series+size"`` adds. Returns float32 values
        ``[B, L, n_inputs]``, zero where masked, the mask ``[B, L]``, and times in `time_step`.
        """
        elapsed = None if times is None or self.time_step is None else self._elapsed(times)
        values, mask = self._convert(x, elapsed, size)
        return values, mask, None if elapsed is None else elapsed.float()

    def _elapsed(self, times: Tensor) -> Tensor:
        return (times - times[:, :1]) / (self.time_step or 1.0)

    def transform(self, series: SeriesSource) -> Panel:
        """Convert series to a panel in memory."""
        return cast(Panel, self.panel(series, kept=True))

    def panel(self, series: SeriesSource, *, kept: bool | None = None) -> AnyPanel:
        """Convert series to a panel, `kept` in memory or read in batches, by default by size."""
        if self.time_step is not None and (interval := _interval(series)) is not None:
            factor = interval / self.time_step
            if not 1 / _OTHER_UNIT < factor < _OTHER_UNIT:
                ratio = f"{factor:.3g} times the training interval; check the unit"
                warn_caller(f"the median interval between the times of X is {ratio}")
        gaps = series.gaps
        if self.symbolic or gaps is not None:
            self._warn_of_unseen(series)
        masked = gaps is not None and bool((gaps.empty if self.symbolic else gaps.late).any())
        of_step = 4 * self.n_inputs + masked + 4 * (series.clock is not None)
        n_bytes = len(series) * series.n_steps * of_step
        lengths, n_flags = torch.from_numpy(series.lengths), len(self.gap_channels)
        stored = StoredPanel(series, self, lengths, n_bytes, masked, self.symbolic, n_flags)
        return stored.kept() if kept or (kept is None and n_bytes <= _KEPT) else stored

    def describe(self) -> dict[str, Any]:
        """Return what `state_dict` does not hold, ready for JSON."""
        return {"scaling": None, "flagged": [], "time_step": self.time_step}

    @staticmethod
    def restore(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Preprocessor:
        """Make a fitted preprocessor from what `describe` and `state_dict` returned."""
        fields = read_fields(
            described,
            scaling=Annotated[str | None, one_of(*SCALINGS)],
            flagged=list[bool],
            time_step=Positive | None,
        )
        made: Preprocessor
        if any(name.startswith(Vocabulary.prefix) for name in tensors):
            made = Vocabulary()
        else:
            options = {"gap_flag": Finite | None, "views": str, "view_params": dict[str, Any]}
            made = Scaler(fields["scaling"], **read_fields(described, **options))
            made.n_channels = len(fields["flagged"])
            flagged = torch.tensor(fields["flagged"], dtype=torch.bool)
            made.gap_channels = (flagged & (made.gap_flag is not None)).nonzero()[:, 0]
        buffers = {name.removeprefix(made.prefix): tensor for name, tensor in tensors.items()}
        if buffers.keys() != (names := made.state_dict().keys()):
            raise ValueError(f"expected the tensors {sorted(names)}; got {sorted(buffers)[:5]}")
        for name, tensor in buffers.items():
            shape = (len(tensor) or 1,) if made.symbolic and tensor.dim() else (made.n_channels,)
            dtype = torch.int64 if made.symbolic else torch.float64
            right = tensor.shape == shape and tensor.dtype == dtype
            if right and (made.symbolic or name.endswith(("std", "floor"))):
                right = not bool(((tensor.diff() if made.symbolic else tensor) <= 0).any())
            if not right:
                kinds = f"{dtype}, {shape}, deviations > 0; got {tensor.dtype}, {tensor.shape}"
                raise ValueError(f"tensor {made.prefix}{name} must be {kinds}")
            module, _, buffer = name.rpartition(".")
            setattr(made.get_submodule(module), buffer, tensor)
        made.time_step = fields["time_step"]
        return made


class Scaler(Preprocessor):
    """Standardise values, fill gaps linearly in time and flag them.

    Steps before the first value are masked. Each channel with gaps in training gets a flag after
    all others, `gap_flag` where a value is missing. A constant channel has an infinite `std`.
    """

    prefix = "scaler."
    mean: Tensor | None
    std: Tensor | None

    def __init__(
        self,
        scaling: str | None = "channel",
        *,
        gap_flag: float | None = GAP_FLAG,
        views: str = "values",
        view_params: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        check_known("scaling", scaling, SCALINGS)
        self.scaling = scaling
        self.gap_flag = gap_flag
        self.views = views
        names = views_in(views)
        self.difference = make_difference(view_params) if "difference" in names else None
        self._with_values = "values" in names
        self.size = Size() if scaling == "series+size" else None
        self.n_channels = 0
        learned = torch.ones(0, dtype=torch.float64) if scaling == "channel" else None
        self.register_buffer("mean", learned)
        self.register_buffer("std", learned)
        # `describe` has it, as `flagged`.
        self.register_buffer("gap_channels", torch.zeros(0, dtype=torch.long), persistent=False)

    @property
    def n_inputs(self) -> int:  # type: ignore[override]
        """Number of channels, with all views and flags."""
        n_views = self._with_values + (self.difference is not None) + 2 * (self.size is not None)
        return n_views * self.n_channels + len(self.gap_channels)

    def fit(self, series: SeriesSource) -> Self:
        self.time_step = None if series.clock is None else _interval(series) or 1.0
        self.n_channels = series.n_channels
        gaps = None if self.gap_flag is None else series.gaps
        with_gaps = () if gaps is None else np.flatnonzero(gaps.missing.any(axis=0))
        self.gap_channels = torch.as_tensor(with_gaps, dtype=torch.long)
        if self.scaling == "channel" or self.scaling is None:
            summary: Moments | None = None
            for x, observed in self._over(series, lambda x, _: (x, ~x.isnan())):
                summary = merged(summary, x, observed)
            assert summary is not None
            std = summary.deviation(torch.inf)
            largest = summary.low.abs().maximum(summary.high.abs())
            if self.scaling is not None:
                self.mean, self.std = summary.mean, std
            elif self._with_values and ((largest > 0) & (largest < _LEAST_UNSCALED)).any():
                raise ValueError("scaling=None: X is too small for float32; use scaling='channel'")
        if self.size is not None:
            self.size.fit(self._over(series, lambda x, _: _size_of(x)))
        if self.difference is not None:
            self.difference.fit(self._over(series, self._scaled_and_magnitude))
        return self

    def _convert(
        self, x: Tensor, elapsed: Tensor | None, size: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        observed = ~x.isnan()
        size = self.size_of(x) if size is None and self.size is not None else size
        mean, std = self.moments(x, observed)
        x = (x - mean) / std
        views = [] if self.difference is None else [self.difference(x, elapsed)]
        scaled_views = () if torch.compiler.is_compiling() else enumerate((x, *views))
        for number, scaled in scaled_views:
            too_large = scaled.abs() > torch.finfo(torch.float32).max
            if bool(too_large.any()):
                case, step, channel = too_large.nonzero()[0].tolist()
                name = "a difference of X" if number else "X"
                position = f"at series {{case}}, channel {channel}, step {step}"
                problem = f"{name} is too large for float32 after scaling, {position}"
                raise SeriesError(case, problem)
        any_observed = observed.any(dim=-1)
        count = any_observed.long().cumsum(dim=1)
        mask = (count > 0) & ((count < count[:, -1:]) | any_observed)  # from first to last
        missing = mask[..., None] & ~observed
        # Interpolation is slow and most data have no gaps; but a traced program needs it.
        if torch.compiler.is_compiling() or bool(missing.any()):
            x = _interpolated(x, observed, elapsed)
        x = x.where(mask[..., None], 0.0)
        views = [x, *views] if self._with_values else views
        if size is not None:
            views.append(size.where(mask[..., None], 0.0))
        if self.gap_flag is not None and len(self.gap_channels):
            views.append(self.gap_flag * missing.index_select(-1, self.gap_channels))
        return torch.cat([view.float() for view in views], dim=-1), mask

    def _scaled_and_magnitude(
        self, x: Tensor, elapsed: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return scaled values, magnitudes before centring, and times."""
        mean, std = self.moments(x, ~x.isnan())
        scaled = (x - mean) / std
        return scaled, scaled.abs() + mean.abs() / std, elapsed

    def moments(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and deviation, ``[C]`` or ``[B, 1, C]``, that scale ``x [B, L, C]``."""
        if self.mean is not None and self.std is not None:
            return self.mean, self.std
        if self.scaling is not None and self.scaling.startswith("series"):
            summary = summarise(x, observed, dim=(1,))
            # Infinite for a constant: its rounding errors become 0.
            return summary.mean, summary.deviation(torch.inf)
        return x.new_zeros(self.n_channels), x.new_ones(self.n_channels)

    def without_scaling(self) -> Scaler:
        """Return the preprocessing after scaling; `forward` then takes sizes."""
        rest = deepcopy(self)
        rest.scaling = None
        rest.mean = rest.std = rest.size = None
        return rest

    def size_of(self, x: Tensor) -> Tensor | None:
        """Return the sizes ``[B, 1, 2 C]`` for ``scaling="series+size"``, else None."""
        return None if self.size is None else self.size(*_size_of(x))

    def _warn_of_unseen(self, series: SeriesSource) -> None:
        gaps = series.gaps
        if gaps is None or self.gap_flag is None:
            return  # without a flag a gap is filled and means nothing
        missing = np.flatnonzero(gaps.missing.any(axis=0))
        if len(new := np.setdiff1d(missing, self.gap_channels.numpy())):
            where = f"in channels {new[:10].tolist()}, where the training data had none"
            warn_caller(f"X has missing values {where}: they are interpolated")

    def describe(self) -> dict[str, Any]:
        return super().describe() | {
            "scaling": self.scaling,
            "flagged": np.isin(range(self.n_channels), self.gap_channels.numpy()).tolist(),
            "gap_flag": self.gap_flag,
            "views": self.views,
            "view_params": {} if self.difference is None else {"scale": self.difference.scale},
        }


class Vocabulary(Preprocessor):
    """Number codes from 1; 0 is an unseen code. Missing codes are masked."""

    prefix = "codes."
    symbolic = True
    n_channels = 1
    known: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.gap_channels = torch.zeros(0, dtype=torch.long)
        self.register_buffer("known", self.gap_channels)

    def fit(self, series: SeriesSource) -> Self:
        self.time_step = None if series.clock is None else _interval(series) or 1.0
        self.known = self._codes(series)
        return self

    def _codes(self, series: SeriesSource) -> Tensor:
        """Return the codes of series, in ascending order."""

        def codes(x: Tensor, _: Tensor | None) -> Tensor:
            _check_codes(x)
            return x[~x.isnan()].unique().long()

        return torch.cat(list(self._over(series, codes))).unique()

    def _convert(
        self, x: Tensor, elapsed: Tensor | None, size: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        if not torch.compiler.is_compiling():
            _check_codes(x)
        observed = ~x[..., 0].isnan()
        codes = x[..., 0].where(observed, 0.0).contiguous()
        known = self.known.double()
        index = torch.searchsorted(known, codes).clamp(max=len(self.known) - 1)
        numbers = (index + 1) * (known[index] == codes) * observed
        return numbers.float()[..., None], observed

    def _warn_of_unseen(self, series: SeriesSource) -> None:
        codes = self._codes(series)
        if new := codes[~torch.isin(codes, self.known)].tolist():
            number = f"{len(new)} distinct codes that are not in the training data"
            warn_caller(f"X has {number}, all read as one unknown code, such as {new[:10]}")


class Difference(nn.Module):
    """The first difference of each channel, in units of its standard deviation.

    ``d[t] = scale (x[t] - x[t-1]) / (std dt)``, with `std` over the training series and `dt` in
    median steps; 0 without two values at different times. The first value takes the second's.
    """

    std: Tensor

    def __init__(self, scale: float = 0.25):
        super().__init__()
        check_number("scale of the difference", scale, 0, excluded=True)
        self.scale = scale
        self.register_buffer("std", torch.ones(0, dtype=torch.float64))

    def fit(self, parts: Iterable[tuple[Tensor, Tensor, Tensor | None]]) -> None:
        """Learn `std` part by part."""
        summary: Moments | None = None
        rounding = torch.zeros(1, dtype=torch.float64)
        for x, magnitude, elapsed in parts:
            difference, error = x - _before(x), magnitude + _before(magnitude)
            if elapsed is not None:
                difference, passed = _over_time(difference, elapsed), elapsed[..., None]
                error = _over_time(error, elapsed)
                error = error + difference.abs() * _over_time(passed + _before(passed), elapsed)
            known = ~difference.isnan()
            summary = merged(summary, difference, known)
            rounding = rounding.maximum(error.where(known, 0.0).amax(dim=(0, 1)))
        assert summary is not None
        std = summary.std
        self.std = std.where(std > ROUNDING * rounding, 1.0)

    def forward(self, x: Tensor, elapsed: Tensor | None = None) -> Tensor:
        """Return the differences of ``x [B, L, C]``, 0 if undefined."""
        difference = x - _before(x)
        if elapsed is not None:
            difference = _over_time(difference, elapsed)
        # The first observed value has no predecessor in all its series: it takes the next one's.
        count = (~x.isnan()).long().cumsum(dim=1)
        first = (count == 1) & ~x.isnan()
        following = torch.cat([difference[:, 1:], difference[:, -1:]], dim=1)
        difference = following.where(first, difference)
        return difference.nan_to_num(0.0) * (self.scale / self.std)


class Size(nn.Module):
    """The size and the level of each channel of a series, on scales for several decades.

    ``size = log(std)`` and ``level = asinh((mean - c) / u)``, with the geometric mean `u` of the
    deviations in training and the median `c` of the means, or 0 if these have one sign and span a
    factor of ten. Both are standardised and cut at five deviations. A constant channel has the size
    of `floor`, the least deviation in training.
    """

    floor: Tensor
    mean: Tensor
    std: Tensor
    center: Tensor
    level_mean: Tensor
    level_std: Tensor

    def __init__(self) -> None:
        super().__init__()
        for name in ("floor", "mean", "std", "center", "level_mean", "level_std"):
            self.register_buffer(name, torch.ones(0, dtype=torch.float64))

    def fit(self, parts: Iterable[tuple[Tensor, Tensor]]) -> None:
        """Learn from the arguments of `forward` for part after part of the training series."""
        means, deviations = (torch.cat(chunks)[:, 0] for chunks in zip(*parts, strict=True))
        lowest = deviations.where(deviations > 0, torch.inf).amin(dim=0)
        level = means.abs().amax(dim=0)  # the unit of a channel whose series are all constant
        self.floor = lowest.where(lowest.isfinite(), level.where(level > 0, 1.0))
        logs = deviations.maximum(self.floor).log()
        self.mean, self.std = logs.mean(dim=0), _positive(logs)
        one_sign = (means.amin(dim=0) > 0) | (means.amax(dim=0) < 0)
        wide = one_sign & (level > _WIDE * means.abs().amin(dim=0))
        self.center = means.median(dim=0).values.where(~wide, 0.0)
        levels = _asinh((means - self.center) / self.mean.exp())
        self.level_mean, self.level_std = levels.mean(dim=0), _positive(levels)

    def forward(self, mean: Tensor, std: Tensor) -> Tensor:
        """Return sizes, then levels ``[B, 1, 2 C]``, of means and deviations ``[B, 1, C]``."""
        size = (std.maximum(self.floor).log() - self.mean) / self.std
        level = (_asinh((mean - self.center) / self.mean.exp()) - self.level_mean) / self.level_std
        return torch.cat([size, level], dim=-1).clamp(-_MOST_DEVIATIONS, _MOST_DEVIATIONS)


def views_in(views: str) -> tuple[str, ...]:
    """Return the parts of a sum of views, such as ``"values+difference"``."""
    if not isinstance(views, str):
        raise TypeError(f"views must be a name or a sum of names; got {views!r}")
    names = tuple(name.strip() for name in views.split("+"))
    for name in names:
        check_known("view", name, VIEWS)
        if names.count(name) > 1:
            raise ValueError(f"views={views!r} names {name!r} twice")
    return names


def make_difference(params: Mapping[str, Any] | None) -> Difference:
    """Return a Difference with these options, or raise ValueError with the nearest match."""
    check_options("the difference", ["scale"], params or {})
    return Difference(**(params or {}))


class Moments(NamedTuple):
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

    def deviation(self, of_constant: float) -> Tensor:
        """Return `std`, except of values equal to rounding; ValueError if it overflows float64."""
        std = self.std
        if torch.compiler.is_compiling() or bool(std.isfinite().all()):
            return std.where(self.high - self.low > ROUNDING * self.high.abs(), of_constant)
        ends = f"{float(self.low.min()):.3g} to {float(self.high.max()):.3g}"
        raise ValueError(f"the spread of X, {ends}, overflows float64; divide X by a constant")


def summarise(x: Tensor, known: Tensor, dim: tuple[int, ...]) -> Moments:
    """Return the moments of known values over some dimensions, which stay with size 1."""
    # In [0, 1] no square overflows, an offset costs no digits, and a power of two is exact.
    count = known.sum(dim=dim, keepdim=True)
    low = x.where(known, torch.inf).amin(dim=dim, keepdim=True).where(count > 0, 0.0)
    high = x.where(known, -torch.inf).amax(dim=dim, keepdim=True).where(count > 0, 0.0)
    unit = (high - low).where(high > low, 1.0)
    shares = ((x - low) / unit).where(known, 0.0)
    mean = shares.sum(dim=dim, keepdim=True) / count.clamp(min=1)
    squares = (shares - mean).where(known, 0.0).square().sum(dim=dim, keepdim=True)
    return Moments(count, low + unit * mean, unit * squares.sqrt(), low, high)


def merged(past: Moments | None, x: Tensor, known: Tensor) -> Moments:
    """Add the `known` of the values ``[n, L, C]`` to the summary of each channel.

    Chan, Golub and LeVeque (The American Statistician 37, 1983): as exact as a second pass.
    """
    new = Moments(*(t[0, 0] for t in summarise(x, known, dim=(0, 1))))
    if past is None:
        return new
    total = past.n_known + new.n_known
    share = new.n_known / total.clamp(min=1).double()
    apart = new.mean - past.mean
    between = apart.abs() * (past.n_known * share).sqrt()
    low = new.low.minimum(past.low.where(past.n_known > 0, torch.inf))
    high = new.high.maximum(past.high.where(past.n_known > 0, -torch.inf))
    return Moments(
        total,
        past.mean + apart * share,
        past.norm.hypot(new.norm).hypot(between),
        low.where(new.n_known > 0, past.low),
        high.where(new.n_known > 0, past.high),
    )


def _before(x: Tensor) -> Tensor:
    """Shift series by a step; NaN at the first."""
    return torch.cat([torch.full_like(x[:, :1], float("nan")), x[:, :-1]], dim=1)


def _over_time(x: Tensor, elapsed: Tensor) -> Tensor:
    """Divide by the time since the step before; NaN where none has passed."""
    step = torch.cat([torch.zeros_like(elapsed[:, :1]), elapsed[:, 1:] - elapsed[:, :-1]], dim=1)
    forward = (step > 0)[..., None]
    # Dividing by NaN would make the gradient NaN, also where it is multiplied by 0 afterwards.
    return (x / step[..., None].where(forward, 1.0)).where(forward, float("nan"))


def _asinh(x: Tensor) -> Tensor:
    """Return the area hyperbolic sine, which ONNX Runtime does not have for float64."""
    unit = x.abs().clamp(min=1.0)  # no square overflows
    root = ((x / unit).square() + unit.reciprocal().square()).sqrt()
    return x.sign() * (unit.log() + (x.abs() / unit + root).log())


def _positive(x: Tensor) -> Tensor:
    """Return deviations over series, 1 where rounding errors are all there is."""
    std = x.std(dim=0, correction=0)
    return std.where(std > 1e-12 * (1 + x.abs().amax(dim=0)), 1.0)


def _interpolated(x: Tensor, observed: Tensor, elapsed: Tensor | None) -> Tensor:
    """Interpolate linearly, with constant ends; a channel without any value becomes 0."""
    n_steps = x.shape[1]
    step = torch.arange(n_steps, device=x.device)[:, None].expand(x.shape)
    count = observed.long().cumsum(dim=1)
    # table[k] is the step of the k-th observed value: ONNX has no running maximum.
    index = count.where(observed, n_steps + 1)
    table = torch.zeros_like(x[:, :1], dtype=torch.long).expand(-1, n_steps + 2, -1)
    table = table.scatter(1, index, step)
    first, last = count == 0, (count == count[:, -1:]) & ~observed
    before = table.gather(1, count)
    after = table.gather(1, count + (~observed & ~last).long())
    left, right = after.where(first, before), before.where(last, after)
    t = step.to(x.dtype) if elapsed is None else elapsed[..., None].expand(x.shape)
    start = t.gather(1, left)
    span = t.gather(1, right) - start
    share = (t - start).where(span > 0, 0.0) / span.where(span > 0, 1.0)
    # A weighted sum: left + share * (right - left) would round at the observed ends.
    filled = x.gather(1, left) * (1 - share) + x.gather(1, right) * share
    return x.where(observed, filled).where(count[:, -1:] > 0, 0.0)


def _size_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation of each channel of each series; 0 for a constant."""
    summary = summarise(x, ~x.isnan(), dim=(1,))
    return summary.mean, summary.deviation(0.0)


def _check_codes(x: Tensor) -> None:
    if x.shape[2] != 1:
        raise ValueError(f"stem='embedding' needs one channel of codes; X has {x.shape[2]}")
    # Beyond 2^53 float64 skips integers. NaN, a missing code, passes both comparisons.
    wrong = ((x.round() != x) & ~x.isnan()) | (x.abs() > 2**53)
    if bool(wrong.any()):
        case, step, _ = wrong.nonzero()[0].tolist()
        code = f"{float(x[case, step, 0]):g} at series {{case}}, step {step}"
        problem = f"stem='embedding' needs codes that are integers; got {code}"
        raise SeriesError(case, f"{problem}: measurements need another stem")


def _interval(series: SeriesSource) -> float | None:
    """Return the median nonzero interval between steps, if any."""
    apart = np.zeros(0) if series.clock is None else series.intervals()
    return float(np.median(apart[apart > 0])) if (apart > 0).any() else None
