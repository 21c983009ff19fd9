"""Settings: the value of every parameter that may be "auto", resolved once for a fit."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsformer._devices import resolve_device
from tsformer._precision import resolve_precision
from tsformer._random import imported, seeded
from tsformer._threads import threads
from tsformer.augmentation import Augmentation, AugmentationSpec, Batch, Compose, CutMix
from tsformer.augmentation import resolve as resolve_augmentation
from tsformer.data.panel import Panel
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import parts_of
from tsformer.estimators.groups import Groups, group_folds
from tsformer.estimators.series_estimator import TrainingData
from tsformer.estimators.targets import Classes, Labels, LabelTarget, Numbers, Target
from tsformer.features.random_convolutions import RandomConvolutions, regular
from tsformer.features.ridge import ConvolutionClassifier, losses_of, system_of
from tsformer.model import TSTransformer
from tsformer.training.distributed import Ranks
from tsformer.training.inference import forward

#: From this many series on, larger batches are faster and as accurate.
MANY_SERIES = 1000
#: Options of the conv stem in classifier and encoder, so that weights of the encoder fit.
CONV_PARAMS: dict[str, Any] = {"n_residual": 1, "downsampling": "pool"}
#: Temperature after training on mixed series; see ``experiments/results/calibration.csv``.
MIXED_TEMPERATURE = 0.75
#: Scalings for a regressor, the default first.
REGRESSION_SCALINGS = ("channel", "series", "series+size")
#: Smallest remaining agreement on augmented series: ``experiments/results/warping_rule.csv``.
_LEAST_KEPT = 0.25
#: Largest sample, features and groups of each of the two computations for a choice.
SCALING_TRIAL, AUGMENTATION_TRIAL = (512, 1250, 8), (256, 1000, 8)
#: Most series of the trial of scalings for random convolutions.
_CONVOLUTION_TRIAL = 2048
#: Bounds on the probability of cutmix times the classes, and on the mixed series of an epoch: more
#: harms with 26 classes and more, and on 400 and 600 series.
_MIXED, _MOST_MIXED = 5.0, 100.0
#: Smallest number of series for a choice.
_FEWEST_FOR_SCALING, _FEWEST_FOR_AUGMENTATION = 10, 40
#: Largest difference of equal values, in standard deviations.
_ALIKE = 0.1
#: A channel of a series is flat if its deviation is less than this share of the deviation over all
#: series; and the share of flat channels above which each series is standardised.
_FLAT, _MOST = 0.1, 0.5
#: Largest squared error of a regressor's other scaling, in units of that of "channel".
_CLEARLY_LESS = 0.9
#: Multiply-adds per matrix entry in the decomposition, for the number of threads.
_PASSES = 32
#: Smallest agreement on unaugmented series for a meaningful ratio.
_LEAST_AGREEMENT = 0.2
#: Relative error of the temperatures that compare scalings: 1e-6 of a loss.
_TOLERANCE = 1e-3
_PENALTIES, _N_FOLDS, _SEED, _CPU = np.logspace(0, 5, 6), 5, 0, torch.device("cpu")


def suited_scaling(data: TrainingData) -> str | None:
    """Choose the scaling for a transformer by a sample of the series and their classes."""
    most, n_features, n_groups = SCALING_TRIAL
    if len(data.targets) > most:
        data = data.part(trial_sample(len(data.targets), most))
    classes, of_class = np.unique(data.targets, return_inverse=True)
    if len(of_class) < _FEWEST_FOR_SCALING or len(classes) == 1:
        return "channel"
    # Random convolutions are invariant to the amplitude, but a network is not.
    scalers = [Scaler(name, gap_flag=None).fit(data.series) for name in ("channel", "series")]
    n_flat = n_varying = 0
    for index in parts_of(data.series):
        x = torch.from_numpy(data.series.read(index).values)
        of_all, of_series = (scaler.moments(x, ~x.isnan())[1] for scaler in scalers)
        n_flat += int((of_series < _FLAT * of_all).sum())
        n_varying += int(of_series.isfinite().sum())
    if n_flat > _MOST * n_varying:
        return "series+size"
    options: dict[str, Any] = {"n_features": n_features, "n_groups": n_groups, "seed": _SEED}
    options |= {"kind": Classes(classes), "device": _CPU}
    return better_scaler(scalers, replace(data, targets=of_class), **options).scaling


def regression_recipe(
    data: TrainingData, scalings: tuple[str | None, ...]
) -> tuple[str | None, float]:
    """Choose the scaling for a regressor; return it and the share of the variance it explains.

    Ridge regression on random convolutions predicts the targets ``[n]`` or ``[n, n_targets]`` of
    left-out series. Another scaling replaces the first if its squared error is a tenth lower.
    """
    data = data.part(trial_sample(len(data.targets), SCALING_TRIAL[0]))
    y = data.targets.reshape(len(data.targets), -1).astype(np.float64)
    if len(y) < _FEWEST_FOR_SCALING:
        return scalings[0], 0.0
    weights = np.ones(len(y)) if data.weights is None else data.weights
    left_out = _folds(
        y[:, 0], np.zeros(len(y), np.int64), data.groups, np.random.default_rng(_SEED)
    )
    varying = np.ptp(y, axis=0) > 0
    deviations = np.square((y - np.average(y, axis=0, weights=weights))[:, varying])
    unexplained, errors = {}, np.empty_like(y)
    for name in scalings:
        panel = Scaler(name, gap_flag=None).fit(data.series).transform(data.series)
        features = _convolved(regular(panel), RandomConvolutions(*AUGMENTATION_TRIAL[1:])).numpy()
        for out in left_out:
            ridge = imported("sklearn.linear_model").RidgeCV(_PENALTIES)
            ridge.fit(features[~out], y[~out], weights[~out])
            errors[out] = y[out] - ridge.predict(features[out]).reshape(errors[out].shape)
        shares = weights @ np.square(errors[:, varying]) / (weights @ deviations)
        unexplained[name] = float(shares.mean()) if varying.any() else 1.0
    best = min(unexplained, key=lambda name: unexplained[name])
    if unexplained[best] > _CLEARLY_LESS * unexplained[scalings[0]]:
        best = scalings[0]
    return best, 1.0 - unexplained[best]


def trial_sample(n_series: int, most: int) -> npt.NDArray[np.bool_]:
    """Select the series that the scaling is chosen by."""
    drawn = np.random.default_rng(_SEED).choice(n_series, min(most, n_series), replace=False)
    return np.isin(np.arange(n_series), drawn)


def better_scaler(
    scalers: Sequence[Scaler],
    data: TrainingData,
    *,
    n_features: int,
    n_groups: int,
    kind: LabelTarget,
    seed: int,
    device: torch.device,
) -> Scaler:
    """Return the one of two fitted scalers with the lower leave-one-out cross-entropy."""
    panels = [scaler.transform(data.series) for scaler in scalers]
    if float((panels[0].values - panels[1].values).abs().max()) <= _ALIKE:
        return scalers[0]
    made, targets = partial(RandomConvolutions, n_features, n_groups), data.tensors()
    features = [_convolved(regular(x), made(), seed=seed, device=device) for x in panels]
    with threads(work=_PASSES * min(features[0].shape) ** 2):
        systems = [system_of(matrix, kind=kind, **targets) for matrix in features]
        losses = losses_of(systems, kind, tolerance=_TOLERANCE)[1].amin(dim=1).float()
    return scalers[int(losses[1] < losses[0])]


def convolution_scaling(
    scaling: str | None, data: TrainingData, *, n_features: int, n_groups: int, **options: Any
) -> str | None:
    """Resolve the scaling of random convolutions, by an eighth of them on a sample of series."""
    if scaling != "auto":
        return scaling
    data = data.part(trial_sample(len(data.series), _CONVOLUTION_TRIAL))
    data.series = data.series.padded()
    options["n_features"] = n_features and max(n_features // 8, 168)
    options["n_groups"] = n_groups and max(2 * (n_groups // 16), 2)
    scalers = [Scaler(name, gap_flag=None).fit(data.series) for name in ("series", "channel")]
    return better_scaler(scalers, data, **options).scaling


def described_threads(n_threads: int | str) -> int | str:
    """Describe the number of threads of random convolutions."""
    return "by operation" if n_threads == "auto" else n_threads


def without_choices(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Replace "auto" where its meaning depends on no data."""
    fixed = dict(parameters)
    if fixed["compile"] == "auto":
        fixed["compile"] = False  # replayed graphs compute the same
    if fixed["stem"] != "conv" and fixed["scaling"] == "auto":
        fixed["scaling"] = "channel"
    return fixed


