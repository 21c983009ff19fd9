"""The recipe: the meaning of every ``"auto"``, given the stem and the training series.

`trials` measures the scaling and the effect of an augmentation. ``device``, ``precision``,
``compile`` and ``n_threads`` depend on the machine: see `tsformer.training.plan` and
`tsformer._torch_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from tsformer.augmentation import Augmentation, AugmentationSpec, CutMix, Sum
from tsformer.data.series import SeriesSource
from tsformer.estimators.targets import Groups, Targets
from tsformer.estimators.trials import LEAST_KEPT, agreement_kept
from tsformer.training.memory import MANY_SERIES, batch_for
from tsformer.training.plan import epochs_for

#: Epochs, bounds on the optimizer steps, and smallest number of epochs.
AUTO_EPOCHS, AUTO_STEPS, AUTO_MIN_EPOCHS = 60, (1000, 2500), 20
#: From `MANY_SERIES` on: epochs, largest number of series over all epochs, fewest epochs.
AUTO_EPOCHS_OF_MANY, AUTO_SERIES, AUTO_MIN_EPOCHS_OF_MANY = 80, 160_000, 4
#: Number of series from which early stopping pays off.
AUTO_EARLY_STOPPING_CASES = 5000
#: Options of the conv stem in classifier and encoder, so that weights of the encoder fit.
CONV_PARAMS: dict[str, Any] = {"n_residual": 1, "downsampling": "pool"}
#: Bound on the probability of cutmix times the number of classes: mixing half of the series helps
#: with up to ten classes, and harms with 26 and more.
MIXED = 5.0
#: Bound on the mean number of mixed series per epoch: on 400 and 600 series, mixing half of them
#: lowered accuracy by up to three points.
MOST_MIXED = 100.0
#: Temperature after training on mixed series; see ``experiments/results/calibration.csv``.
MIXED_TEMPERATURE = 0.75


def is_auto(value: object) -> bool:
    """Whether a parameter is "auto"; an array or a class is not."""
    return isinstance(value, str) and value == "auto"


def views_for(views: str, stem: str) -> str:
    """Return the views of each channel."""
    if is_auto(views):
        return "values+difference" if stem == "conv" else "values"
    return views


def augmentation_for(augmentation: AugmentationSpec | None, stem: str) -> AugmentationSpec | None:
    """Return the augmentation, before `fit_augmentation` adapts it."""
    if is_auto(augmentation):
        return "warp+cutmix" if stem == "conv" else None
    return augmentation


def fit_augmentation(
    augmentation: Augmentation,
    params: Mapping[str, Any],
    series: SeriesSource,
    targets: Targets,
    groups: Groups | None,
    *,
    n_classes: int,
    scaling: str | None,
) -> Augmentation | None:
    """Adapt ``augmentation="auto"`` to the training series; explicit `params` stay."""
    parts = augmentation.parts if isinstance(augmentation, Sum) else (augmentation,)
    suited: list[Augmentation] = []
    for part in parts:
        if isinstance(part, CutMix):
            if "p" not in params.get("cutmix", {}):
                most = min(MIXED / n_classes, MOST_MIXED / len(targets))
                part = CutMix(p=min(part.p, most), max_share=part.max_share)
            suited.append(part)
            continue
        everywhere = type(part)(**vars(part) | {"p": 1.0})
        kept = agreement_kept(everywhere, series, targets, scaling=scaling, groups=groups)
        if kept >= LEAST_KEPT:
            suited.append(part)
    return Sum(suited) if len(suited) > 1 else suited[0] if suited else None


def scaling_like(source: Any) -> str | None:
    """Return the scaling of the source of the initial weights."""
    if hasattr(source, "preprocessor_"):
        scaling: str | None = source.preprocessor_.describe()["scaling"]
        return scaling
    return "channel" if source is None or source.scaling == "auto" else source.scaling


def stops_early(early_stopping: bool | str, n_cases: int, *, validated: bool) -> bool:
    """Whether to stop early; "auto" does with validation data or many series."""
    if early_stopping == "auto":
        return validated or n_cases >= AUTO_EARLY_STOPPING_CASES
    return bool(early_stopping)


def batch_size_for(batch_size: int | str, n_tokens: int, n_cases: int) -> int:
    """Return the number of series per optimizer step."""
    return batch_for(n_tokens, n_cases) if batch_size == "auto" else int(batch_size)


def epochs_of(max_epochs: int | str, n_cases: int, batch_size: int) -> int:
    """Return the number of epochs."""
    return automatic_epochs(n_cases, batch_size) if max_epochs == "auto" else int(max_epochs)


def automatic_epochs(n_cases: int, batch_size: int) -> int:
    """Return the number of epochs for ``max_epochs="auto"``."""
    if n_cases >= MANY_SERIES:
        most = min(AUTO_EPOCHS_OF_MANY, ceil(AUTO_SERIES / n_cases))
        return max(most, AUTO_MIN_EPOCHS_OF_MANY)
    fewest, most = (epochs_for(steps, n_cases, batch_size) for steps in AUTO_STEPS)
    return max(min(max(AUTO_EPOCHS, fewest), most), AUTO_MIN_EPOCHS)


def temperature_for(temperature: float | str, augmentation: Augmentation | None) -> float:
    """Return the divisor of the logits before calibration."""
    if temperature != "auto":
        return float(temperature)
    return MIXED_TEMPERATURE if augmentation is not None and augmentation.mixes else 1.0
