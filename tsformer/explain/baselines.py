"""Baselines: the series that stands for "nothing to see", from which relevance is counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsformer._names import shortened, unknown
from tsformer.data.preprocessor import Preprocessor, Scaler, Vocabulary
from tsformer.data.series import Padded
from tsformer.explain.logits import LogitsOfCodes, LogitsOfDifference, LogitsOfValues
from tsformer.model import TSTransformer

#: The names that ``explain(baseline=...)`` accepts.
BASELINES = ("mean", "zero")


def logits_from_baseline(
    model: TSTransformer,
    preprocessor: Preprocessor,
    series: Padded,
    baseline: Any,
    temperature: float,
) -> LogitsOfDifference:
    """Return the logits of a model in eval mode by the difference of series from a baseline."""
    values = torch.from_numpy(series.values)
    times = None if series.times is None else torch.from_numpy(series.times)
    observed = ~values.isnan()
    common: dict[str, Any] = {"series": values, "times": times, "temperature": temperature}
    common |= {"model": model, "preprocessor": preprocessor}
    if isinstance(preprocessor, Vocabulary):
        given = _given(baseline, values)
        stem: Any = model.stem
        vectors: Tensor = stem.embedding.weight.detach().cpu().double()

        def of_codes(codes: Tensor) -> Tensor:
            with torch.no_grad():
                return vectors[preprocessor(codes, times)[0][..., 0].long()]

        if given is not None:
            empty = of_codes(given)
        else:
            vector = vectors[1:].mean(dim=0) if baseline == "mean" else vectors[0]
            empty = vector.expand(*values.shape[:2], -1)
        difference = (of_codes(values) - empty).where(observed, 0.0)
        channel = torch.zeros(vectors.shape[1], dtype=torch.long)
        return LogitsOfCodes(
            rest=preprocessor,
            difference=difference,
            baseline=empty,
            channel=channel,
            **common,
        )
    assert isinstance(preprocessor, Scaler)
    mean, std = preprocessor.moments(values, observed)
    empty = (baseline_values(baseline, preprocessor, values) - mean) / std
    return LogitsOfValues(
        rest=preprocessor.without_scaling(),
        difference=((values - mean) / std - empty).where(observed, 0.0),
        baseline=empty,
        channel=torch.arange(values.shape[2]),
        size=preprocessor.size_of(values),
        **common,
    )


def baseline_values(baseline: Any, preprocessor: Scaler, values: Tensor) -> Tensor:
    """Return the baseline of series of numbers, ``[n, L, C]``."""
    given = _given(baseline, values)
    if given is not None:
        return given
    if baseline == "zero":
        return torch.zeros_like(values)
    observed = ~values.isnan()
    if preprocessor.scaling is None:
        mean = values.nan_to_num(0.0).sum(dim=1, keepdim=True)
        mean = mean / observed.sum(dim=1, keepdim=True).clamp(min=1)
    else:
        mean = preprocessor.moments(values, observed)[0]
    return mean.expand_as(values)


def _given(baseline: Any, values: Tensor) -> Tensor | None:
    """Return a numeric baseline as ``[n, L, C]``, None for a name."""
    if isinstance(baseline, str):
        if baseline not in BASELINES:
            raise ValueError(unknown("baseline", baseline, BASELINES))
        return None
    n, L, C = values.shape
    allowed = (
        f"baseline must be one of {', '.join(map(repr, BASELINES))}, a number, or an array of "
        f"numbers, ({C},), ({C}, {L}) or ({n}, {C}, {L}): channels, and steps of the longest series"
    )
    try:
        array = None if baseline is None else np.asarray(baseline, dtype=np.float64)
    except (TypeError, ValueError):  # what NumPy says of text and of rows of unequal length
        array = None
    if array is None:
        raise ValueError(f"{allowed}; got {shortened(baseline)}")
    if array.shape == (C,):
        array = array[:, None]
    if array.shape not in ((), (C, 1), (C, L), (n, C, L)):
        raise ValueError(f"{allowed}; got {array.shape}")
    numbers = torch.from_numpy(np.broadcast_to(array, (n, C, L)).copy()).transpose(1, 2)
    if bool((~numbers.isfinite() & ~values.isnan()).any()):
        raise ValueError("baseline must be finite wherever X has a value")
    return numbers.nan_to_num(0.0, posinf=0.0, neginf=0.0)
