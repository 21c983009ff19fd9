"""What every estimator does: train the model on series and targets, and run it."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length
from torch import Tensor

from tsformer.data.codes import CodeBook
from tsformer.data.panel import Padded, Panel
from tsformer.data.scaling import Scaler
from tsformer.estimators.holdout import hold_out
from tsformer.estimators.outputs import Outputs
from tsformer.estimators.parameters import Parameters
from tsformer.estimators.portable import Portable
from tsformer.model import TSTransformer
from tsformer.training import (
    Callback,
    History,
    ProgressBar,
    TrainingPlan,
    Validation,
)
from tsformer.training.ensemble.train import train_ensemble
from tsformer.training.seeds import seeded

__all__ = ["Prepared", "Targets", "TransformerEstimator"]

#: A number for each series [n]: the index of its class, or what a regression is after.
Targets = npt.NDArray[Any]


@dataclass
class Prepared:
    """What a training is given: the arguments of `train_ensemble` that the data decide."""

    models: list[TSTransformer]
    panel: Panel
    targets: Tensor
    plans: list[TrainingPlan]
    weights: Tensor | None
    validation: Validation | None
    callbacks: list[list[Callback]]
    histories: list[History]


class TransformerEstimator(
    Portable,
    Outputs,
    Parameters,
    BaseEstimator,
):
    """Base of the estimators of this package. Subclasses say what targets are."""

    @abstractmethod
    def _targets(self, y: Any, name: str, *, reset: bool) -> Targets:
        """Check `y`, called `name`, and convert it; with `reset` learn how."""

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
        """Return the group of each series; of each alike a part is held out."""
        return np.zeros(len(targets), dtype=np.int64)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model: a `fit` that refused its arguments leaves other traces."""
        return hasattr(self, "models_")

    def _continues(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "models_")

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None,
        times: Any,
        validation: tuple[Any, Any, Any],
    ) -> Self:
        """Fit; `validation` is X_val, y_val and times_val, as far as the caller has them."""
        prepared = self._prepare(X, y, sample_weight, times, validation)
        try:
            train_ensemble(**vars(prepared), loss=self._loss, n_jobs=self.n_jobs)
        finally:
            self._keep_trained()
        if len(self.models_) < len(prepared.models):
            warnings.warn(
                f"{len(self.models_)} of {len(prepared.models)} members are kept: those that were "
                "trained",
                stacklevel=3,
            )
        return self

    def _prepare(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None = None,
        times: Any = None,
        validation: tuple[Any, Any, Any] = (None, None, None),
    ) -> Prepared:
        """Check and read everything, and make the models; all of `fit` but the training."""
        self._check_parameters()
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        reset = not self._continues()
        series = self._read(X, times, reset=reset)
        targets = self._targets(y, "y", reset=reset)
        check_consistent_length(series.values, targets)
        weights = self._weights(sample_weight, targets)
        seeds = self._seeds()
        judged = self._given_validation(*validation)
        val_weights = None if judged is None else self._weights(None, judged[1])
        if judged is None and self._stops_early(len(targets), given=False):
            # One part for all members: what none of them has trained on judges each.
            held_out = hold_out(self._strata(targets), self.validation_fraction, seeds[0][2])
            judged = series.take(held_out), targets[held_out]
            series, targets = series.take(~held_out), targets[~held_out]
            if weights is not None:
                weights, val_weights = weights[~held_out], weights[held_out]
        if reset:
            models = self._make_models(series, [weights_seed for weights_seed, _, _ in seeds])
            histories = [History() for _ in models]
        else:
            self._check_same_shape()
            models = list(self.models_)
            histories = [History(earlier) for earlier in self.histories_]
        plan = self._training_plan(
            n_cases=len(series),
            n_tokens=models[0].max_tokens,
            validated=judged is not None and self._stops_early(len(series), given=True),
            seed=seeds[0][1],
        )
        judge = None
        if judged is not None:
            panel = self.scaler_.transform(judged[0]).to(plan.device)
            val_targets = torch.from_numpy(judged[1]).to(plan.device)
            # The loss that stops the training is the one that is trained.
            loss_weights = _normalised(val_weights)
            if loss_weights is not None:
                loss_weights = loss_weights.to(plan.device)
            judge = Validation(panel, val_targets, self._val_score, loss_weights)
        # Set before training, so that what a stop by error leaves behind is fitted all the same.
        self.models_, self.device_, self.histories_ = models, plan.device, histories
        return Prepared(
            models=models,
            panel=self.scaler_.transform(series),
            targets=torch.from_numpy(targets),
            plans=[replace(plan, seed=training_seed) for _, training_seed, _ in seeds],
            weights=_normalised(weights),
            validation=judge,
            callbacks=self._member_callbacks(plan),
            histories=histories,
        )

    def _member_callbacks(self, plan: TrainingPlan) -> list[list[Callback]]:
        """Return the callbacks of each member: the user's see all of them in turn."""
        callbacks = [list(self.callbacks or ()) for _ in range(self.n_estimators)]
        if self.verbose:
            # Members that train as one go on at one pace, and one bar shows it.
            for own in callbacks[:1] if plan.device.type == "cuda" else callbacks:
                own.append(ProgressBar())
        return callbacks

    def _keep_trained(self) -> None:
        """Forget members whose training never came to the end of an epoch, but for the first."""
        kept = [i for i, history in enumerate(self.histories_) if history] or [0]
        self.models_ = [self.models_[i].to(self.device_).eval() for i in kept]
        self.histories_ = [self.histories_[i] for i in kept]

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

    def _make_models(self, series: Padded, seeds: Sequence[int]) -> list[TSTransformer]:
        """Learn how values are read, and draw the weights of new models for them."""
        reader = CodeBook() if self.stem == "embedding" else Scaler(self.scaling)
        self.scaler_ = reader.fit(series)
        config = self._model_config(
            n_channels=self.scaler_.n_inputs,
            n_outputs=self._n_outputs(),
            max_len=int(series.lengths.max()),
            learned=self._learned(),
        )
        models = []
        for seed in seeds:
            with seeded(seed, torch.device("cpu")):
                models.append(TSTransformer(config))
        self._warn_if_blind(models[0])
        return models

    def _check_same_shape(self) -> None:
        if len(self.models_) != self.n_estimators:
            raise ValueError(
                f"warm_start=True goes on with the {len(self.models_)} fitted members, but "
                f"n_estimators is {self.n_estimators}; set it to their number, or start anew with "
                "warm_start=False"
            )
        fitted = self.model_.config
        asked = self._model_config(
            n_channels=self.scaler_.n_inputs,
            n_outputs=self._n_outputs(),
            max_len=fitted.max_len,
            learned=self._learned(),
        )
        for name, value in vars(asked).items():
            if getattr(fitted, name) != value:
                raise ValueError(
                    f"warm_start=True goes on with the fitted model, but {name} changed from "
                    f"{getattr(fitted, name)!r} to {value!r}; set it back, or start anew with "
                    "warm_start=False"
                )

    def _learned(self) -> dict[str, int]:
        """Return what the data decided about the stem."""
        return {"n_codes": self.scaler_.n_codes} if isinstance(self.scaler_, CodeBook) else {}

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


def _normalised(weights: Targets | None) -> Tensor | None:
    """Return weights of mean 1, over the data set: per batch it would undo class weights."""
    if weights is None or not weights.any():
        return None
    return torch.from_numpy(weights / weights.mean()).float()
