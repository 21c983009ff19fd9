"""The one parameter list of all estimators, its checks, and what it becomes: config and plan."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsformer._names import unknown
from tsformer.data.scaling import SCALINGS
from tsformer.encodings import EncodingSpec
from tsformer.model.pooling import POOLINGS
from tsformer.model.stems import STEMS
from tsformer.model.transformer import ModelConfig
from tsformer.training import Callback, TrainingPlan
from tsformer.training.memory import batch_for
from tsformer.training.plan import PRECISIONS, epochs_for, resolve_device, resolve_precision

__all__ = ["Parameters", "RegressionParameters"]

#: ``max_epochs="auto"``: optimizer steps of a training, whatever the number of series...
AUTO_STEPS = 1000
#: ...but never fewer passes over large data than this.
AUTO_MIN_EPOCHS = 20
#: ``early_stopping="auto"``: from so many series on, a part of them is better spent on validation.
AUTO_EARLY_STOPPING_CASES = 5000


class Parameters:
    """Assigns the constructor's arguments, and nothing else; `fit` checks them.

    All three frameworks read the signature of ``__init__``, which estimators inherit from here.
    """

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
        scaling: str | None = "channel",
        timestamps: str | None = None,
        max_epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float = 0.002,
        weight_decay: float = 0.05,
        label_smoothing: float = 0.1,
        class_weight: Mapping[Any, float] | str | None = None,
        early_stopping: bool | str = "auto",
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 20,
        n_estimators: int = 1,
        n_jobs: int | None = 1,
        callbacks: Sequence[Callback] | None = None,
        warm_start: bool = False,
        device: str | torch.device = "auto",
        precision: str = "auto",
        compile: bool | str = False,
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
        self.scaling = scaling
        self.timestamps = timestamps
        self.max_epochs = max_epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.n_estimators = n_estimators
        self.n_jobs = n_jobs
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

    def _check_parameters(self) -> None:
        """Raise ValueError or TypeError for the first argument that is not allowed."""
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if not any(value is choice or value == choice for choice in allowed):
                raise ValueError(unknown(name, value, allowed))
        for name, (kind, low, high, also) in _RANGES.items():
            if not hasattr(self, name):  # of another kind of estimator
                continue
            value = getattr(self, name)
            if any(value is other or value == other for other in also):
                continue
            _check_number(name, value, kind, low, high, also)
        for name in ("encoding_params", "stem_params"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, Mapping):
                raise TypeError(f"{name} must be a dict or None; got {value!r}")
        if self.stem == "embedding" and "n_codes" in (self.stem_params or {}):
            raise ValueError("stem_params must not hold n_codes: fit counts the codes in X")
        if self.checkpoint_dir is not None and not isinstance(self.checkpoint_dir, (str, Path)):
            raise TypeError(f"checkpoint_dir must be a path or None; got {self.checkpoint_dir!r}")
        if self.resume and (self.checkpoint_dir is None or self.random_state is None):
            missing = "checkpoint_dir" if self.checkpoint_dir is None else "random_state, an int"
            raise ValueError(
                f"resume=True goes on with the checkpoint of the same training; give {missing}"
            )
        for callback in self.callbacks or ():
            if not isinstance(callback, Callback):
                raise TypeError(
                    f"callbacks must be tsformer.training.Callback instances; got {callback!r}"
                )

    def _model_config(
        self, *, n_channels: int, n_outputs: int, max_len: int, learned: Mapping[str, Any]
    ) -> ModelConfig:
        """Return the model's shape; `learned` are options of the stem that the data decide."""
        return ModelConfig(
            n_channels=n_channels,
            n_outputs=n_outputs,
            max_len=max_len,
            encoding=self.encoding,
            encoding_params=dict(self.encoding_params or {}),
            stem=self.stem,
            stem_params={**(self.stem_params or {}), **learned},
            d_model=self.d_model,
            n_heads=self.n_heads,
            n_layers=self.n_layers,
            d_ff=self.d_ff,
            dropout=self.dropout,
            norm_first=bool(self.norm_first),
            pooling=self.pooling,
        )

    def _training_plan(
        self, *, n_cases: int, n_tokens: int, validated: bool, seed: int
    ) -> TrainingPlan:
        device = resolve_device(self.device)
        batch_size = batch_for(n_tokens) if self.batch_size == "auto" else int(self.batch_size)
        n_epochs = self.max_epochs
        if n_epochs == "auto":
            n_epochs = max(epochs_for(AUTO_STEPS, n_cases, batch_size), AUTO_MIN_EPOCHS)
        return TrainingPlan(
            n_epochs=int(n_epochs),
            batch_size=batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            n_iter_no_change=self.n_iter_no_change if validated else None,
            device=device,
            bfloat16=resolve_precision(self.precision, device),
            compile=self.compile,
            seed=seed,
            checkpoint_dir=None if self.checkpoint_dir is None else Path(self.checkpoint_dir),
            checkpoint_minutes=float(self.checkpoint_minutes),
            resume=bool(self.resume),
        )

    def _stops_early(self, n_cases: int, *, given: bool) -> bool:
        """Whether validation data stop the training; `given` says that the caller brings them."""
        if self.early_stopping == "auto":
            return given or n_cases >= AUTO_EARLY_STOPPING_CASES
        return bool(self.early_stopping)


