"""The logits of a model as a function of how far series are from a baseline.

All methods explain this function: gaps, padding, scaling and codes are read alike, and the baseline
is 0. Shape letters: `B` series, `L` time steps, `C` channels, `F` features of a step, `K` classes.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from tsformer._checks import check_known, shortened
from tsformer.data.preprocessor import Preprocessor, Scaler, Vocabulary
from tsformer.data.series import Padded
from tsformer.model import TSTransformer

#: The names that ``explain(baseline=...)`` accepts.
BASELINES = ("mean", "zero")
#: Steps per forward pass for each step of a token: fits into the cache of a CPU.
_STEPS = 2**12


def mean_falls(
    logits: Callable[[Tensor], Tensor],
    clock: Tensor,
    channel: Tensor,
    window: float,
    stride: float,
    *,
    at_once: int = 1,
) -> Tensor:
    """Return the mean fall ``[B, L, F]`` of a logit over the windows with each feature.

    `logits` maps hidden features ``[k, B, L, F]`` to logits ``[k, B]``; sizes are in median steps.
    """
    n_shifts = ceil(window / stride)
    falls = torch.zeros(*clock.shape, len(channel), dtype=torch.float64)
    whole = logits(torch.zeros(1, *falls.shape, dtype=torch.bool))
    for shift in range(n_shifts):
        number = window_numbers(clock, channel, window, shift * stride)
        for some in torch.arange(int(number.max()) + 1).split(at_once):
            hidden = number == some[:, None, None, None]
            falls += (hidden * (whole - logits(hidden))[..., None, None]).sum(dim=0)
    return falls / n_shifts


def window_numbers(clock: Tensor, channel: Tensor, window: float, shift: float) -> Tensor:
    """Return the number of each feature's window and channel, ``[B, L, F]``."""
    number = ((clock + shift) / window).floor().long()
    number = number[..., None] * (int(channel.max()) + 1) + channel
    return number.unique(return_inverse=True)[1]


def steps_since_start(values: Tensor, times: Tensor | None, time_step: float | None) -> Tensor:
    """Return the clock ``[B, L]`` of `mean_falls`; 0 past the end of a series."""
    B, L = values.shape[:2]
    within = (~values.isnan()).any(dim=-1).long().flip(1).cumsum(dim=1).flip(1) > 0
    steps = torch.arange(L, dtype=torch.float64).expand(B, L)
    if times is not None and time_step is not None:
        steps = (times - times[:, :1]) / time_step
    return steps.where(within, 0.0)


@dataclass(frozen=True)
class LogitsOfDifference:
    """The logits of one model, in eval mode, by the difference of series from a baseline."""

    model: TSTransformer
    preprocessor: Preprocessor
    temperature: float
    #: From features ``[B, L, F]``, `observed`, times and size to the logits of the model.
    function: Callable[..., Tensor]
    series: Tensor  # [B, L, C], NaN where a value is missing and past the end of a series
    difference: Tensor  # features [B, L, F] minus the baseline's, 0 where a value is missing
    baseline: Tensor
    times: Tensor | None
    channel: Tensor  # of each feature [F]
    size: Tensor | None = None  # [B, 1, 2 C] for ``scaling="series+size"``

    def take(self, rows: Tensor, length: int | None = None) -> Self:
        """Return some of the series, cut to `length` steps."""
        names = ("series", "difference", "baseline", "times", "size")
        fields: dict[str, Any] = {name: getattr(self, name) for name in names}
        for name, tensor in fields.items():
            fields[name] = None if tensor is None else tensor[rows, :length]
        return replace(self, **fields)

    @property
    def observed(self) -> Tensor:
        """True where the series has a value, ``[B, L, C]``."""
        return ~self.series.isnan()

    @property
    def context(self) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
        """Arguments besides the difference; captum repeats them per series."""
        return self.baseline, self.observed, self.times, self.size

    @property
    def clock(self) -> Tensor:
        """The clock ``[B, L]`` of `mean_falls`."""
        return steps_since_start(self.series, self.times, self.preprocessor.time_step)

    def __call__(self, difference: Tensor, baseline: Tensor, *context: Any) -> Tensor:
        """Compute logits ``[B, K]`` of float64 for differences from the baseline ``[B, L, F]``."""
        return self.function(baseline + difference, *context).cpu().double() / self.temperature

    def by_channel(self, features: Tensor, *, total: bool) -> Tensor:
        """Add up features ``[B, L, F]`` to channels ``[B, L, C]``, or average them."""
        channels = features.new_zeros(*features.shape[:2], self.observed.shape[-1])
        channels.index_add_(2, self.channel, features.to(channels.dtype))
        if not total:
            channels /= torch.bincount(self.channel, minlength=channels.shape[2])
        return channels.where(self.observed, 0.0)


