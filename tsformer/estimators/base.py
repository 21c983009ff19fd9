"""What every estimator does: read series, train models on them, run them, save and load them."""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, validate_data
from torch import Tensor

from tsformer import persistence
from tsformer._deprecation import renamed_attribute
from tsformer.data.containers import to_padded
from tsformer.data.panel import Padded
from tsformer.data.preprocessor import Preprocessor, Scaler, Vocabulary
from tsformer.encodings import EncodingSpec, PositionalEncoding, names
from tsformer.encodings.registry import find
from tsformer.estimators.holdout import hold_out
from tsformer.estimators.parameters import check_parameters
from tsformer.model import ModelConfig, TSTransformer
from tsformer.training import (
    Callback,
    History,
    ProgressBar,
    TrainingPlan,
    Validation,
    forward,
)
from tsformer.training.members import train_members
from tsformer.training.memory import batch_for
from tsformer.training.plan import epochs_for, resolve_device, resolve_precision
from tsformer.training.seeds import seeded

__all__ = ["Targets", "TrainingJob", "TransformerEstimator"]

#: One number per series [n]: the index of its class, or the target of a regression.
Targets = npt.NDArray[Any]
#: Seeds of the weights, the training run and the validation split.
MemberSeeds = tuple[int, int, int]

#: ``max_epochs="auto"``: optimizer steps of a fit, whatever the number of series...
AUTO_STEPS = 1000
#: ...but never fewer passes over large data than this.
AUTO_MIN_EPOCHS = 20
#: ``early_stopping="auto"``: from so many series on, a part of them is better spent on validation.
AUTO_EARLY_STOPPING_CASES = 5000
#: What only the running program has, and no file can hold.
NOT_SAVED = {"callbacks": None, "device": "auto", "checkpoint_dir": None, "resume": False}


@dataclass
class TrainingJob:
    """All that training needs: the arguments of `train_members` that the data decide."""

    models: list[TSTransformer]
    panel: Any
    targets: Tensor
    plans: list[TrainingPlan]
    weights: Tensor | None
    validation: Validation | None
    callbacks: list[list[Callback]]
    histories: list[History]


class TransformerEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the estimators of this package. Subclasses say what targets are.

    Attributes
    ----------
    preprocessor_ : Scaler or Vocabulary
        What is done to values before the models see them.
    models_ : list of TSTransformer
        The module of each member.
    histories_ : list of History
        The training history of each member.
    device_ : torch.device
        Where the modules are.
    """

    preprocessor_: Preprocessor
    models_: list[TSTransformer]
    histories_: list[History]
    device_: torch.device
    n_channels_: int
    n_features_in_: int
    _clock: str | None
    _columns_are_steps: bool

    scaler_: ClassVar[property] = renamed_attribute("scaler_", "preprocessor_")

    # The parameters, which the constructors of the subclasses assign.
    encoding: EncodingSpec
    encoding_params: Any
    stem: str
    stem_params: Any
    d_model: int
    n_heads: int
    n_layers: int
    d_ff: int | None
    dropout: float
    norm_first: bool
    pooling: str
    scaling: str | None
    timestamps: str | None
    max_epochs: int | str
    batch_size: int | str
    learning_rate: float
    weight_decay: float
    early_stopping: bool | str
    validation_fraction: float
    n_iter_no_change: int
    n_estimators: int
    n_jobs: int | None
    callbacks: Sequence[Callback] | None
    warm_start: bool
    device: str | torch.device
    precision: str
    compile: bool | str
    checkpoint_dir: str | Path | None
    checkpoint_minutes: float
    resume: bool
    random_state: Any
    verbose: int

    # What a subclass says of its targets.

    @abstractmethod
    def _targets(self, y: Any, name: str, *, reset: bool) -> Targets:
        """Check `y`, called `name` in errors, and encode it; with `reset` learn how."""

    @abstractmethod
    def _describe_targets(self) -> dict[str, Any]:
        """Return, for JSON, what `_targets` learned."""

    @abstractmethod
    def _restore_targets(self, described: dict[str, Any]) -> None:
        """Take back what `_describe_targets` returned."""

    @abstractmethod
    def _weights(self, sample_weight: npt.ArrayLike | None, targets: Targets) -> Targets | None:
        """Return the weight of each series, or None where all weigh the same."""

    @abstractmethod
    def _n_outputs(self) -> int:
        """Return the number of outputs of the model."""

    @abstractmethod
    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss of each series."""

    @abstractmethod
    def _val_score(self, outputs: Tensor, targets: Tensor) -> float:
        """Return how good the outputs are; higher is better."""

    def _strata(self, targets: Targets) -> npt.NDArray[np.int64]:
        """Return the group of each series; the same share of each group is held out."""
        return np.zeros(len(targets), dtype=np.int64)

    # Fitting.

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        sample_weight: npt.ArrayLike | None = None,
        X_val: Any = None,
        y_val: Any = None,
        times: Any = None,
        times_val: Any = None,
    ) -> Self:
        """Train on all of `X`, or on all but the part that `early_stopping` holds out.

        Parameters
        ----------
        X : ndarray (n, length) or (n, channels, length), or list of (channels, length) arrays
            Series; those of a list may differ in length. Tensors, lists of (length, channels)
            frames, frames of two index levels (series, step) and frames whose cells are series
            are read as well. NaN stands for a missing value: gaps are filled along the line
            between the values around them, and a further channel says where they are, if `fit`
            saw any; steps before the first value and after the last are left out.
        y : array-like (n,)
            For a classifier, labels of any type that scikit-learn allows; for a regressor, finite
            numbers.
        sample_weight : array-like (n,), optional
            Weight of each series, on top of `class_weight`; only their ratios matter.
        X_val, y_val : optional
            Validation data like `X` and `y`: they are scored after each epoch and, unless
            ``early_stopping=False``, stop the training. They never train it.
        times : ndarray (length,) or (n, length), or list of (length,) arrays, optional
            When the steps were taken, numbers or dates that do not decrease, in place of regular
            steps; see `timestamps`. Calls that predict then need them too.
        times_val : like `times`, optional
            The times of `X_val`.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For arguments that are not allowed; nothing is trained then.
        tsformer.training.NonFiniteLossError
            If the loss is no longer finite. The estimator is fitted then, with the weights of
            the last good epoch.
        """
        job = self._prepare(X, y, sample_weight, times, X_val, y_val, times_val)
        try:
            train_members(**vars(job), loss=self._loss, n_jobs=self.n_jobs)
        finally:
            self._drop_untrained()
        if len(self.models_) < len(job.models):
            warnings.warn(
                f"only the {len(self.models_)} of {len(job.models)} members that were trained are "
                "kept",
                stacklevel=2,
            )
        return self

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        times: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        times_val: Any = None,
    ) -> TrainingJob:
        """Do all of `fit` but the training: check, read, encode, hold out, make the models."""
        check_parameters(self.get_params(deep=False))
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        reset = not (self.warm_start and hasattr(self, "models_"))

        series = self._read(X, times, reset=reset)
        targets = self._targets(y, "y", reset=reset)
        check_consistent_length(series.values, targets)
        weights = self._weights(sample_weight, targets)
        seeds = self._seeds()

        held_out = self._given_validation(X_val, y_val, times_val)
        val_weights = None if held_out is None else self._weights(None, held_out[1])
        if held_out is None and self._stops_early(len(targets), given=False):
            # One part for all members: what none of them has trained on judges each.
            chosen = hold_out(self._strata(targets), self.validation_fraction, seeds[0][2])
            held_out = series.take(chosen), targets[chosen]
            series, targets = series.take(~chosen), targets[~chosen]
            if weights is not None:
                weights, val_weights = weights[~chosen], weights[chosen]

        if reset:
            self.preprocessor_ = self._make_preprocessor().fit(series)
            config = self._model_config(max_len=int(series.lengths.max()))
            models = [_drawn_model(config, weights_seed) for weights_seed, _, _ in seeds]
            histories = [History() for _ in models]
            self._warn_if_blind(models[0])
        else:
            self._check_same_shape()
            models = list(self.models_)
            histories = [History(earlier) for earlier in self.histories_]

        plan = self._training_plan(
            n_cases=len(series),
            n_tokens=models[0].max_tokens,
            validated=held_out is not None and self._stops_early(len(series), given=True),
            seed=seeds[0][1],
        )
        validation = None
        if held_out is not None:
            validation = self._validation(*held_out, val_weights, plan.device)
        # Set before training, so that what a stop by error leaves behind is fitted all the same.
        self.models_, self.device_, self.histories_ = models, plan.device, histories
        return TrainingJob(
            models=models,
            panel=self.preprocessor_.transform(series),
            targets=torch.from_numpy(targets),
            plans=[replace(plan, seed=training_seed) for _, training_seed, _ in seeds],
            weights=_normalised(weights),
            validation=validation,
            callbacks=self._member_callbacks(plan),
            histories=histories,
        )

    def _read(self, X: Any, times: Any = None, *, reset: bool) -> Padded:
        """Check `X` and convert it; with `reset` learn what later calls must agree with."""
        columns: list[bool] = []  # filled where X is one array of all series

        def check(array: Any) -> npt.NDArray[Any]:
            checks = {"dtype": "numeric", "allow_nd": True, "ensure_all_finite": False}
            # Columns of a 2-D X are features to scikit-learn, which then insists on their number.
            # With channels given, only these are features, and series may have any length.
            if reset or (self._columns_are_steps and np.asarray(array).ndim <= 2):
                array = validate_data(self, array, reset=reset, **checks)
            else:
                array = check_array(array, **checks)
            columns.append(array.ndim == 2)
            return array

        series = to_padded(X, times, index=self.timestamps == "index", check=check)
        n_channels = series.values.shape[2]
        if reset:
            self.n_channels_, self._clock = n_channels, series.clock
            self._columns_are_steps = columns == [True]
            if not columns:
                self.n_features_in_ = n_channels
        elif n_channels != self.n_channels_:
            alone = columns == [True] and len(series) == self.n_channels_
            raise ValueError(
                f"X has {n_channels} channels, but {type(self).__name__} was fitted with "
                f"{self.n_channels_}; "
                "X must be (n, channels, length), or a list of (channels, length) arrays"
                + ("; one series alone is X[None]" if alone else "")
            )
        elif series.clock != self._clock:
            raise ValueError(
                f"{type(self).__name__} was fitted with {_kind(self._clock)}, but X comes with "
                f"{_kind(series.clock)}; give times of the same kind to both"
            )
        if not columns:
            self._check_channel_names(series.channels, reset=reset)
        return series

    def _check_channel_names(self, channels: tuple[str, ...] | None, *, reset: bool) -> None:
        """Let scikit-learn compare the channels' names: another order would go unnoticed."""
        named = pd.DataFrame(columns=channels) if channels else np.empty((0, self.n_channels_))
        if channels or (not reset and hasattr(self, "feature_names_in_")):
            validate_data(self, named, reset=reset, skip_check_array=True, ensure_2d=False)
        elif reset and hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def _given_validation(
        self, X_val: Any, y_val: Any, times_val: Any
    ) -> tuple[Padded, Targets] | None:
        if (X_val is None) != (y_val is None):
            raise ValueError(
                f"X_val and y_val go together; {'y_val' if y_val is None else 'X_val'} is missing"
            )
        if X_val is None:
            if times_val is not None:
                raise ValueError("times_val are the times of X_val, which is missing")
            return None
        series = self._read(X_val, times_val, reset=False)
        targets = self._targets(y_val, "y_val", reset=False)
        check_consistent_length(series.values, targets)
        return series, targets

    def _validation(
        self, series: Padded, targets: Targets, weights: Targets | None, device: torch.device
    ) -> Validation:
        panel = self.preprocessor_.transform(series).to(device)
        # The loss that stops the training is the one that is trained.
        loss_weights = _normalised(weights)
        if loss_weights is not None:
            loss_weights = loss_weights.to(device)
        return Validation(
            panel, torch.from_numpy(targets).to(device), self._val_score, loss_weights
        )

    def _stops_early(self, n_cases: int, *, given: bool) -> bool:
        """Whether validation data stop the training; `given` says that the caller brings them."""
        if self.early_stopping == "auto":
            return given or n_cases >= AUTO_EARLY_STOPPING_CASES
        return bool(self.early_stopping)

    def _make_preprocessor(self) -> Preprocessor:
        return Vocabulary() if self.stem == "embedding" else Scaler(self.scaling)

    def _model_config(self, *, max_len: int) -> ModelConfig:
        """Return the shape of the model for what `preprocessor_` makes of series."""
        return ModelConfig(
            n_channels=self.preprocessor_.n_inputs,
            n_outputs=self._n_outputs(),
            max_len=max_len,
            encoding=self.encoding,
            encoding_params=dict(self.encoding_params or {}),
            stem=self.stem,
            stem_params={**(self.stem_params or {}), **self.preprocessor_.stem_params()},
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

    def _member_callbacks(self, plan: TrainingPlan) -> list[list[Callback]]:
        """Return the callbacks of each member: the user's see all of them in turn."""
        callbacks = [list(self.callbacks or ()) for _ in range(self.n_estimators)]
        if self.verbose:
            # Vectorized members advance together, and one bar shows it.
            for own in callbacks[:1] if plan.device.type == "cuda" else callbacks:
                own.append(ProgressBar())
        return callbacks

    def _drop_untrained(self) -> None:
        """Drop members that never finished an epoch, except the first."""
        kept = [i for i, history in enumerate(self.histories_) if history] or [0]
        self.models_ = [self.models_[i].to(self.device_).eval() for i in kept]
        self.histories_ = [self.histories_[i] for i in kept]

    def _check_same_shape(self) -> None:
        """Raise ValueError where a warm start cannot go on with the fitted models."""
        if len(self.models_) != self.n_estimators:
            raise ValueError(
                f"warm_start=True goes on with the {len(self.models_)} fitted members, but "
                f"n_estimators is {self.n_estimators}; set it to their number, or start anew with "
                "warm_start=False"
            )
        fitted = self.model_.config
        asked = self._model_config(max_len=fitted.max_len)
        for name, value in vars(asked).items():
            if getattr(fitted, name) != value:
                raise ValueError(
                    f"warm_start=True goes on with the fitted model, but {name} changed from "
                    f"{getattr(fitted, name)!r} to {value!r}; set it back, or start anew with "
                    "warm_start=False"
                )

    def _warn_if_blind(self, model: TSTransformer) -> None:
        blind = model.encoding.symmetric and model.stem.pointwise
        if blind and self.encoding != "none":  # "none" is asked for as the control it is
            signed = (
                "; or tell it the direction: encoding_params={'signed': True}"
                if self.encoding == "alibi"
                else ""
            )
            warnings.warn(
                f"encoding {self.encoding!r} sees only distances, and the {self.stem!r} stem "
                "single steps: this model cannot tell a series from its reverse. Use stem='conv', "
                f"or add an encoding with a direction, as in 'tape+{self.encoding}'{signed}",
                stacklevel=4,
            )

    # Predicting.

    def transform(self, X: Any, times: Any = None) -> npt.NDArray[np.float32]:
        """Embed series: what the head sees after pooling.

        Parameters
        ----------
        X : as in `fit`
            Series with the channels of those in `fit`, of any length.
        times : as in `fit`, optional
            Their times, if `fit` had times.

        Returns
        -------
        ndarray (n, n_estimators * d_model) of float32
            The embeddings of several members side by side: each has a space of its own.
        """
        return np.concatenate(list(self._outputs(X, times, "embed")), axis=1)

    @property
    def _n_features_out(self) -> int:
        return len(self.models_) * self.model_.config.d_model

    def _outputs(
        self, X: Any, times: Any = None, function: str = "forward"
    ) -> npt.NDArray[np.float32]:
        """Run the models, or another method of them, over `X`: ``[members, n, ...]``."""
        check_is_fitted(self)
        series = self._read(X, times, reset=False)
        panel = self.preprocessor_.transform(series).to(self.device_)
        bfloat16 = resolve_precision(self.precision, self.device_)
        outputs = np.stack(
            [
                forward(model, panel, bfloat16=bfloat16, function=getattr(model, function)).numpy()
                for model in self.models_
            ]
        )
        finite = np.isfinite(outputs).all(axis=(0, 2))
        if not finite.all():
            case = int(np.flatnonzero(~finite)[0])
            raise ValueError(
                f"the model's outputs for series {case} are not finite: after scaling its values "
                f"reach {float(panel.values[case].abs().max()):.3g}, far from what training saw; "
                "look for wrong units or marks of missing values in X"
            )
        return outputs

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model: a `fit` that refused its arguments leaves other traces."""
        return hasattr(self, "models_")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = self.stem == "embedding"
        # An embedding is float32, whatever came.
        tags.transformer_tags.preserves_dtype = ["float32"]
        return tags

    # Members: models that differ only in their seed.

    @property
    def model_(self) -> TSTransformer:
        """The torch module; of several the first, which is that of ``n_estimators=1``."""
        return self.models_[0]

    @property
    def history_(self) -> History:
        """The epochs trained; of several members their mean, and the sum of their seconds."""
        return self.histories_[0] if len(self.histories_) == 1 else _mean(self.histories_)

    @property
    def n_iter_(self) -> int:
        """Epochs trained, of the member that trained longest."""
        return max(1, *map(len, self.histories_))

    @property
    def estimators_(self) -> list[Self]:
        """Each member as a fitted estimator of its own, with ``n_estimators=1``.

        They share the models with this one. The `random_state` of each is the int that trains it
        alone, if this one's is an int.
        """
        parameters = self.get_params(deep=False)
        learned = {key: value for key, value in vars(self).items() if key not in parameters}
        parameters["n_estimators"] = 1
        members = []
        for i, (model, history) in enumerate(zip(self.models_, self.histories_, strict=True)):
            member = type(self)(**parameters | {"random_state": self._member_state(i)})
            member.__dict__.update(learned)
            member.models_, member.histories_ = [model], [history]
            members.append(member)
        return members

    def _member_state(self, member: int) -> Any:
        """Return the `random_state` that trains a member alone, or None where there is none."""
        if not isinstance(self.random_state, (int, np.integer)):
            return None
        return self.random_state if member == 0 else _derived(_drawn(self.random_state), member)

    def _seeds(self) -> list[MemberSeeds]:
        """Derive the seeds of all members from `random_state`.

        Those of the first are what they are for one model. A further one has the seeds of one
        model whose `random_state` is an int derived from this one's.
        """
        drawn = _drawn(self.random_state)
        further = [_drawn(_derived(drawn, member)) for member in range(1, self.n_estimators)]
        return [_three(seed) for seed in (drawn, *further)]

    # Saving, pickling, moving.

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to a folder; read it with `tsformer.load`.

        A kill in the middle leaves the old folder or none, never half of one.

        Parameters
        ----------
        path : str or path
            A folder to make, or one made by an earlier `save`, which is replaced. The parameters
            `callbacks`, `checkpoint_dir`, `device` and `resume` are not saved.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            If there is nothing to save yet.
        ValueError
            If `path` is something other than such a folder, or a parameter cannot be written as
            JSON: an encoding given as a class is written by its registered name, a factory cannot
            be.
        """
        check_is_fitted(self)
        persistence.write_folder(path, *self._fitted_state())

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return all that makes a fitted estimator: a description for JSON, and named tensors."""
        parameters = self.get_params(deep=False) | NOT_SAVED
        parameters["encoding"] = _by_name(parameters["encoding"])
        if isinstance(parameters.get("class_weight"), dict):
            # JSON keys are strings; pairs keep the labels' types.
            parameters["class_weight"] = {"pairs": list(parameters["class_weight"].items())}
        # Not to be derived from the parameters, which may have been set anew since the fit.
        model = dict(vars(self.model_.config))
        model["encoding"] = _by_name(model["encoding"])
        description = {
            "class": type(self).__name__,
            "parameters": parameters,
            **self._describe_targets(),
            "columns_are_steps": self._columns_are_steps,
            "n_features_in": self.n_features_in_,
            "n_channels": self.n_channels_,
            "model": model,
            **self.preprocessor_.describe(),
            "clock": self._clock,
            "feature_names_in": getattr(self, "feature_names_in_", np.empty(0)).tolist(),
            **_describe_history(self.histories_[0]),
            # Of further members, beside those of the first, which version 0.1.0 reads alone.
            "members": [_describe_history(history) for history in self.histories_[1:]],
        }
        prefix = self.preprocessor_.prefix
        tensors = {prefix + k: v for k, v in self.preprocessor_.state_dict().items()}
        for prefix, fitted in zip(_prefixes(len(self.models_)), self.models_, strict=True):
            tensors |= {prefix + k: v for k, v in fitted.state_dict().items()}
        return description, tensors

    @classmethod
    def _from_fitted_state(
        cls, state: dict[str, Any], tensors: dict[str, Tensor], device: str | torch.device
    ) -> Self:
        """Make the estimator that `_fitted_state` described.

        Raises
        ------
        KeyError, TypeError, RuntimeError, ValueError
            If the two do not describe one.
        """
        parameters = dict(state["parameters"])
        if isinstance(parameters.get("class_weight"), dict):
            parameters["class_weight"] = {k: v for k, v in parameters["class_weight"]["pairs"]}
        estimator = cls(**parameters | {"device": device})
        estimator._restore_targets(state)
        estimator._columns_are_steps = state["columns_are_steps"]
        estimator.n_features_in_ = state["n_features_in"]
        estimator.n_channels_ = state["n_channels"]
        if state["feature_names_in"]:
            estimator.feature_names_in_ = np.array(state["feature_names_in"], dtype=object)
        estimator.histories_ = [
            _restore_history(each) for each in (state, *state.get("members", ()))
        ]
        estimator._clock = state["clock"]
        config = ModelConfig(**state["model"])
        try:
            estimator.models_ = [_drawn_model(config, 0).eval() for _ in estimator.histories_]
        except ValueError as error:
            raise ValueError(
                f"{error}. If the encoding {config.encoding!r} is your own, import the module that "
                "defines it, then load"
            ) from error
        left = dict(tensors)
        for prefix, model in zip(_prefixes(len(estimator.models_)), estimator.models_, strict=True):
            own = [name for name in left if name.startswith(prefix)]
            model.load_state_dict({name.removeprefix(prefix): left.pop(name) for name in own})
        estimator.preprocessor_ = Preprocessor.restore(state, left)
        estimator._place(resolve_device(device))
        return estimator

    def __getstate__(self) -> dict[str, Any]:
        """Return what pickle and copies keep: everything, with the weights on the CPU."""
        state = super().__getstate__()
        # Parameters: kept. `callbacks` pickle themselves; the progress bar drops its display.
        # Learned from the data (classes, preprocessor, histories): kept; they are on the CPU.
        # Weights: moved to the CPU, so that a machine without this GPU can read them.
        if "models_" in state and self.device_.type != "cpu":
            state = {**state, "models_": [deepcopy(model).cpu() for model in self.models_]}
        # `device_`: kept, but `__setstate__` finds it anew from `device`.
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "models_"):
            self._place(self.device)

    def _place(self, device: str | torch.device) -> None:
        """Move the models to `device`, or with a warning to the CPU where it is missing."""
        try:
            self.device_ = resolve_device(device)
        except ValueError as error:
            warnings.warn(f"{error}; the model is on the CPU now", stacklevel=3)
            self.device_ = torch.device("cpu")
        for model in self.models_:
            model.to(self.device_)


def _kind(clock: str | None) -> str:
    return {None: "no times", "numbers": "times in numbers", "dates": "dates"}[clock]


def _normalised(weights: Targets | None) -> Tensor | None:
    """Return weights of mean 1, over the data set: per batch it would undo class weights."""
    if weights is None or not weights.any():
        return None
    return torch.from_numpy(weights / weights.mean()).float()


def _drawn_model(config: ModelConfig, seed: int) -> TSTransformer:
    """Return a model whose initial weights come from this seed."""
    with seeded(seed, torch.device("cpu")):
        return TSTransformer(config)


def _drawn(random_state: Any) -> int:
    """Return the one number that all seeds of a model come from."""
    if random_state is None:  # from the system: numpy's global generator is the user's
        entropy: Any = np.random.SeedSequence().entropy
        return int(entropy)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _derived(drawn: int, member: int) -> int:
    """Return the `random_state` of a further member."""
    return int(np.random.SeedSequence([drawn, member]).generate_state(1)[0])


def _three(drawn: int) -> MemberSeeds:
    weights, training, split = np.random.SeedSequence(drawn).generate_state(3)
    return int(weights), int(training), int(split)


def _mean(histories: list[History]) -> History:
    """Return each epoch's mean over the members that reached it, and the sum of their seconds."""
    mean = History()
    for epoch in range(max(map(len, histories))):
        rows = [history[epoch] for history in histories if len(history) > epoch]
        keys = [key for key in rows[0] if all(key in row for row in rows)]
        row = {key: fmean(row[key] for row in rows) for key in keys}
        row |= {"epoch": rows[0]["epoch"], "seconds": sum(row["seconds"] for row in rows)}
        mean.append(row)
    mean.interrupted = any(history.interrupted for history in histories)
    return mean


def _describe_history(history: History) -> dict[str, Any]:
    return {
        "history": list(history),
        "best_epoch": history.best_epoch,
        "interrupted": history.interrupted,
    }


def _restore_history(described: dict[str, Any]) -> History:
    history = History(described["history"])
    history.best_epoch = described["best_epoch"]
    history.interrupted = described["interrupted"]
    return history


def _prefixes(n_members: int) -> list[str]:
    """Return what the names of each member's tensors begin with."""
    return ["model.", *(f"members.{i}." for i in range(1, n_members))]


def _by_name(encoding: Any) -> Any:
    """Return the name of an encoding's class, where that name would find it again."""
    named = isinstance(encoding, type) and issubclass(encoding, PositionalEncoding)
    if named and encoding.name in names() and find(encoding.name) is encoding:
        return encoding.name
    return encoding