def fitted_convolutions(
    panel: Panel,
    data: TrainingData,
    *,
    n_features: int,
    n_groups: int,
    kind: LabelTarget,
    seed: int,
    device: torch.device,
) -> ConvolutionClassifier:
    """Sample kernels, compute features on `device`, and fit a ridge classifier."""
    model = ConvolutionClassifier(n_features, n_groups)
    features = _convolved(panel, model.convolutions, seed=seed, device=device)
    # The decomposition consists of matrix-vector products.
    with threads(work=_PASSES * min(features.shape) ** 2):
        model.ridge.fit(features, kind=kind, **data.tensors())
    return model


def agreement_kept(augmentation: Augmentation, data: TrainingData, *, scaling: str | None) -> float:
    """Return the share of a classifier's agreement with the labels on augmented series.

    The agreement is Cohen's kappa of labels and cross-validated predictions. The result is the
    ratio of kappa after and before augmentation, clipped to [0, 1].
    """
    generator, most = np.random.default_rng(_SEED), AUGMENTATION_TRIAL[0]
    if len(data.targets) > most:
        data = data.part(generator.permutation(len(data.targets)) < most)
    classes, targets = np.unique(data.targets, return_inverse=True)
    if len(targets) < _FEWEST_FOR_AUGMENTATION or len(classes) == 1:
        return 1.0
    panel = Scaler(scaling, gap_flag=None).fit(data.series).transform(data.series)
    whole = panel.with_mask()
    with seeded(_SEED, _CPU):
        values = augmentation(Batch(whole.values, whole.mask, whole.times)).values
    convolutions = RandomConvolutions(*AUGMENTATION_TRIAL[1:])
    plain = _convolved(regular(panel), convolutions).numpy()
    changed = forward(convolutions, regular(replace(panel, values=values))).numpy()
    answers = np.empty((2, len(targets)), dtype=np.int64)
    for out in _folds(targets, targets, data.groups, generator):
        ridge = imported("sklearn.linear_model").RidgeClassifierCV(alphas=_PENALTIES)
        ridge.fit(plain[~out], targets[~out])
        for row, features in zip(answers, (plain, changed), strict=True):
            row[out] = ridge.predict(features[out])
    kappa = imported("sklearn.metrics").cohen_kappa_score
    before, after = (float(kappa(targets, row)) for row in answers)
    return 1.0 if before < _LEAST_AGREEMENT else min(max(after / before, 0.0), 1.0)


