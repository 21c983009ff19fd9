"""Settings: the value of every parameter that may be "auto", resolved once for a fit."""

from dataclasses import dataclass, replace
from math import ceil
from typing import Any

import torch

from tsformer._devices import resolve_device
from tsformer._precision import resolve_precision
from tsformer._threads import threads
from tsformer.augmentation import Augmentation, AugmentationSpec
from tsformer.augmentation import resolve as resolve_augmentation
from tsformer.estimators.recipe import fit_augmentation, regression_recipe, suited_scaling
from tsformer.estimators.series import TrainingData
from tsformer.estimators.targets import Classes, Labels, Numbers, Target
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


#: From `MANY_SERIES` on: number of series over all epochs, and learning rate; see
#: ``experiments/results/many_series.csv``. Of pretraining only the larger budget was tried.
SUPERVISED, PRETRAINING = (80_000, 0.004), (160_000, AUTO_RATE)
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
    n_cases, n_tokens = len(data.series), probe.max_tokens
    many, (n_budget, rate_of_many) = (
        n_cases >= MANY_SERIES,
        PRETRAINING if target.pretext else SUPERVISED,
    )
    batch_size, max_epochs, rate = params.batch_size, params.max_epochs, params.learning_rate
    if batch_size == "auto":
        batch_size = LARGE_BATCH if many else DEFAULT_BATCH
        batch_size = min(batch_size, max(_TOKENS_AT_ONCE // n_tokens, 1))
    if max_epochs == "auto":
        least, most = (ceil(steps / ceil(n_cases / batch_size)) for steps in AUTO_STEPS)
        max_epochs = max(min(max(AUTO_EPOCHS, least), most), AUTO_MIN_EPOCHS)
        if many:
            max_epochs = max(ceil(n_budget / n_cases), AUTO_MIN_EPOCHS_OF_MANY)
    if rate == "auto":
        rate = rate_of_many if many else AUTO_RATE
    stops, patience = validated and bool(params.early_stopping), params.n_iter_no_change
    if patience == "auto":
        patience = max(ceil(AUTO_PATIENCE * max_epochs), AUTO_MIN_PATIENCE)
    device, compiled = resolve_device(params.device), params.compile
    if compiled == "auto":
        captures = device.type == "cuda" and params.freeze is None and Ranks.current().size == 1
        compiled = "cuda-graphs" if captures else False
    scaling, head_norm = _scaling_and_norm(params, data, target, source, fitted)
    augmentation = specified_augmentation(params)
    automatic = isinstance(params.augmentation, str) and params.augmentation == "auto"
    if augmentation is not None and automatic and isinstance(target, Classes | Labels):
        augmentation = fit_augmentation(
            augmentation,
            params.augmentation_params or {},
            replace(data, targets=target.strata(data.targets)),
            n_classes=target.n_outputs,
            scaling=scaling,
        )
    temperature = getattr(params, "temperature", 1.0)
    if temperature == "auto":
        mixed = augmentation is not None and augmentation.mixes
        temperature = MIXED_TEMPERATURE if mixed else 1.0
    views = params.views
    if views == "auto":
        views = "values+difference" if params.stem == "conv" else "values"
    with threads(model=probe, n_tokens=batch_size * n_tokens):
        n_threads = torch.get_num_threads()
    bfloat16 = resolve_precision(params.precision, device, n_tokens * probe.config.d_model)
    return Settings(
        scaling=scaling,
        views=views,
        head_norm=head_norm,
        augmentation=augmentation,
        temperature=float(temperature),
        max_epochs=int(max_epochs),
        batch_size=int(batch_size),
        learning_rate=float(rate),
        early_stopping=stops,
        n_iter_no_change=int(patience) if stops else None,
        n_threads=n_threads,
        device=device,
        precision="bfloat16" if bfloat16 else "float32",
        compile=compiled,
    )


def _scaling_and_norm(
    params: Any, data: TrainingData, target: Target, source: Any, fitted: Any
) -> tuple[str | None, str | None]:
    """Return the scaling and the norm before the head."""
    scaling, head_norm = params.scaling, params.head_norm
    if fitted is not None:
        if scaling == "auto":
            scaling = fitted.preprocessor_.describe()["scaling"]
        return scaling, fitted.model_.config.head_norm if head_norm == "auto" else head_norm
    chooses = scaling == "auto" and source is None and params.stem == "conv"
    if scaling == "auto" and hasattr(source, "preprocessor_"):
        scaling = source.preprocessor_.describe()["scaling"]
    elif scaling == "auto":
        scaling = "channel" if source is None or source.scaling == "auto" else source.scaling
    if isinstance(target, Numbers) and (chooses or head_norm == "auto"):
        scalings = REGRESSION_SCALINGS if chooses else (scaling,)
        scaling, explained = regression_recipe(data, scalings)
        if head_norm == "auto":
            head_norm = "batch" if explained >= LEAST_EXPLAINED else None
    elif isinstance(target, Classes | Labels) and chooses:
        scaling = suited_scaling(replace(data, targets=target.strata(data.targets)))
    return None if params.stem == "embedding" else scaling, head_norm


def specified_augmentation(params: Any) -> Augmentation | None:
    """Return the augmentation that the parameters specify, before a fit adapts it."""
    specified: AugmentationSpec | None = params.augmentation
    if isinstance(specified, str) and specified == "auto":
        specified = "warp+cutmix" if params.stem == "conv" else None
    if specified is None and params.augmentation_params:
        raise ValueError(
            f"augmentation_params={params.augmentation_params!r} needs an augmentation, but "
            "augmentation is None; set augmentation"
        )
    options = params.augmentation_params or {}
    return None if specified is None else resolve_augmentation(specified, **options)
