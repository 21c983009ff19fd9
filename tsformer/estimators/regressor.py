"""TSTransformerRegressor: the transformer as a scikit-learn regressor."""

from dataclasses import field, replace
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import assert_all_finite
from torch import Tensor

from tsformer._checks import one_of, with_parameters
from tsformer._precision import in_plain_torch
from tsformer.augmentation import AugmentationSpec
from tsformer.data.layout import check_ids
from tsformer.data.preprocessor import ROUNDING, summarise
from tsformer.estimators import recipe
from tsformer.estimators.base import TransformerEstimator
from tsformer.estimators.saved import REGRESSION, check_fields
from tsformer.estimators.series import TrainingData
from tsformer.estimators.targets import (
    Targets,
    check_length,
    read_as_fitted,
    read_columns,
    read_weights,
)
from tsformer.model import ModelConfig
from tsformer.model.layers import HEAD_NORMS


@with_parameters
class TSTransformerRegressor(MultiOutputMixin, RegressorMixin, TransformerEstimator):
    """Time-series extrinsic regression: predict one or several numbers from each series.

    The model of `TSTransformerClassifier`, with an output for each target. It minimises the squared
    error of the targets, each scaled to mean 0 and standard deviation 1.

    Parameters
    ----------
    encoding : str, PositionalEncoding subclass or factory, default="lspe"
        A name from ``tsformer.encodings.names()``, a sum of names such as ``"tape+erpe"``, or an
        encoding of your own.
    encoding_params, stem, stem_params, d_model, n_heads, n_layers, d_ff, dropout, norm_first, \
    pooling, head_norm, scaling, views, view_params, timestamps, augmentation, \
    augmentation_params, init_from, freeze, pretrained_lr_scale, \
    max_epochs, batch_size, learning_rate, weight_decay, early_stopping, \
    validation_fraction, n_iter_no_change, n_estimators, n_jobs, n_threads, callbacks, \
    warm_start, device, precision, compile, checkpoint_dir, checkpoint_minutes, resume, \
    random_state, verbose
        As in `TSTransformerClassifier`, except for these defaults: `views` is "values",
        `augmentation` is None, and the stem has no residual layer, as these parts help on some
        regression problems and harm on others. ``scaling="auto"`` is "channel" unless ridge
        regression on random convolutions predicts left-out series from "series" or "series+size"
        with a tenth less squared error. ``head_norm="auto"`` is "batch" if this regression explains
        a third of the variance, and None otherwise, where the norm fits noise.

    Attributes
    ----------
    target_mean_, target_std_ : float or ndarray (n_targets,)
        Mean and standard deviation of the training targets.
    n_features_in_, n_channels_, n_iter_, history_, preprocessor_, model_, models_, histories_, \
    estimators_, device_
        As in `TSTransformerClassifier`; the validation score is R².

    See Also
    --------
    TSTransformerClassifier : The same model for class labels; documents the parameters.

    Examples
    --------
    >>> from tsformer import TSTransformerRegressor, load_dataset
    >>> X, _ = load_dataset("ItalyPowerDemand", split="train")
    >>> evening = X[:, 0, 18:].max(axis=1)
    >>> reg = TSTransformerRegressor(encoding="rope", max_epochs=5, random_state=0)
    >>> reg.fit(X[..., :18], evening).predict(X[:3, :, :18]).shape
    (3,)
    """

    head_norm: Annotated[str | None, one_of("auto", *HEAD_NORMS, None)] = "auto"
    views: str = "values"
    augmentation: AugmentationSpec | None = None

    target_mean_: float | npt.NDArray[np.float64] = field(init=False)
    target_std_: float | npt.NDArray[np.float64] = field(init=False)

    _score_name = "R²"
    #: The norm that ``head_norm="auto"`` chose in this fit.
    _norm: str | None = field(init=False)

    @in_plain_torch
    def predict(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Predict the target of each series; for several members, the mean of their predictions.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n,) or (n, n_targets) of float64
        """
        outputs = self._outputs(X, times).astype(np.float64)
        outputs = outputs if self._target_shape else outputs[..., 0]
        members: npt.NDArray[np.float64] = outputs * self.target_std_ + self.target_mean_
        return members.mean(axis=0)

    @in_plain_torch
    def score(
        self, X: Any, y: Any, sample_weight: npt.ArrayLike | None = None, *, times: Any = None
    ) -> float:
        """Compute the coefficient of determination R² of `predict`; of several targets, the mean.

        Parameters
        ----------
        X, times : as in `transform`
        y : array-like (n,) or (n, n_targets)
            True targets.
        sample_weight : array-like (n,), optional
            Weight of each series.

        Returns
        -------
        float
        """
        from sklearn.metrics import r2_score  # here, as in scikit-learn: importing it is slow

        check_ids(X, y, "y")
        check_ids(X, sample_weight, "sample_weight")
        self._check_target_names(y)
        predicted = self.predict(X, times)
        targets = read_as_fitted(y, "y", self._target_shape)
        check_length(len(predicted), targets, "y")
        weights = None if sample_weight is None else read_weights(sample_weight, len(targets))
        return float(r2_score(targets, predicted, sample_weight=weights))

    def _targets(self, y: Any, name: str, *, reset: bool) -> Targets:
        columns = read_columns(y)
        shape = self._target_shape if not reset else () if columns is None else columns.shape[1:]
        targets = read_as_fitted(y, name, shape)
        if targets.dtype.kind in "mM":  # their numbers depend on the unit of the dtype
            raise ValueError(
                f"{name} must hold numbers; its dtype is {targets.dtype}: convert dates and "
                "durations first, as with y.dt.total_seconds()"
            )
        try:
            targets = targets.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} must hold numbers: {error}. For class labels use TSTransformerClassifier"
            ) from error
        assert_all_finite(targets, input_name=name)
        if reset and not shape:
            self.target_mean_, self.target_std_ = _moments(targets, name)
        elif reset:
            moments = [_moments(column, name) for column in targets.T]
            self.target_mean_, self.target_std_ = np.array(moments).T
        scaled: Targets = (targets - self.target_mean_) / self.target_std_
        too_large = np.abs(scaled) > np.finfo(np.float32).max
        if too_large.any():
            case, *column = np.argwhere(too_large)[0].tolist()
            raise ValueError(
                f"{name} is too large for float32 after scaling by the mean and standard "
                f"deviation of y: {targets[case, *column]:.3g} at series {case}; remove the outlier"
            )
        return scaled.astype(np.float32)

    @property
    def _target_shape(self) -> tuple[int, ...]:
        return np.shape(self.target_mean_)

    def _choose_scaling(self, source: Any, data: TrainingData) -> str | None:
        scaling = super()._choose_scaling(source, data)
        self._norm = None
        chooses = recipe.is_auto(self.scaling) and source is None and self.stem == "conv"
        if chooses or self.head_norm == "auto":
            scalings = recipe.REGRESSION_SCALINGS if chooses else (scaling,)
            given = data.series, data.targets, data.weights, data.groups
            scaling, explained = recipe.regression_recipe(*given, scalings)
            self._norm = "batch" if explained >= recipe.LEAST_EXPLAINED else None
        return scaling

    def _model_config(self, max_len: int, **sizes: Any) -> ModelConfig:
        config = super()._model_config(max_len, **sizes)
        if config.head_norm != "auto":
            return config
        if hasattr(self, "_norm"):
            return replace(config, head_norm=self._norm)
        fitted = self.model_.config.head_norm if hasattr(self, "models_") else None
        return replace(config, head_norm=fitted)

    @property
    def _purpose(self) -> str:
        n = self._n_outputs()
        return "Predicts a number" if n == 1 else f"Predicts {n} numbers"

    def _weighted(self, data: TrainingData, *, reset: bool) -> TrainingData:
        weighted = super()._weighted(data, reset=reset)
        if reset and len(weighted) < len(data):
            targets = weighted.targets * self.target_std_ + self.target_mean_
            weighted.targets = self._targets(targets, "y", reset=True)
        return weighted

    def _describe_targets(self) -> dict[str, Any]:
        moments = {"target_mean": self.target_mean_, "target_std": self.target_std_}
        return {name: np.asarray(moment).tolist() for name, moment in moments.items()}

    def _restore_targets(self, described: dict[str, Any]) -> None:
        check_fields(described, REGRESSION)
        moments = [described["target_mean"], described["target_std"]]
        if np.shape(moments[0]) != np.shape(moments[1]):
            raise ValueError("target_mean and target_std must have the same length")
        self.target_mean_, self.target_std_ = (
            np.array(moment) if isinstance(moment, list) else moment for moment in moments
        )

    def _n_outputs(self) -> int:
        return int(np.prod(self._target_shape))

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        errors = (outputs.reshape(targets.shape) - targets).square()
        return errors if errors.ndim == 1 else errors.mean(dim=1)

    def _val_score(self, outputs: Tensor, targets: Tensor) -> float:
        residual = (outputs.reshape(targets.shape) - targets).square().sum(dim=0)
        total = (targets - targets.mean(dim=0)).square().sum(dim=0)
        # As in scikit-learn, 0 or 1 for a constant target.
        total = total.where(total > 0, residual.clamp(min=torch.finfo(total.dtype).tiny))
        return 1.0 - (residual / total).mean().item()


def _moments(targets: npt.NDArray[np.float64], name: str) -> tuple[float, float]:
    """Return mean and standard deviation; for constant targets, the rounding error."""
    values = torch.from_numpy(targets)
    summary = summarise(values, torch.ones_like(values, dtype=torch.bool), dim=(0,))
    mean, std = summary.mean.item(), summary.std.item()
    if not np.isfinite(std):
        raise ValueError(
            f"the variance of {name} overflows float64: its targets are from {targets.min():.3g} "
            f"to {targets.max():.3g}; divide {name} by a constant first"
        )
    return mean, (ROUNDING * abs(mean) or 1.0) if summary.constant.item() else std