def for_model(
    model: TSTransformer, preprocessed: tuple[Tensor, Tensor, Tensor | None]
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return the arguments of a model on its device."""
    values, mask, times = preprocessed
    device = next(model.parameters()).device
    times = None if times is None else times.to(device)
    return values.to(device), None if bool(mask.all()) else mask.to(device), times


def batch_steps(model: TSTransformer) -> int:
    """Return the number of padded steps of a forward pass."""
    return _STEPS * int(model.stem.stride)


def logits_from_baseline(
    model: TSTransformer,
    preprocessor: Preprocessor,
    series: Padded,
    baseline: Any,
    temperature: float,
) -> LogitsOfDifference:
    """Return the logits of a model in eval mode by the difference of series from a baseline.

    Features are the vectors of codes, or scaled values, with the mean, deviation and size of each
    series held fixed: otherwise scaling would undo fading to the baseline.
    """
    values = torch.from_numpy(series.values)
    times = None if series.times is None else torch.from_numpy(series.times)
    observed, size = ~values.isnan(), None
    function: Callable[..., Tensor]
    if isinstance(preprocessor, Vocabulary):
        embedding: Any = model.stem.embedding
        vectors: Tensor = embedding.weight.detach().cpu().double()

        def of_codes(codes: Tensor) -> Tensor:
            with torch.no_grad():
                return vectors[preprocessor(codes, times)[0][..., 0].long()]

        if (numbers := _numbers_of(baseline, values)) is not None:
            empty = of_codes(numbers)
        else:
            vector = vectors[1:].mean(dim=0) if baseline == "mean" else vectors[0]
            empty = vector.expand(*values.shape[:2], -1)
        features, channel = of_codes(values), torch.zeros(vectors.shape[1], dtype=torch.long)

        def function(features: Tensor, observed: Tensor, times: Tensor | None, _: Any) -> Tensor:
            # Which code stands where no longer matters: its vector is replaced by `features`.
            codes = torch.zeros_like(features[..., :1]).where(observed, torch.nan)
            replaced = features.float().to(embedding.weight.device)
            with embedding.register_forward_hook(lambda *_: replaced):
                return model(*for_model(model, preprocessor(codes, times)))
    else:
        assert isinstance(preprocessor, Scaler)
        mean, std = preprocessor.moments(values, observed)
        empty = (baseline_values(baseline, preprocessor, values) - mean) / std
        features, channel = (values - mean) / std, torch.arange(values.shape[2])
        rest, size = preprocessor.without_scaling(), preprocessor.size_of(values)

        def function(features: Tensor, observed: Tensor, *context: Any) -> Tensor:
            return model(*for_model(model, rest(features.where(observed, torch.nan), *context)))

    difference = (features - empty).where(observed, 0.0)
    return LogitsOfDifference(
        model, preprocessor, temperature, function, values, difference, empty, times, channel, size
    )


def baseline_values(baseline: Any, preprocessor: Scaler, values: Tensor) -> Tensor:
    """Return the baseline of series of numbers, ``[n, L, C]``."""
    numbers, observed = _numbers_of(baseline, values), ~values.isnan()
    if numbers is not None:
        return numbers
    if baseline == "zero":
        return torch.zeros_like(values)
    if preprocessor.scaling is not None:
        return preprocessor.moments(values, observed)[0].expand_as(values)
    total = values.nan_to_num(0.0).sum(dim=1, keepdim=True)
    return (total / observed.sum(dim=1, keepdim=True).clamp(min=1)).expand_as(values)


def _numbers_of(baseline: Any, values: Tensor) -> Tensor | None:
    """Return a numeric baseline as ``[n, L, C]``, None for a name."""
    if isinstance(baseline, str):
        check_known("baseline", baseline, BASELINES)
        return None
    n, L, C = values.shape
    array = np.asarray(baseline, dtype=np.float64)
    if array.shape == (C,):
        array = array[:, None]
    if array.shape not in ((), (C, 1), (C, L), (n, C, L)):
        raise ValueError(
            f"baseline must be 'mean', 'zero', or numbers of the shape (), ({C},), ({C}, {L}) or "
            f"({n}, {C}, {L}); got {shortened(baseline)} of {array.shape}"
        )
    numbers = torch.from_numpy(np.broadcast_to(array, (n, C, L)).copy()).transpose(1, 2)
    if bool((~numbers.isfinite() & ~values.isnan()).any()):
        raise ValueError("baseline must be finite wherever X has a value")
    return numbers.nan_to_num(0.0, posinf=0.0, neginf=0.0)
