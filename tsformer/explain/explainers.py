"""The methods by name: what share of the logit of a class each value of a series has.

Missing values and padding do not differ from the baseline and have a relevance of exactly 0.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsformer._checks import Positive, check_fields_of, check_known, options, real, whole
from tsformer._optional import require
from tsformer._random import seeded
from tsformer._registry import check_options
from tsformer._threads import threads
from tsformer._warnings import warn_caller
from tsformer.data.panel import in_order
from tsformer.data.preprocessor import Preprocessor, Scaler
from tsformer.data.series import Padded
from tsformer.explain.attention import attention_weights
from tsformer.explain.logits import (
    LogitsOfDifference,
    baseline_values,
    batch_steps,
    for_model,
    logits_from_baseline,
    mean_falls,
    steps_since_start,
    window_numbers,
)
from tsformer.model import TSTransformer

#: Integrated gradients: how often the steps may double.
_MOST_DOUBLINGS = 5

#: A length in median steps, or None.
_Span = Annotated[float | None, real(0, also=(None,))]


@dataclass(frozen=True)
class Explainer(ABC):
    """Base of the methods; the fields of a method are its options."""

    def __post_init__(self) -> None:
        check_fields_of(self)

    @abstractmethod
    def relevance(self, logits: LogitsOfDifference, target: Tensor) -> Tensor:
        """Return the relevance ``[B, L, C]`` for the logits of the classes `target` ``[B]``."""


@dataclass(frozen=True)
class IntegratedGradients(Explainer):
    """The gradient, averaged on the straight line from the baseline, times the difference.

    ``r_i = (x_i - b_i) * integral of df/dx_i (b + a (x - b)) over a from 0 to 1``, by a sum whose
    steps double, at most five times, while the relevance misses the change of the logit.

    Sundararajan, Taly and Yan, ICML 2017, https://arxiv.org/abs/1703.01365
    """

    n_steps: Annotated[int, whole(1)] = 32
    tolerance: Positive = 0.01

    def relevance(self, logits: LogitsOfDifference, target: Tensor) -> Tensor:
        with torch.no_grad():
            ends = (logits(d, *logits.context) for d in (0 * logits.difference, logits.difference))
            before, after = (end.gather(1, target[:, None])[:, 0] for end in ends)
        change = after - before
        attribution = torch.zeros_like(logits.difference)
        left = torch.arange(len(change))
        for doubling in range(_MOST_DOUBLINGS + 1):
            subset = logits.take(left)
            attribution[left] = _captum("IntegratedGradients", subset).attribute(
                subset.difference,
                target=target[left],
                additional_forward_args=subset.context,
                n_steps=self.n_steps * 2**doubling,
                internal_batch_size=len(left) * _at_once(subset),
            )
            missed = (attribution[left].sum(dim=(1, 2)) - change[left]).abs()
            left = left[missed > self.tolerance * change[left].abs().clamp(min=1.0)]
            if not len(left):
                break
        else:
            warn_caller(
                f"the integrated gradients of {len(left)} of {len(change)} series miss the change "
                f"of the logit by more than {self.tolerance:g} of it, even with "
                f"{self.n_steps * 2**_MOST_DOUBLINGS} steps: pass more n_steps, or another baseline"
            )
        return logits.by_channel(attribution, total=True)


@dataclass(frozen=True)
class GradientTimesInput(Explainer):
    """The gradient at the series, times the difference from the baseline; its sum has no meaning.

    Shrikumar, Greenside and Kundaje, ICML 2017, https://arxiv.org/abs/1704.02685
    """

    def relevance(self, logits: LogitsOfDifference, target: Tensor) -> Tensor:
        attribution = _captum("InputXGradient", logits).attribute(
            logits.difference.clone().requires_grad_(),
            target=target,
            additional_forward_args=logits.context,
        )
        return logits.by_channel(attribution, total=True)


@dataclass(frozen=True)
class Occlusion(Explainer):
    """How much the logit falls when a window of one channel is replaced by the baseline.

    The relevance of a value is the mean fall over the windows that contain it, which are spans of
    time. It needs no gradient, and explains any classifier of the package.

    Zeiler and Fergus, ECCV 2014, https://arxiv.org/abs/1311.2901
    """

    window: _Span = None
    stride: _Span = None

    def relevance(self, logits: LogitsOfDifference, target: Tensor) -> Tensor:
        @torch.no_grad()
        def without(hidden: Tensor) -> Tensor:
            """Return logits ``[k, B]`` with features ``[k, B, L, F]`` at the baseline."""
            k, B = hidden.shape[:2]
            several = logits.take(torch.arange(B).repeat(k))
            difference = several.difference.masked_fill(hidden.flatten(0, 1), 0.0)
            outputs = several(difference, *several.context)
            return outputs.gather(1, target.repeat(k)[:, None]).view(k, B)

        sizes = self.sizes(logits.model.config.max_len)
        at_once = _at_once(logits)
        falls = mean_falls(without, logits.clock, logits.channel, *sizes, at_once=at_once)
        return logits.by_channel(falls, total=False)

    def sizes(self, length: int) -> tuple[float, float]:
        """Return window and stride for series of at most `length` steps."""
        window = _window(self.window, length)
        stride = max(1.0, window // 2) if self.stride is None else self.stride
        if self.stride is not None and stride > window:
            raise ValueError(f"stride exceeds the window, which is {window:g}; got {stride!r}")
        return window, stride


@dataclass(frozen=True)
class ShapleySampling(Explainer):
    """The Shapley values of windows of one channel, estimated from random orders.

    In each order windows go from the baseline to the series one after another; the mean change of
    the logit is shared equally by the window's values, and the sum is the whole change.

    Štrumbelj and Kononenko, JMLR 11, 2010; Lundberg and Lee, NeurIPS 2017,
    https://arxiv.org/abs/1705.07874
    """

    n_samples: Annotated[int, whole(1)] = 25
    window: _Span = None
    random_state: Annotated[int | None, whole(0, None)] = 0

    def relevance(self, logits: LogitsOfDifference, target: Tensor) -> Tensor:
        window = _window(self.window, logits.model.config.max_len)
        groups = window_numbers(logits.clock, logits.channel, window, 0.0)
        fresh = int(np.random.default_rng().integers(2**31))
        seed = fresh if self.random_state is None else self.random_state
        with seeded(seed, torch.device("cpu")):
            values = _captum("ShapleyValueSampling", logits).attribute(
                logits.difference,
                baselines=0,
                target=target,
                additional_forward_args=logits.context,
                feature_mask=groups,
                n_samples=self.n_samples,
                perturbations_per_eval=_at_once(logits),
            )
        observed, flat = logits.observed[..., logits.channel].double(), groups.flatten(1)
        members = torch.zeros(len(flat), int(flat.max()) + 1, dtype=torch.float64)
        members = members.scatter_add_(1, flat, observed.flatten(1)).gather(1, flat).view_as(values)
        shared = values.double() * observed / members.clamp(min=1.0)
        return logits.by_channel(shared, total=True)


@dataclass(frozen=True)
class AttentionRollout(Explainer):
    """How much of each token attention passes on to the pooled vector, whatever the class.

    The weights of a block, averaged over its heads, and the identity are halved and added; their
    product over the blocks, weighted by what pooling takes of each token, is the share of each
    token. The values of its steps share it equally; a token without values passes its share to the
    nearest tokens before and after it. Shares are at least 0 and add up to 1.

    Abnar and Zuidema, ACL 2020, https://arxiv.org/abs/2005.00928
    """

    def relevance(self, logits: LogitsOfDifference, target: Tensor) -> Tensor:
        with torch.no_grad():
            inputs = for_model(logits.model, logits.preprocessor(logits.series, logits.times))
            weights, features, mask, _ = attention_weights(logits.model, *inputs)
            flow = torch.eye(weights.shape[-1], device=weights.device)
            for layer in weights.mean(dim=2).unbind(dim=1):
                flow = (layer + torch.eye(layer.shape[-1], device=layer.device)) / 2 @ flow
            pooling: Any = logits.model.pooling
            shares = (pooling.shares(features, mask)[:, None] @ flow)[:, 0].cpu().double()
        stride = int(logits.model.stem.stride)
        token = torch.arange(logits.observed.shape[1]) // stride
        n_observed = logits.observed.sum(dim=-1).double()
        per_token = torch.zeros_like(shares).index_add_(1, token, n_observed)
        # The shares of empty tokens move to their nearest neighbours.
        full, N = per_token > 0, shares.shape[1]
        before = torch.arange(N).where(full, -1).cummax(dim=1).values
        after = torch.arange(N).where(full, N).flip(1).cummin(dim=1).values.flip(1)
        half = shares.where(~full, 0.0) / ((before >= 0).int() + (after < N).int()).clamp(min=1)
        moved = shares.where(full, 0.0)
        moved.scatter_add_(1, before.clamp(min=0), half * (before >= 0))
        moved.scatter_add_(1, after.clamp(max=N - 1), half * (after < N))
        return (moved / per_token.clamp(min=1.0))[:, token, None] * logits.observed


#: The methods of `explain` by name.
METHODS: dict[str, type[Explainer]] = {
    "integrated_gradients": IntegratedGradients,
    "occlusion": Occlusion,
    "gradient_x_input": GradientTimesInput,
    "shapley_sampling": ShapleySampling,
    "attention_rollout": AttentionRollout,
}


def _captum(name: str, logits: LogitsOfDifference) -> Any:
    module = require("captum.attr", extra="explain", purpose="explaining a prediction")
    return getattr(module, name)(logits)


def _at_once(logits: LogitsOfDifference) -> int:
    """Return how often a batch fits into one forward pass."""
    B, L = logits.observed.shape[:2]
    return max(1, batch_steps(logits.model) // (B * L))


def _window(window: float | None, length: int) -> float:
    return max(1.0, round(length / 10)) if window is None else float(window)


def make_method(name: str, params: Mapping[str, Any] | None) -> Explainer:
    """Return the method of that name with these options."""
    check_known("method", name, METHODS)
    options("method_params", params)
    names = list(inspect.signature(METHODS[name]).parameters)
    check_options(name, names, params or {})
    return METHODS[name](**(params or {}))


def relevance(
    models: Sequence[TSTransformer],
    preprocessor: Preprocessor,
    series: Padded,
    targets: npt.NDArray[np.int64],
    *,
    method: Explainer,
    baseline: Any,
    temperatures: Sequence[float],
) -> npt.NDArray[np.float64]:
    """Return the mean relevance ``(n, C, L)`` over models for the classes `targets` ``(n,)``."""
    of_class, lengths = torch.from_numpy(targets), torch.from_numpy(series.lengths)
    total = torch.zeros(series.values.shape, dtype=torch.float64)
    for fitted, temperature in zip(models, temperatures, strict=True):
        # Of a copy, as another thread may be predicting; and without gradients of weights.
        model = deepcopy(fitted).eval().requires_grad_(False)
        logits = logits_from_baseline(model, preprocessor, series, baseline, temperature)
        steps = batch_steps(model)
        with threads(model=model, n_tokens=steps // model.stem.stride):
            for rows in in_order(lengths, steps):
                longest = int(lengths[rows].max())
                attribution = method.relevance(logits.take(rows, longest), of_class[rows])
                total[rows, :longest] += attribution.detach()
    return (total / len(models)).transpose(1, 2).contiguous().numpy()


def occlusion(
    logits: Callable[[Padded], npt.NDArray[np.floating]],
    preprocessor: Scaler,
    series: Padded,
    classes: npt.NDArray[np.int64],
    *,
    method: Occlusion,
    baseline: Any,
) -> npt.NDArray[np.float64]:
    """Return the relevance ``(n, C, L)`` by occlusion for any classifier."""
    values = torch.from_numpy(series.values)
    times = None if series.times is None else torch.from_numpy(series.times)
    empty = baseline_values(baseline, preprocessor, values).numpy()
    empty = np.where(np.isnan(series.values), np.nan, empty)  # a missing value stays missing

    def without(hidden: Tensor) -> Tensor:
        """Return the logits ``[1, n]`` with hidden values ``[1, n, L, C]`` at the baseline."""
        occluded = replace(series, values=np.where(hidden[0].numpy(), empty, series.values))
        outputs = logits(occluded)[np.arange(len(classes)), classes]
        return torch.from_numpy(outputs)[None].double()

    clock = steps_since_start(values, times, preprocessor.time_step)
    channels = torch.arange(series.n_channels)
    falls = mean_falls(without, clock, channels, *method.sizes(series.n_steps))
    return falls.where(~values.isnan(), 0.0).transpose(1, 2).contiguous().numpy()
