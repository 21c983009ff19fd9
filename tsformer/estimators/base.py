"""What every estimator does: read X, train the model, run it. Knows nothing of labels."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from tsformer.data.codes import CodeBook
from tsformer.data.panel import Scaler, is_ragged, to_panel
from tsformer.estimators.parameters import Parameters
from tsformer.model import TSTransformer
from tsformer.training import History, ProgressBar, Validation, forward, train
from tsformer.training.loop import Loss
from tsformer.training.plan import resolve_device, resolve_precision
from tsformer.training.seeds import seeded

__all__ = ["Series", "TransformerEstimator"]

#: Padded values [n, L, C] and the length of each series.
Series = tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.int64]]


class TransformerEstimator(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, Parameters, BaseEstimator
):
    """Base of the estimators of this package."""

    model_: TSTransformer
    scaler_: Scaler | CodeBook
    history_: History

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.categorical = self.stem == "embedding"
        tags.transformer_tags.preserves_dtype = [
            "float32"
        ]  # an embedding is float32, whatever came
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        """Whether there is a model: a `fit` that refused its arguments leaves other traces."""
        return hasattr(self, "model_")

    @property
    def _n_features_out(self) -> int:
        return self.model_.config.d_model

    def _read(self, X: Any, *, reset: bool) -> Series:
        """Check `X` and convert it; with `reset` learn what later calls must agree with."""
        if is_ragged(X):
            series = to_panel(X)
            if reset:
                self._columns_are_steps = False
                self.n_features_in_ = series[0].shape[2]
                if hasattr(self, "feature_names_in_"):
                    del self.feature_names_in_
        else:
            checks = {"dtype": "numeric", "allow_nd": True, "ensure_all_finite": False}
            # Columns of a 2-D X are features to scikit-learn, which then insists on their number.
            # With channels given, only these are features, and series may have any length.
            as_features = reset or (self._columns_are_steps and np.asarray(X).ndim <= 2)
            X = (
                validate_data(self, X, reset=reset, **checks)
                if as_features
                else check_array(X, **checks)
            )
            if reset:
                self._columns_are_steps = X.ndim == 2
            series = to_panel(X)
        n_channels = series[0].shape[2]
        if reset:
            self.n_channels_ = n_channels
        elif n_channels != self.n_channels_:
            raise ValueError(
                f"X has {n_channels} channels, but {type(self).__name__} was fitted with "
                f"{self.n_channels_}; "
                "X must be (n, channels, length), or a list of (channels, length) arrays"
            )
        return series

    def _seeds(self) -> tuple[int, int, int]:
        """Derive the seeds of weights, training and validation split from `random_state`."""
        seed = None  # from the system: numpy's global generator is the user's
        if self.random_state is not None:
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        init, training, split = np.random.SeedSequence(seed).generate_state(3)
        return int(init), int(training), int(split)

    def _continues(self) -> bool:
        return bool(self.warm_start) and hasattr(self, "model_")

    def _train(
        self,
        series: Series,
        targets: Tensor,
        loss: Loss,
        *,
        n_outputs: int,
        seeds: tuple[int, int, int],
        weights: Tensor | None = None,
        validation: tuple[Series, Tensor, Callable[[Tensor, Tensor], float]] | None = None,
    ) -> None:
        """Make the model, or go on with it, train it, and set what a fitted estimator has."""
        values, lengths = series
        plan = self._training_plan(
            n_cases=len(values),
            validated=validation is not None and self._stops_early(len(values), given=True),
            seed=seeds[1],
        )
        if self._continues():
            model, earlier = self.model_, self.history_
            self._check_same_shape(n_outputs)
        else:
            earlier = History()
            reader = CodeBook() if self.stem == "embedding" else Scaler(self.scaling)
            self.scaler_ = reader.fit(values, lengths)
            config = self._model_config(
                n_channels=values.shape[2],
                n_outputs=n_outputs,
                max_len=int(lengths.max()),
                learned=self._learned(),
            )
            with seeded(seeds[0], torch.device("cpu")):
                model = TSTransformer(config)
            self._warn_if_blind(model)
        judge = None
        if validation is not None:
            (val_values, val_lengths), val_targets, score = validation
            panel = self.scaler_.transform(val_values, val_lengths).to(plan.device)
            judge = Validation(panel, val_targets.to(plan.device), score)
        history = History(earlier)
        # Set before training, so that what a stop by error leaves behind is fitted all the same.
        self.model_, self.device_, self.history_ = model, plan.device, history
        try:
            train(
                model,
                self.scaler_.transform(values, lengths),
                targets,
                loss,
                plan,
                weights=weights,
                validation=judge,
                callbacks=[*(self.callbacks or ()), *([ProgressBar()] if self.verbose else [])],
                history=history,
            )
        finally:
            self.n_iter_ = max(len(history), 1)

    def _check_same_shape(self, n_outputs: int) -> None:
        fitted = self.model_.config
        asked = self._model_config(
            n_channels=self.n_channels_,
            n_outputs=n_outputs,
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

    def _outputs(self, X: Any, function: str = "forward") -> npt.NDArray[np.float32]:
        """Run the model, or another method of it, over `X`."""
        check_is_fitted(self)
        panel = self.scaler_.transform(*self._read(X, reset=False)).to(self.device_)
        outputs = forward(
            self.model_,
            panel,
            bfloat16=resolve_precision(self.precision, self.device_),
            function=getattr(self.model_, function),
        )
        return outputs.numpy()

    def transform(self, X: Any) -> npt.NDArray[np.float32]:
        """Embed series: what the head sees after pooling.

        Parameters
        ----------
        X : ndarray (n, length) or (n, channels, length), or list of (channels, length) arrays
            Series with the channels of those in `fit`.

        Returns
        -------
        ndarray (n, d_model) of float32
        """
        return self._outputs(X, "embed")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to the folder `path`; read it with `tsformer.load`.

        See `tsformer.persistence`.
        """
        from tsformer.persistence import save

        save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the device behind: weights travel on the CPU, to be read where there is no GPU."""
        state = super().__getstate__()
        if "model_" in state and self.device_.type != "cpu":
            from copy import deepcopy

            state = {**state, "model_": deepcopy(self.model_).cpu()}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "model_"):
            self._place(self.device)

    def _place(self, device: str | torch.device) -> None:
        """Move the model to `device`, or with a warning to the CPU where there is none."""
        try:
            self.device_ = resolve_device(device)
        except ValueError as error:
            warnings.warn(f"{error}; the model is on the CPU now", stacklevel=3)
            self.device_ = torch.device("cpu")
        self.model_.to(self.device_)
