"""The constructor of the classifiers, and the parameter checks of all estimators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsformer._names import unknown
from tsformer.augmentation import Augmentation, AugmentationSpec, resolve
from tsformer.data.preprocessor import SCALINGS
from tsformer.data.views import make_difference, views_in
from tsformer.encodings import EncodingSpec
from tsformer.estimators.named_parameters import NamedParameters, names_its_parameters
from tsformer.model.norms import HEAD_NORMS
from tsformer.model.pooling import POOLINGS
from tsformer.model.stems import STEMS
from tsformer.objectives import Objective, ObjectiveSpec
from tsformer.objectives import resolve as resolve_objective
from tsformer.training import Callback
from tsformer.training.plan import PRECISIONS

__all__ = [
    "ClassifierParameters",
    "check_number",
    "check_parameters",
    "make_augmentation",
    "make_objective",
]


class ClassifierParameters(NamedParameters):
    """Stores the constructor's arguments and nothing else; `fit` checks them.

    The classifier and its adapters for sktime and aeon share this constructor, whose signature all
    three frameworks inspect. The regressor's is the same, without the parameters of classes.
    """

    @names_its_parameters
    def __init__(
        self,
        encoding: EncodingSpec = "lspe",
        *,
        encoding_params: Mapping[str, Any] | None = None,
        stem: str = "conv",
        stem_params: Mapping[str, Any] | None = None,
        d_model: int = 64,
        n_heads: int = 4,
        n_layers: int = 2,
        d_ff: int | None = None,
        dropout: float = 0.1,
        norm_first: bool = True,
        pooling: str = "mean",
        head_norm: str | None = "batch",
        scaling: str | None = "auto",
        views: str = "auto",
        view_params: Mapping[str, Any] | None = None,
        timestamps: str | None = None,
        augmentation: AugmentationSpec | None = "auto",
        augmentation_params: Mapping[str, Any] | None = None,
        init_from: Any = None,
        freeze: str | None = None,
        n_epochs_frozen: int = 0,
        pretrained_lr_scale: float = 1.0,
        max_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 0.002,
        weight_decay: float = 0.05,
        label_smoothing: float = 0.1,
        temperature: float | str = "auto",
        class_weight: Mapping[Any, float] | str | None = None,
        unlabelled: str | None = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        n_estimators: int = 1,
        n_jobs: int | None = 1,
        n_threads: int | str = "auto",
        callbacks: Sequence[Callback] | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        precision: str = "auto",
        compile: bool | str = "auto",
        checkpoint_dir: str | Path | None = None,
        checkpoint_minutes: float = 10.0,
        resume: bool = False,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.encoding = encoding
        self.encoding_params = encoding_params
        self.stem = stem
        self.stem_params = stem_params
        self.d_model = d_model
        self.n_heads = n_heads
        self.n_layers = n_layers
        self.d_ff = d_ff
        self.dropout = dropout
        self.norm_first = norm_first
        self.pooling = pooling
        self.head_norm = head_norm
        self.scaling = scaling
        self.views = views
        self.view_params = view_params
        self.timestamps = timestamps
        self.augmentation = augmentation
        self.augmentation_params = augmentation_params
        self.init_from = init_from
        self.freeze = freeze
        self.n_epochs_frozen = n_epochs_frozen
        self.pretrained_lr_scale = pretrained_lr_scale
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.temperature = temperature
        self.class_weight = class_weight
        self.unlabelled = unlabelled
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_estimators = n_estimators
        self.n_jobs = n_jobs
        self.n_threads = n_threads
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.device = device
        self.precision = precision
        self.compile = compile
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_minutes = checkpoint_minutes
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose
        super().__init__()


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError for the first invalid parameter of an estimator."""
    for name, allowed in _CHOICES.items():
        if name not in parameters:  # only a classifier has unlabelled series
            continue
        value = parameters[name]
        if not any(value is choice or value == choice for choice in allowed):
            raise ValueError(unknown(name, value, allowed))
    for name, (kind, low, high, also) in _RANGES.items():
        if name not in parameters:  # a regressor has no label_smoothing, no temperature
            continue
        check_number(name, parameters[name], kind, low, high, also)
    for name in _MAPPINGS:
        value = parameters.get(name)  # only an encoder has an objective
        if value is not None and not isinstance(value, Mapping):
            raise TypeError(f"{name} must be a dict or None; got {value!r}")
    recipe = resolve_recipe(parameters)
    views_in(recipe["views"])
    make_difference(parameters["view_params"])
    make_augmentation(recipe["augmentation"], parameters["augmentation_params"])
    if "objective" in parameters:
        make_objective(parameters["objective"], parameters["objective_params"])
    if parameters["stem"] == "embedding" and "n_codes" in (parameters["stem_params"] or {}):
        raise ValueError("stem_params must not contain n_codes: fit counts the codes in X")
    _check_frozen(parameters)
    checkpoint_dir = parameters["checkpoint_dir"]
    if checkpoint_dir is not None and not isinstance(checkpoint_dir, (str, Path)):
        raise TypeError(f"checkpoint_dir must be a path or None; got {checkpoint_dir!r}")
    if parameters["resume"] and (checkpoint_dir is None or parameters["random_state"] is None):
        missing = "checkpoint_dir" if checkpoint_dir is None else "random_state, an int"
        raise ValueError(
            f"resume=True continues from the checkpoint of the same training run; set {missing}"
        )
    for callback in parameters["callbacks"] or ():
        if not isinstance(callback, Callback):
            raise TypeError(
                f"callbacks must be tsformer.training.Callback instances; got {callback!r}"
            )


