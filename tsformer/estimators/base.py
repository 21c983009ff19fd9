"""What every estimator does: train the model on series and targets, and run it."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted
from torch import Tensor

from tsformer.data.codes import CodeBook
from tsformer.data.panel import Padded
from tsformer.data.scaling import Scaler
from tsformer.estimators.holdout import hold_out
from tsformer.estimators.parameters import Parameters
from tsformer.estimators.portable import Portable
from tsformer.estimators.reading import SeriesReader
from tsformer.model import TSTransformer
from tsformer.training import History, ProgressBar, Validation, forward, train
from tsformer.training.plan import resolve_precision
from tsformer.training.seeds import seeded

__all__ = ["Targets", "TransformerEstimator"]

#: A number for each series [n]: the index of its class, or what a regression is after.
Targets = npt.NDArray[Any]


class TransformerEstimator(
    Portable,
    SeriesReader,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    Parameters,
    BaseEstimator,
):
    """Base of the estimators of this package. Subclasses say what targets are."""

    model_: TSTransformer
    scaler_: Scaler | CodeBook
    history_: History

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
        return hasattr(self, "model_")

    @property
    def _n_features_out(self) -> int:
        return self.model_.config.d_model

    def _seeds(self) -> tuple[int, int, int]:
        """Derive the seeds of weights, training and validation split from `random_state`."""
        seed = None  # from the system: numpy's global generator is the user's
        if self.random_state is not None:
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        init, training, split = np.random.SeedSequence(seed).generate_state(3)
        return int(init), int(training), int(split)

    def _continues(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "model_")

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: npt.ArrayLike | None,
        times: Any,
        validation: tuple[Any, Any, Any],
    ) -> Self:
        """Fit; `validation` is X_val, y_val and times_val, as far as the caller has them."""
        self._check_parameters()
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        reset = not self._continues()
        series = self._read(X, times, reset=reset)
        targets = self._targets(y, "y", reset=reset)
        check_consistent_length(series.values, targets)
        weights = self._weights(sample_weight, targets)
        init_seed, training_seed, split_seed = self._seeds()
        judged = self._given_validation(*validation)
        val_weights = None if judged is None else self._weights(None, judged[1])
        if judged is None and self._stops_early(len(targets), given=False):
            held_out = hold_out(self._strata(targets), self.validation_fraction, split_seed)
            judged = series.take(held_out), targets[held_out]
            series, targets = series.take(~held_out), targets[~held_out]
            if weights is not None:
                weights, val_weights = weights[~held_out], weights[held_out]
        plan = self._training_plan(
            n_cases=len(series),
            validated=judged is not None and self._stops_early(len(series), given=True),
            seed=training_seed,
        )
        if reset:
            model, earlier = self._make_model(series, init_seed), History()
        else:
            model, earlier = self.model_, self.history_
            self._check_same_shape()
        judge = None
        if judged is not None:
            panel = self.scaler_.transform(judged[0]).to(plan.device)
            val_targets = torch.from_numpy(judged[1]).to(plan.device)
            # The loss that stops the training is the one that is trained.
            loss_weights = _normalised(val_weights)
            if loss_weights is not None:
                loss_weights = loss_weights.to(plan.device)
            judge = Validation(panel, val_targets, self._val_score, loss_weights)
        history = History(earlier)
        # Set before training, so that what a stop by error leaves behind is fitted all the same.
        self.model_, self.device_, self.history_ = model, plan.device, history
        try:
            train(
                model,
                self.scaler_.transform(series),
                torch.from_numpy(targets),
                self._loss,
                plan,
                weights=_normalised(weights),
                validation=judge,
                callbacks=[*(self.callbacks or ()), *([ProgressBar()] if self.verbose else [])],
                history=history,
            )
        finally:
            self.n_iter_ = max(len(history), 1)
        return self

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

    def _make_model(self, series: Padded, seed: int) -> TSTransformer:
        """Learn how values are read, and draw the weights of a new model for them."""
        reader = CodeBook() if self.stem == "embedding" else Scaler(self.scaling)
        self.scaler_ = reader.fit(series)
        config = self._model_config(
            n_channels=self.scaler_.n_inputs,
            n_outputs=self._n_outputs(),
            max_len=int(series.lengths.max()),
            learned=self._learned(),
        )
        with seeded(seed, torch.device("cpu")):
            model = TSTransformer(config)
        self._warn_if_blind(model)
        return model

    def _check_same_shape(self) -> None:
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

    def _outputs(
        self, X: Any, times: Any = None, function: str = "forward"
    ) -> npt.NDArray[np.float32]:
        """Run the model, or another method of it, over `X`."""
        check_is_fitted(self)
        panel = self.scaler_.transform(self._read(X, times, reset=False)).to(self.device_)
        outputs = forward(
            self.model_,
            panel,
            bfloat16=resolve_precision(self.precision, self.device_),
            function=getattr(self.model_, function),
        ).numpy()
        if not np.isfinite(outputs).all():
            case = int(np.flatnonzero(~np.isfinite(outputs).all(axis=1))[0])
            raise ValueError(
                f"the model's outputs for series {case} are not finite: after scaling its values "
                f"reach {float(panel.values[case].abs().max()):.3g}, far from what training saw; "
                "look for wrong units or marks of missing values in X"
            )
        return outputs

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
        ndarray (n, d_model) of float32
        """
        return self._outputs(X, times, "embed")


def _normalised(weights: Targets | None) -> Tensor | None:
    """Return weights of mean 1, over the data set: per batch it would undo class weights."""
    if weights is None or not weights.any():
        return None
    return torch.from_numpy(weights / weights.mean()).float()
