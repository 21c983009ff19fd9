"""Preprocessor: everything that happens to values before they reach a model.

`fit`, `predict`, saving and both exports share one implementation: a fitted preprocessor is a torch
module, which export traces and whose `state_dict` is saved. Shape letters: `B` series, `L` time
steps, `C` channels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from tsformer._checks import unknown
from tsformer._warnings import warn_caller
from tsformer.data.panel import AnyPanel, Panel, StoredPanel
from tsformer.data.series import Gaps, Padded, SeriesError, SeriesSource, numbered
from tsformer.data.views import Moments, Size, Summary, make_difference, summarise, views_in

SCALINGS = ("channel", "series", "series+size", None)
#: Flags a missing value, next to values of magnitude 1. Larger flags cost accuracy where gaps carry
#: no information; see experiments/results/missing_values.csv.
GAP_FLAG = -0.1
#: Most bytes of preprocessed series that are kept in memory; more are preprocessed batch by batch.
_KEPT = 2**26
#: Without scaling, float32 keeps the digits of channels whose largest magnitude is this...
_LEAST_UNSCALED = 2.0**-102
#: ... and models, whose weights start near 1, learn slowly if it is outside this range.
_USUAL_UNSCALED = 2.0**-7, 2.0**12
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

    def __init__(self) -> None:
        super().__init__()
        self.time_step: float | None = None

    @property
    def n_inputs(self) -> int:
        """Channels that the model reads."""
        raise NotImplementedError

    @property
    def n_flags(self) -> int:
        """Number of inputs, the last channels, that flag missing values."""
        return 0

    def stem_params(self) -> dict[str, int]:
        """Return the stem options that depend on the training series."""
        return {}

    def fit(self, series: SeriesSource) -> Self:
        """Learn what `transform` needs, from one part of the series after another."""
        self.time_step = None if series.clock is None else _interval(series) or 1.0
        self._learn(series)
        return self

    def _learn(self, series: SeriesSource) -> None:
        raise NotImplementedError

    def _over(
        self, series: SeriesSource, function: Callable[[Tensor, Tensor | None], _Result]
    ) -> Iterator[_Result]:
        """Yield a function of values ``[m, L, C]`` and times, for each part."""
        for index in series.parts():
            part = series.read(index)
            elapsed = None if part.times is None else self._elapsed(torch.from_numpy(part.times))
            with numbered(index):
                result = function(torch.from_numpy(part.values), elapsed)
            yield result

    def forward(
        self, x: Tensor, times: Tensor | None = None, size: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Preprocess series ``x [B, L, C]`` of float64, NaN where a value is missing.

        `times` ``[B, L]`` are ignored past the end of a series; `size` ``[B, 1, 2 C]`` replaces the
        channels that ``scaling="series+size"`` adds. Returns values ``[B, L, n_inputs]``, float32
        and zero where masked; the mask ``[B, L]``; and times ``[B, L]`` in units of `time_step`, or
        None.
        """
        elapsed = None if times is None or self.time_step is None else self._elapsed(times)
        values, mask = self._convert(x, elapsed, size)
        return values, mask, None if elapsed is None else elapsed.float()

    def _elapsed(self, times: Tensor) -> Tensor:
        return (times - times[:, :1]) / (self.time_step or 1.0)

    def _convert(
        self, x: Tensor, elapsed: Tensor | None, size: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return the values and the mask of `forward`."""
        raise NotImplementedError

    @torch.no_grad()
    def transform(self, series: SeriesSource) -> Panel:
        """Convert series to a panel; warn about gaps or codes that training did not have."""
        self._warn_of_unit(series)
        self._warn_of_unseen(series)
        return self._stored(series).kept()

    @torch.no_grad()
    def panel(self, series: SeriesSource) -> AnyPanel:
        """Convert series to a panel; beyond 64 MiB, batch by batch."""
        self._warn_of_unit(series)
        self._warn_of_unseen(series)
        stored = self._stored(series)
        return stored if stored.n_bytes > _KEPT else stored.kept()

    def _stored(self, series: SeriesSource) -> StoredPanel:
        return StoredPanel(
            series,
            self._batch,
            n_inputs=self.n_inputs,
            masked=series.gaps is not None and self._masks(series.gaps),
            timed=series.clock is not None,
            symbolic=self.symbolic,
            n_flags=self.n_flags,
        )

    def _batch(self, series: Padded) -> tuple[Tensor, Tensor, Tensor | None]:
        times = None if series.times is None else torch.from_numpy(series.times)
        return self(torch.from_numpy(series.values), times)

    def _masks(self, gaps: Gaps) -> bool:
        """Whether `forward` masks any step that is not past the end of a series."""
        return bool(gaps.empty.any())

    def _warn_of_unit(self, series: SeriesSource) -> None:
        """Warn of times that are probably in another unit than those of training."""
        interval = _interval(series)
        if interval is None or self.time_step is None:
            return
        factor = interval / self.time_step
        if not 1 / _OTHER_UNIT < factor < _OTHER_UNIT:
            warn_caller(
                f"the median interval between the times of X is {factor:.3g} times that of the "
                "training series; check the unit of the times"
            )

    def _warn_of_unseen(self, series: SeriesSource) -> None:
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """Return what `state_dict` does not hold, ready for JSON."""
        return {"scaling": None, "flagged": [], "time_step": self.time_step}

    @staticmethod
    def restore(described: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Preprocessor:
        """Make a fitted preprocessor from what `describe` and `state_dict` returned."""
        made: Preprocessor
        if any(name.startswith(Vocabulary.prefix) for name in tensors):
            made = Vocabulary()
        else:
            made = Scaler(
                described["scaling"],
                **{name: described[name] for name in ("gap_flag", "views", "view_params")},
            )
            made.n_channels = len(described["flagged"])
            made.gap_channels = torch.tensor(described["flagged"], dtype=torch.bool).nonzero()[:, 0]
        own = {name.removeprefix(made.prefix): tensor for name, tensor in tensors.items()}
        made._check_learned(own)
        for name, tensor in own.items():
            module, _, buffer = name.rpartition(".")
            setattr(made.get_submodule(module), buffer, tensor)
        made.time_step = described["time_step"]
        return made

    def _check_learned(self, tensors: Mapping[str, Tensor]) -> None:
        """Raise ValueError if these are not what `fit` would have learned."""
        raise NotImplementedError


class Scaler(Preprocessor):
    """Standardise values, fill gaps and flag them.

    A gap is filled linearly in time, or with the nearest value at either end; a channel without
    any value in a series becomes 0. Each channel with gaps in training gets a flag channel after
    all others: `gap_flag` where a value is missing, else 0; none if `gap_flag` is None. Steps
    before the first value are masked.

    `mean` and `std` ``[C]`` are learned with "channel"; `std` is infinite for a channel that is
    constant up to rounding. `gap_channels` are the channels with gaps in training.
    """

    prefix = "scaler."
    mean: Tensor | None
    std: Tensor | None
    gap_channels: Tensor

    def __init__(
        self,
        scaling: str | None = "channel",
        *,
        gap_flag: float | None = GAP_FLAG,
        views: str = "values",
        view_params: Mapping[str, Any] | None = None,
    ):
        super().__init__()
        if scaling not in SCALINGS:
            raise ValueError(unknown("scaling", scaling, SCALINGS))
        self.scaling = scaling
        self.gap_flag = gap_flag
        self.views = views
        parts = views_in(views)
        self.difference = make_difference(view_params) if "difference" in parts else None
        self._with_values = "values" in parts
        self.size = Size() if scaling == "series+size" else None
        self.n_channels = 0
        self.register_buffer("mean", None)
        self.register_buffer("std", None)
        # `describe` has it, as `flagged`.
        self.register_buffer("gap_channels", torch.zeros(0, dtype=torch.long), persistent=False)

    @property
    def n_inputs(self) -> int:
        """Number of channels, with all views and flags."""
        n_views = self._with_values + (self.difference is not None) + 2 * (self.size is not None)
        return n_views * self.n_channels + self.n_flags

    @property
    def n_flags(self) -> int:
        return 0 if self.gap_flag is None else len(self.gap_channels)

    @property
    def flagged(self) -> Tensor:
        """Which channels have missing values in training, Tensor ``[C]`` of bool."""
        flagged = torch.zeros(self.n_channels, dtype=torch.bool)
        flagged[self.gap_channels] = True
        return flagged

    def fit(self, series: SeriesSource) -> Self:
        """Learn means, deviations, channels with gaps, and the time unit."""
        self.n_channels = series.n_channels
        gaps = series.gaps
        self.gap_channels = torch.zeros(0, dtype=torch.long)
        if gaps is not None:
            self.gap_channels = torch.from_numpy(np.flatnonzero(gaps.missing.any(axis=0)))
        return super().fit(series)

    def _learn(self, series: SeriesSource) -> None:
        if self.scaling == "channel" or self.scaling is None:
            moments = Moments()
            for x, observed in self._over(series, lambda x, _: (x, ~x.isnan())):
                moments.add(x, observed)
            summary = moments.summary
            _refuse_overflow(summary)
            if self.scaling is not None:
                self.mean, self.std = summary.mean, _divisor(summary)
            elif self._with_values:
                _check_unscaled(summary)
        if self.size is not None:
            self.size.fit(self._over(series, lambda x, _: _size_of(x)))
        if self.difference is not None:
            self.difference.fit(self._over(series, self._scaled_and_magnitude))

    def _masks(self, gaps: Gaps) -> bool:
        return bool(gaps.late.any())

    def _convert(
        self, x: Tensor, elapsed: Tensor | None, size: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        observed = ~x.isnan()
        size = self.size_of(x) if size is None else size
        mean, std = self.moments(x, observed)
        x = (x - mean) / std
        _refuse_too_large(x, "X")
        views = []
        if self.difference is not None:
            views = [self.difference(x, elapsed)]
            _refuse_too_large(views[0], "a difference of X")
        mask = _from_first_to_last(observed.any(dim=-1))
        missing = mask[..., None] & ~observed
        # Interpolation is slow and most data have no gaps; but a traced program needs it.
        if torch.compiler.is_compiling() or bool(missing.any()):
            x = _interpolated(x, observed, elapsed)
        x = x.where(mask[..., None], 0.0)
        views = [x, *views] if self._with_values else views
        if size is not None:
            views.append(size.where(mask[..., None], 0.0))
        if self.gap_flag is not None and self.n_flags:
            views.append(self.gap_flag * missing.index_select(-1, self.gap_channels))
        return torch.cat([view.float() for view in views], dim=-1), mask

    def _check_learned(self, tensors: Mapping[str, Tensor]) -> None:
        names = {"mean", "std"} if self.scaling == "channel" else set()
        names |= set() if self.difference is None else {"difference.std"}
        names |= set() if self.size is None else {f"size.{name}" for name in self.size.state_dict()}
        if set(tensors) != names:
            raise ValueError(
                f"the tensors of a scaler with these options are {sorted(names)}; got "
                f"{sorted(tensors)[:5]}"
            )
        for name, tensor in tensors.items():
            if tensor.shape != (self.n_channels,) or tensor.dtype != torch.float64:
                raise ValueError(
                    f"tensor {self.prefix}{name} must have a float64 for each of the "
                    f"{self.n_channels} channels; got {tuple(tensor.shape)} of {tensor.dtype}"
                )
            if name.endswith(("std", "floor")) and not bool((tensor > 0).all()):
                raise ValueError(f"tensor {self.prefix}{name} must be positive")

    def _scaled_and_magnitude(
        self, x: Tensor, elapsed: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return scaled values, magnitudes before centring, and times."""
        mean, std = self.moments(x, ~x.isnan())
        scaled = (x - mean) / std
        _refuse_too_large(scaled, "X")
        return scaled, scaled.abs() + mean.abs() / std, elapsed

    def moments(self, x: Tensor, observed: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and deviation, ``[C]`` or ``[B, 1, C]``, that scale ``x [B, L, C]``."""
        if self.mean is not None and self.std is not None:
            return self.mean, self.std
        if self.scaling is not None and self.scaling.startswith("series"):
            summary = summarise(x, observed, dim=(1,))
            _refuse_overflow(summary)
            return summary.mean, _divisor(summary)
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
        missing = torch.from_numpy(gaps.missing.any(axis=0))
        new = (missing & ~self.flagged).nonzero()[:, 0]
        if len(new):
            warn_caller(
                f"X has missing values in channels {new[:10].tolist()}, where the training data "
                "had none: they are interpolated, but the model never saw gaps in these "
                "channels"
            )

    def describe(self) -> dict[str, Any]:
        return super().describe() | {
            "scaling": self.scaling,
            "flagged": self.flagged.tolist(),
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
        self.register_buffer("known", torch.zeros(0, dtype=torch.long))

    @property
    def n_codes(self) -> int:
        """Number of known codes."""
        return len(self.known)

    @property
    def n_inputs(self) -> int:
        """One channel, the code numbers."""
        return 1

    def stem_params(self) -> dict[str, int]:
        """Return the number of codes, for the stem's embedding table."""
        return {"n_codes": self.n_codes}

    def _learn(self, series: SeriesSource) -> None:
        self.known = self._codes(series)

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
        place = torch.searchsorted(known, codes).clamp(max=self.n_codes - 1)
        rows = (place + 1) * (known[place] == codes) * observed
        return rows.float()[..., None], observed

    def _check_learned(self, tensors: Mapping[str, Tensor]) -> None:
        known = tensors.get("known")
        if set(tensors) != {"known"} or known is None or known.dtype != torch.int64:
            raise ValueError(
                f"codes must be one tensor, known, of int64; got {sorted(tensors)[:5]}"
            )
        if known.dim() != 1 or not len(known) or not bool((known.diff() > 0).all()):
            raise ValueError("tensor codes.known must be distinct codes, ascending")

    def _warn_of_unseen(self, series: SeriesSource) -> None:
        codes = self._codes(series)
        new = codes[~torch.isin(codes, self.known)].tolist()
        if new:
            few = ", ".join(map(str, new[:10])) + (", ..." if len(new) > 10 else "")
            warn_caller(
                f"X has codes that are not in the training data ({len(new)} distinct), all read as "
                f"one unknown code: {few}"
            )


def _from_first_to_last(observed: Tensor) -> Tensor:
    """Return ``[B, L]``, True from the first to the last step with a value."""
    count = observed.long().cumsum(dim=1)
    return (count > 0) & ((count < count[:, -1:]) | observed)


def _interpolated(x: Tensor, observed: Tensor, elapsed: Tensor | None) -> Tensor:
    """Interpolate linearly, with constant ends; a channel without any value becomes 0."""
    n_steps = x.shape[1]
    step = torch.arange(n_steps, device=x.device)[:, None].expand(x.shape)
    count = observed.long().cumsum(dim=1)
    # table[k] is the step of the k-th observed value: ONNX has no running maximum.
    place = count.where(observed, n_steps + 1)
    table = torch.zeros_like(x[:, :1], dtype=torch.long).expand(-1, n_steps + 2, -1)
    table = table.scatter(1, place, step)
    first, last = count == 0, (count == count[:, -1:]) & ~observed
    before = table.gather(1, count)
    after = table.gather(1, count + (~observed & ~last).long())
    left, right = after.where(first, before), before.where(last, after)
    t = step.to(x.dtype) if elapsed is None else elapsed[..., None].expand(x.shape)
    start = t.gather(1, left)
    span = t.gather(1, right) - start
    part = (t - start).where(span > 0, 0.0) / span.where(span > 0, 1.0)
    # A weighted sum: left + part * (right - left) would round at the observed ends.
    filled = x.gather(1, left) * (1 - part) + x.gather(1, right) * part
    return x.where(observed, filled).where(count[:, -1:] > 0, 0.0)


def _size_of(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and deviation of each channel of each series; 0 for a constant."""
    summary = summarise(x, ~x.isnan(), dim=(1,))
    _refuse_overflow(summary)
    return summary.mean, summary.std.where(~summary.constant, 0.0)


def _divisor(summary: Summary) -> Tensor:
    """Return the deviation, infinite for a constant: its rounding errors become 0."""
    return summary.std.where(~summary.constant, torch.inf)


def _refuse_overflow(summary: Summary) -> None:
    """Raise ValueError if values are too far apart for float64."""
    if torch.compiler.is_compiling() or bool(summary.std.isfinite().all()):
        return
    raise ValueError(
        f"X has values from {float(summary.low.min()):.3g} to {float(summary.high.max()):.3g}, "
        "whose spread overflows float64; divide X by a constant first"
    )


def _check_unscaled(summary: Summary) -> None:
    """Refuse channels that float32 cannot hold; warn of magnitudes far from 1."""
    largest = summary.low.abs().maximum(summary.high.abs())
    low, high = _USUAL_UNSCALED
    lost = ((largest > 0) & (largest < _LEAST_UNSCALED)).nonzero()
    odd = ((largest > 0) & ((largest < low) | (largest > high))).nonzero()
    if not len(odd):
        return
    channel = int((lost if len(lost) else odd)[0])
    problem = (
        f"scaling=None: the largest magnitude in channel {channel} of X is "
        f"{float(largest[channel]):.3g}"
    )
    advice = "use scaling='channel', or multiply X by a constant"
    if len(lost):
        raise ValueError(f"{problem}, too small for float32; {advice}")
    warn_caller(f"{problem}, but models learn best from values near 1; {advice}", UserWarning)


def _refuse_too_large(x: Tensor, name: str) -> None:
    """Raise SeriesError for the first value that overflows float32."""
    if torch.compiler.is_compiling():
        return
    too_large = x.abs() > torch.finfo(torch.float32).max
    if bool(too_large.any()):
        case, step, channel = too_large.nonzero()[0].tolist()
        raise SeriesError(
            case,
            f"{name} is too large for float32 after scaling: {float(x[case, step, channel]):.3g} "
            f"at series {{case}}, channel {channel}, step {step}",
        )


def _check_codes(x: Tensor) -> None:
    if x.shape[2] != 1:
        raise ValueError(
            f"stem='embedding' needs one channel of codes; X has {x.shape[2]} channels"
        )
    # Beyond 2^53 float64 skips integers. NaN, a missing code, passes both comparisons.
    wrong = ((x.round() != x) & ~x.isnan()) | (x.abs() > 2**53)
    if bool(wrong.any()):
        case, step, _ = wrong.nonzero()[0].tolist()
        raise SeriesError(
            case,
            "stem='embedding' needs codes that are integers; got "
            f"{float(x[case, step, 0]):g} at series {{case}}, step {step}. For measurements use "
            "stem='conv' or 'linear', or discretise them first",
        )


def _interval(series: SeriesSource) -> float | None:
    """Return the median nonzero interval between steps, if any."""
    if series.clock is None:
        return None
    apart = series.intervals()
    apart = apart[apart > 0]
    return float(np.median(apart)) if len(apart) else None