class RegressionParameters(Parameters):
    """The same list without what only classes have."""

    def __init__(self, encoding: EncodingSpec = "lspe", **parameters: Any):
        known = list(inspect.signature(type(self)).parameters)
        for name in parameters:
            if name not in known:
                raise TypeError(unknown(f"parameter of {type(self).__name__}", name, known))
        super().__init__(encoding, **parameters)
        for name in _OF_CLASSES:
            delattr(self, name)


_OF_CLASSES = ("label_smoothing", "class_weight")


def _without(init: Callable[..., None], names: tuple[str, ...]) -> inspect.Signature:
    signature = inspect.signature(init)
    kept = [p for name, p in signature.parameters.items() if name not in names]
    return signature.replace(parameters=kept)


# The frameworks, clone and help() read a signature, which is derived so that it cannot differ.
RegressionParameters.__init__.__signature__ = _without(  # type: ignore[attr-defined]
    Parameters.__init__, _OF_CLASSES
)


_CHOICES: dict[str, tuple[Any, ...]] = {
    "stem": tuple(STEMS),
    "pooling": tuple(POOLINGS),
    "scaling": SCALINGS,
    "timestamps": (None, "index"),
    "norm_first": (True, False),
    "early_stopping": ("auto", True, False),
    "warm_start": (True, False),
    "precision": PRECISIONS,
    "compile": (True, False, "cuda-graphs"),
    "resume": (True, False),
}

# name -> type, least, most (None: no bound), other values allowed. A float bound is open: 0 < x < 1
_RANGES: dict[str, tuple[type, float, float | None, tuple[Any, ...]]] = {
    "d_model": (Integral, 1, None, ()),
    "n_heads": (Integral, 1, None, ()),
    "n_layers": (Integral, 0, None, ()),
    "d_ff": (Integral, 1, None, (None,)),
    "dropout": (Real, 0, 1, (0,)),
    "max_epochs": (Integral, 1, None, ("auto",)),
    "batch_size": (Integral, 1, None, ("auto",)),
    "learning_rate": (Real, 0, None, ()),
    "weight_decay": (Real, 0, None, (0,)),
    "label_smoothing": (Real, 0, 1, (0,)),
    "validation_fraction": (Real, 0, 1, ()),
    "n_iter_no_change": (Integral, 1, None, ()),
    "n_estimators": (Integral, 1, None, ()),
    "n_jobs": (Integral, 1, None, (-1, None)),
    "checkpoint_minutes": (Real, 0, None, (0,)),
    "verbose": (Integral, 0, None, ()),
}


def _check_number(
    name: str, value: object, kind: type, low: float, high: float | None, also: tuple[Any, ...]
) -> None:
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
