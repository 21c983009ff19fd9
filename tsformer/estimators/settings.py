"""Settings: the value of every parameter that may be "auto", resolved once for a fit."""

from dataclasses import dataclass
from math import ceil
from typing import Any, NamedTuple

import torch

from tsformer._devices import resolve_device
from tsformer._precision import resolve_precision
from tsformer._threads import threads_for
from tsformer.augmentation import Augmentation, AugmentationSpec
from tsformer.augmentation import resolve as resolve_augmentation
from tsformer.estimators.labels import Classes, Labels
from tsformer.estimators.numbers import Numbers
from tsformer.estimators.recipe import fit_augmentation, regression_recipe, suited_scaling
from tsformer.estimators.series import TrainingData
from tsformer.estimators.targets import Target
from tsformer.model import TSTransformer
from tsformer.training.distributed import Ranks

#: Series per step, unless memory is short.
DEFAULT_BATCH = 16
#: From this many series on, larger batches are faster and as accurate.
MANY_SERIES, LARGE_BATCH = 1000, 64
#: Largest number of tokens per step, as each block keeps several vectors per token.
_TOKENS_AT_ONCE = 2**15
#: Epochs, bounds on the optimizer steps, and smallest number of epochs.
AUTO_EPOCHS, AUTO_STEPS, AUTO_MIN_EPOCHS = 60, (1000, 2500), 20
#: Patience of early stopping: share of the epochs, and smallest number; see
#: ``experiments/results/early_stopping.csv``.
AUTO_PATIENCE, AUTO_MIN_PATIENCE = 0.3, 20
#: Fewest epochs from `MANY_SERIES` on, and the learning rate below.
AUTO_MIN_EPOCHS_OF_MANY, AUTO_RATE = 4, 0.002
#: Options of the conv stem in classifier and encoder, so that weights of the encoder fit.
CONV_PARAMS: dict[str, Any] = {"n_residual": 1, "downsampling": "pool"}
#: Temperature after training on mixed series; see ``experiments/results/calibration.csv``.
MIXED_TEMPERATURE = 0.75


class Budget(NamedTuple):
    """From `MANY_SERIES` on: number of series over all epochs, and learning rate."""

    n_series: int
    learning_rate: float


#: See ``experiments/results/many_series.csv``; of pretraining only the larger budget was tried.
SUPERVISED, PRETRAINING = Budget(80_000, 0.004), Budget(160_000, AUTO_RATE)
#: Scalings for a regressor, the default first.
REGRESSION_SCALINGS = ("channel", "series", "series+size")
#: Smallest explained share of the variance for a norm before a regressor's head; see
#: ``experiments/results/regression.csv``.
LEAST_EXPLAINED = 1 / 3


@dataclass(frozen=True)
class Settings:
    """The values that one fit of a transformer uses; read by plans, summary, card and tracking."""

    scaling: str | None
    views: str
    head_norm: str | None
    augmentation: Augmentation | None
    temperature: float
    max_epochs: int
    batch_size: int
    learning_rate: float
    early_stopping: bool
    n_iter_no_change: int | None
    n_threads: int
    device: torch.device
    precision: str
    compile: bool | str

    def as_used(self) -> dict[str, Any]:
        """Return the values by parameter, ready for JSON; those of members come later."""
        augmentation = None if self.augmentation is None else repr(self.augmentation)
        used = {**vars(self), "augmentation": augmentation, "device": str(self.device)}
        del used["temperature"]
        return used


def resolve(
    params: Any,
    data: TrainingData,
    target: Target,
    probe: TSTransformer,
    *,
    validated: bool,
    source: Any = None,
    fitted: Any = None,
) -> Settings:
    """Resolve every "auto" of a transformer's parameters.

    `probe` is an unused model of the size, `source` the source of the initial weights, and
    `fitted` the estimator that a warm start continues.
    """
    n_cases, n_tokens = len(data), probe.max_tokens
    budget = PRETRAINING if target.pretext else SUPERVISED
    batch_size = batch_size_for(params.batch_size, n_tokens, n_cases)
    max_epochs = epochs_of(params.max_epochs, n_cases, batch_size, budget)
    stops = validated and bool(params.early_stopping)
    device = resolve_device(params.device)
    scaling, head_norm = _scaling_and_norm(params, data, target, source, fitted)
    augmentation = specified_augmentation(params)
    if augmentation is not None and is_auto(params.augmentation):
        augmentation = _adapted(augmentation, params, data, target, scaling)
    with threads_for(probe, batch_size * n_tokens):
        n_threads = torch.get_num_threads()
    bfloat16 = resolve_precision(params.precision, device, n_tokens * probe.config.d_model)
    return Settings(
        scaling=scaling,
        views=views_for(params.views, params.stem),
        head_norm=head_norm,
        augmentation=augmentation,
        temperature=temperature_for(getattr(params, "temperature", 1.0), augmentation),
        max_epochs=max_epochs,
        batch_size=batch_size,
        learning_rate=learning_rate_for(params.learning_rate, n_cases, budget),
        early_stopping=stops,
        n_iter_no_change=patience_for(params.n_iter_no_change, max_epochs) if stops else None,
        n_threads=n_threads,
        device=device,
        precision="bfloat16" if bfloat16 else "float32",
        compile=compile_for(params.compile, device, params.freeze),
    )