def fit_augmentation(
    augmentation: Augmentation,
    params: Mapping[str, Any],
    data: TrainingData,
    *,
    n_classes: int,
    scaling: str | None,
) -> Augmentation | None:
    """Adapt ``augmentation="auto"`` to the training series; explicit `params` stay."""
    suited: list[Augmentation] = []
    for transform in augmentation.parts if isinstance(augmentation, Compose) else (augmentation,):
        if not isinstance(transform, CutMix):
            everywhere = type(transform)(**vars(transform) | {"p": 1.0})
            suits = agreement_kept(everywhere, data, scaling=scaling) >= _LEAST_KEPT
            suited += [transform] if suits else []
        elif "p" in params.get("cutmix", {}):
            suited.append(transform)
        else:
            most = min(_MIXED / n_classes, _MOST_MIXED / len(data.targets))
            suited.append(CutMix(p=min(transform.p, most), max_share=transform.max_share))
    return Compose(suited) if len(suited) > 1 else suited[0] if suited else None


def _convolved(
    panel: Panel,
    convolutions: RandomConvolutions,
    *,
    seed: int = _SEED,
    device: torch.device = _CPU,
) -> Tensor:
    """Fit random convolutions to the series; return their features ``[n, F]``."""
    masked = panel.with_mask()
    generator = torch.Generator().manual_seed(seed % 2**63)  # the CPU's: the same on each device
    convolutions.draw(masked.values, masked.mask, generator)
    if device != _CPU:
        convolutions.to(device)
    panel, unscaled = panel.to(device), convolutions.unscaled
    features = forward(convolutions, panel, function=unscaled, device=device)
    if device != _CPU:
        convolutions.cpu()  # a ridge needs float64, which not every device has
    convolutions.fit_scales(features)
    for chunk in features.split(256):  # in place, to save memory
        chunk.copy_(convolutions.scale(chunk))
    return features


