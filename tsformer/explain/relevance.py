"""The relevance of every value of all series, by one method, as the mean over members."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsformer._checks import check_known
from tsformer._checks import options as check_dict
from tsformer._registry import check_options
from tsformer._threads import threads
from tsformer.data.panel import in_order
from tsformer.data.preprocessor import Preprocessor, Scaler
from tsformer.data.series import Padded
from tsformer.explain.logits import (
    baseline_values,
    batch_steps,
    logits_from_baseline,
    mean_falls,
    steps_since_start,
)
from tsformer.explain.methods import METHODS, Method, Occlusion
from tsformer.model import TSTransformer


def make_method(name: str, params: Mapping[str, Any] | None) -> Method:
    """Return the method of that name with these options."""
    check_known("method", name, METHODS)
    check_dict("method_params", params)
    names = list(inspect.signature(METHODS[name]).parameters)
    check_options(name, names, params or {}, argument="method_params")
    return METHODS[name](**(params or {}))


def relevance(
    models: Sequence[TSTransformer],
    preprocessor: Preprocessor,
    series: Padded,
    targets: npt.NDArray[np.int64],
    *,
    method: Method,
    baseline: Any,
    temperatures: Sequence[float],
) -> npt.NDArray[np.float64]:
    """Return the mean relevance ``(n, C, L)`` over models for the classes `targets` ``(n,)``."""
    of_class = torch.from_numpy(targets)
    lengths = torch.from_numpy(series.lengths)
    total = torch.zeros(series.values.shape, dtype=torch.float64)
    for fitted, temperature in zip(models, temperatures, strict=True):
        # Of a copy, as another thread may be predicting; and without gradients of weights.
        model = deepcopy(fitted).eval().requires_grad_(False)
        logits = logits_from_baseline(model, preprocessor, series, baseline, temperature)
        steps = batch_steps(model)
        with threads(model=model, n_tokens=steps // model.stem.stride):
            for rows in in_order(lengths, steps):
                longest = int(lengths[rows].max())
                found: Tensor = method.relevance(logits.take(rows, longest), of_class[rows])
                total[rows, :longest] += found.detach()
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
        """Return the logits ``[k, n]`` with hidden values ``[k, n, L, C]`` at the baseline."""
        occluded = (np.where(each, empty, series.values) for each in hidden.numpy())
        found = [logits(replace(series, values=each)) for each in occluded]
        return torch.from_numpy(np.stack(found)[:, np.arange(len(classes)), classes]).double()

    window, stride = method.sizes(series.n_steps)
    clock = steps_since_start(values, times, preprocessor.time_step)
    channels = torch.arange(series.n_channels)
    falls = mean_falls(without, clock, channels, window=window, stride=stride)
    found: npt.NDArray[np.float64] = falls.where(~values.isnan(), 0.0).transpose(1, 2).numpy()
    return np.ascontiguousarray(found)