def _check_frozen(parameters: Mapping[str, Any]) -> None:
    freeze, n_epochs = parameters["freeze"], parameters["n_epochs_frozen"]
    if freeze is not None and n_epochs:
        raise ValueError(
            f"freeze={freeze!r} freezes for all epochs, and n_epochs_frozen={n_epochs} for the "
            "first ones; set one of them"
        )
    comes = parameters["init_from"] is not None or parameters.get("unlabelled") is not None
    if (freeze is not None or n_epochs) and not comes:
        asked = f"n_epochs_frozen={n_epochs}" if n_epochs else f"freeze={freeze!r}"
        raise ValueError(f"{asked} freezes what init_from brings, but init_from is None")


def resolve_recipe(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return the views and the augmentation that parameters ask for, "auto" replaced by its choice.

    Both were chosen behind the conv stem. The other stems are there for comparisons, where order is
    left to the encoding, and for codes: they read values alone and as they are.
    """
    measured = parameters["stem"] == "conv"
    views, augmentation = parameters["views"], parameters["augmentation"]
    if isinstance(views, str) and views == "auto":
        views = "values+difference" if measured else "values"
    if isinstance(augmentation, str) and augmentation == "auto":
        augmentation = "warp+cutmix" if measured else None
    return {"views": views, "augmentation": augmentation}


def make_augmentation(
    augmentation: AugmentationSpec | None, params: Mapping[str, Any] | None
) -> Augmentation | None:
    """Return the augmentation that these two parameters ask for, or None."""
    if augmentation is None:
        if params:
            raise ValueError(
                f"augmentation_params={dict(params)!r} are options of an augmentation, but "
                "augmentation is None"
            )
        return None
    return resolve(augmentation, **(params or {}))


def make_objective(objective: ObjectiveSpec, params: Mapping[str, Any] | None) -> Objective:
    """Return the objective that these two parameters ask for."""
    return resolve_objective(objective, **(params or {}))


_MAPPINGS = (
    "encoding_params",
    "stem_params",
    "view_params",
    "augmentation_params",
    "objective_params",
)
_CHOICES: dict[str, tuple[Any, ...]] = {
    "stem": tuple(STEMS),
    "pooling": tuple(POOLINGS),
    "head_norm": (*HEAD_NORMS, None),
    "scaling": ("auto", *SCALINGS),
    "timestamps": (None, "index"),
    "freeze": (None, "backbone"),
    "unlabelled": (None, "use"),
    "norm_first": (True, False),
    "early_stopping": ("auto", True, False),
    "warm_start": (True, False),
    "precision": PRECISIONS,
    "compile": ("auto", True, False, "cuda-graphs"),
    "resume": (True, False),
}

# name -> type, minimum, maximum (None: unbounded), other allowed values. Int bounds are inclusive,
# float bounds exclusive.
_RANGES: dict[str, tuple[type, float, float | None, tuple[Any, ...]]] = {
    "d_model": (Integral, 1, None, ()),
    "n_heads": (Integral, 1, None, ()),
    "n_layers": (Integral, 0, None, ()),
    "d_ff": (Integral, 1, None, (None,)),
    "dropout": (Real, 0, 1, (0,)),
    "n_epochs_frozen": (Integral, 0, None, ()),
    "pretrained_lr_scale": (Real, 0, None, ()),
    "max_epochs": (Integral, 1, None, ("auto",)),
    "batch_size": (Integral, 1, None, ("auto",)),
    "learning_rate": (Real, 0, None, ()),
    "weight_decay": (Real, 0, None, (0,)),
    "label_smoothing": (Real, 0, 1, (0,)),
    "temperature": (Real, 0, None, ("auto",)),
    "validation_fraction": (Real, 0, 1, ()),
    "n_iter_no_change": (Integral, 1, None, ()),
    "n_estimators": (Integral, 1, None, ()),
    "n_jobs": (Integral, 1, None, (-1, None)),
    "n_threads": (Integral, 1, None, ("auto",)),
    "checkpoint_minutes": (Real, 0, None, (0,)),
    "verbose": (Integral, 0, None, (False, True)),
}


def check_number(
    name: str, value: object, kind: type, low: float, high: float | None, also: tuple[Any, ...]
) -> None:
    """Raise TypeError or ValueError for anything but a number in range, or one of `also`."""
    if any(value is other or value == other for other in also):
        return
    whole = kind is Integral
    inside: Callable[[Any], bool] = (
        (lambda v: v >= low and (high is None or v <= high))
        if whole
        else (lambda v: v > low and (high is None or v < high))
    )
    allowed = f"{'an int' if whole else 'a float'} {'>=' if whole else '>'} {low}"
    if high is not None:
        allowed += f" and {'<=' if whole else '<'} {high}"
    if also:
        allowed += f", or {', '.join(map(repr, also))}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, kind):
        raise TypeError(f"{name} must be {allowed}; got {value!r} of type {type(value).__name__}")
    if not inside(value):
        raise ValueError(f"{name} must be {allowed}; got {value!r}")