def _folds(
    targets: npt.NDArray[Any],
    classes: npt.NDArray[np.int64],
    groups: Groups | None,
    generator: np.random.Generator,
) -> list[npt.NDArray[np.bool_]]:
    """Return a mask of each fold, stratified by target, or by class of whole groups."""
    if groups is not None and len(np.unique(groups)) > 1:
        return group_folds(classes, groups, _N_FOLDS, _SEED)
    shuffled = generator.permutation(len(targets))
    folds = np.empty(len(targets), dtype=np.int64)
    folds[shuffled[np.argsort(targets[shuffled], kind="stable")]] = np.arange(len(folds)) % _N_FOLDS
    return [folds == fold for fold in range(_N_FOLDS)]


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
    earlier: Any = None,
) -> Settings:
    """Resolve every "auto" of a transformer's parameters.

    `probe` is an unused model of the size, `source` the source of the initial weights, and
    `earlier` the fit that a warm start continues.
    """
    n_cases, n_tokens = len(data.series), probe.max_tokens
    many, pretext = n_cases >= MANY_SERIES, target.pretext
    batch_size, max_epochs, rate = params.batch_size, params.max_epochs, params.learning_rate
    if batch_size == "auto":
        # At most 2**15 tokens, as each block keeps several vectors per token.
        batch_size = min(64 if many else 16, max(2**15 // n_tokens, 1))
    if max_epochs == "auto" and many:  # see ``experiments/results/many_series.csv``
        max_epochs = max(ceil((160_000 if pretext else 80_000) / n_cases), 4)
    elif max_epochs == "auto":
        least, most = (ceil(steps / ceil(n_cases / batch_size)) for steps in (1000, 2500))
        max_epochs = max(min(max(60, least), most), 20)
    if rate == "auto":
        rate = 0.004 if many and not pretext else 0.002
    stops, patience = validated and bool(params.early_stopping), params.n_iter_no_change
    if patience == "auto":  # see ``experiments/results/early_stopping.csv``
        patience = max(ceil(0.3 * max_epochs), 20)
    device, compiled = resolve_device(params.device), params.compile
    if compiled == "auto":
        captures = device.type == "cuda" and params.freeze is None and Ranks.current().size == 1
        compiled = "cuda-graphs" if captures else False
    scaling, head_norm = _scaling_and_norm(params, data, target, source, earlier)
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
    params: Any, data: TrainingData, target: Target, source: Any, earlier: Any
) -> tuple[str | None, str | None]:
    """Return the scaling and the norm before the head."""
    scaling, head_norm = params.scaling, params.head_norm
    if earlier is not None:
        if scaling == "auto":
            scaling = earlier.preprocessor_.describe()["scaling"]
        return scaling, earlier.model_.config.head_norm if head_norm == "auto" else head_norm
    chooses = scaling == "auto" and source is None and params.stem == "conv"
    if scaling == "auto" and hasattr(source, "preprocessor_"):
        scaling = source.preprocessor_.describe()["scaling"]
    elif scaling == "auto":
        scaling = "channel" if source is None or source.scaling == "auto" else source.scaling
    if isinstance(target, Numbers) and (chooses or head_norm == "auto"):
        scalings = REGRESSION_SCALINGS if chooses else (scaling,)
        scaling, explained = regression_recipe(data, scalings)
        if head_norm == "auto":
            head_norm = "batch" if explained >= 1 / 3 else None  # see results/regression.csv
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