def _scaling_and_norm(
    params: Any, data: TrainingData, target: Target, source: Any, fitted: Any
) -> tuple[str | None, str | None]:
    """Return the scaling and the norm before the head."""
    scaling, head_norm = params.scaling, params.head_norm
    if fitted is not None:
        if is_auto(scaling):
            scaling = fitted.preprocessor_.describe()["scaling"]
        return scaling, fitted.model_.config.head_norm if is_auto(head_norm) else head_norm
    chooses = is_auto(scaling) and source is None and params.stem == "conv"
    if is_auto(scaling):
        scaling = "channel" if source is None else _scaling_of(source)
    if isinstance(target, Numbers) and (chooses or is_auto(head_norm)):
        scalings = REGRESSION_SCALINGS if chooses else (scaling,)
        scaling, explained = regression_recipe(
            data.series, data.targets, data.weights, data.groups, scalings
        )
        if is_auto(head_norm):
            head_norm = "batch" if explained >= LEAST_EXPLAINED else None
    elif isinstance(target, Classes | Labels) and chooses:
        strata = target.strata(data.targets)
        scaling = suited_scaling(data.series, strata, data.weights, data.groups)
    return None if params.stem == "embedding" else scaling, head_norm


def _scaling_of(source: Any) -> str | None:
    """Return the scaling of the source of the initial weights."""
    if hasattr(source, "preprocessor_"):
        return source.preprocessor_.describe()["scaling"]
    return "channel" if is_auto(source.scaling) else source.scaling


def specified_augmentation(params: Any) -> Augmentation | None:
    """Return the augmentation that the parameters specify, before a fit adapts it."""
    specified: AugmentationSpec | None = params.augmentation
    if is_auto(specified):
        specified = "warp+cutmix" if params.stem == "conv" else None
    if specified is None and params.augmentation_params:
        raise ValueError(
            f"augmentation_params={params.augmentation_params!r} needs an augmentation, but "
            "augmentation is None; set augmentation"
        )
    options = params.augmentation_params or {}
    return None if specified is None else resolve_augmentation(specified, **options)


def _adapted(
    augmentation: Augmentation, params: Any, data: TrainingData, target: Target, scaling: str | None
) -> Augmentation | None:
    """Adapt ``augmentation="auto"`` of a classifier to the training series."""
    if not isinstance(target, Classes | Labels):
        return augmentation
    return fit_augmentation(
        augmentation,
        params.augmentation_params or {},
        data.series,
        target.strata(data.targets),
        data.groups,
        n_classes=target.n_outputs,
        scaling=scaling,
    )


def is_auto(value: object) -> bool:
    """Whether a parameter is "auto"; an array or a class is not."""
    return isinstance(value, str) and value == "auto"


def views_for(views: str, stem: str) -> str:
    """Return the views of each channel."""
    if is_auto(views):
        return "values+difference" if stem == "conv" else "values"
    return views


def learning_rate_for(learning_rate: float | str, n_cases: int, budget: Budget) -> float:
    """Return the peak learning rate."""
    if learning_rate == "auto":
        return budget.learning_rate if n_cases >= MANY_SERIES else AUTO_RATE
    return float(learning_rate)


def batch_size_for(batch_size: int | str, n_tokens: int, n_cases: int = 0) -> int:
    """Return the number of series per optimizer step."""
    if batch_size != "auto":
        return int(batch_size)
    wanted = LARGE_BATCH if n_cases >= MANY_SERIES else DEFAULT_BATCH
    return min(wanted, max(_TOKENS_AT_ONCE // n_tokens, 1))


def epochs_of(max_epochs: int | str, n_cases: int, batch_size: int, budget: Budget) -> int:
    """Return the number of epochs."""
    if max_epochs != "auto":
        return int(max_epochs)
    if n_cases >= MANY_SERIES:
        return max(ceil(budget.n_series / n_cases), AUTO_MIN_EPOCHS_OF_MANY)
    fewest, most = (ceil(steps / ceil(n_cases / batch_size)) for steps in AUTO_STEPS)
    return max(min(max(AUTO_EPOCHS, fewest), most), AUTO_MIN_EPOCHS)


def patience_for(n_iter_no_change: int | str, n_epochs: int) -> int:
    """Return the number of epochs without a lower validation loss that ends training."""
    if n_iter_no_change != "auto":
        return int(n_iter_no_change)
    return max(ceil(AUTO_PATIENCE * n_epochs), AUTO_MIN_PATIENCE)


def temperature_for(temperature: float | str, augmentation: Augmentation | None) -> float:
    """Return the divisor of the logits before calibration."""
    if temperature != "auto":
        return float(temperature)
    return MIXED_TEMPERATURE if augmentation is not None and augmentation.mixes else 1.0


def compile_for(compile: bool | str, device: torch.device, freeze: str | None) -> bool | str:
    """Return whether steps are compiled, or captured in CUDA graphs."""
    if compile != "auto":
        return compile
    captures = device.type == "cuda" and freeze is None and Ranks.current().size == 1
    return "cuda-graphs" if captures else False
