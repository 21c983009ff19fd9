"""TSTransformerRegressor: the transformer as a scikit-learn regressor."""

from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Self

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
    Target,
    Targets,
    check_length,
    columns_of,
    read_as_fitted,
    read_columns,
    read_weights,
    refuse_no_targets,
)
from tsformer.model import ModelConfig
from tsformer.model.layers import HEAD_NORMS


@dataclass(frozen=True, eq=False)
class Numbers(Target):
    """One or several numbers, scaled to mean 0 and deviation 1: the squared error."""

    mean: Any
    std: Any
    score_name: ClassVar = "R²"

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.mean)

    @property
    def n_outputs(self) -> int:
        return int(np.prod(self.shape))

    @property
    def purpose(self) -> str:
        return "Predicts a number" if self.n_outputs == 1 else f"Predicts {self.n_outputs} numbers"

    @classmethod
    def learn(cls, y: Any, sample_weight: Any) -> Self:
        """Learn mean and deviation from the training series, without those of weight 0."""
        refuse_no_targets(y, "y")
        columns = read_columns(y)
        targets = _read_numbers(y, "y", () if columns is None else columns.shape[1:])
        if sample_weight is not None:
            targets = targets[read_weights(sample_weight, len(targets)) > 0]
        moments = [_moments(column, "y") for column in np.atleast_2d(targets.T)]
        mean, std = np.array(moments).T if targets.ndim > 1 else moments[0]
        return cls(mean, std, columns=columns_of(y))

    def encode(self, y: Any, name: str, n_series: int, *, of: str = "X") -> Targets:
        refuse_no_targets(y, name)
        self.check_columns(y, name)
        targets = _read_numbers(y, name, self.shape)
        check_length(n_series, targets, name, of=of)
        scaled: Targets = (targets - self.mean) / self.std
        too_large = np.abs(scaled) > np.finfo(np.float32).max
        if too_large.any():
            case, *column = np.argwhere(too_large)[0].tolist()
            raise ValueError(
                f"{name} is too large for float32 after scaling by the mean and standard "
                f"deviation of y: {targets[case, *column]:.3g} at series {case}; remove the outlier"
            )
        return scaled.astype(np.float32)

    def decode(self, outputs: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the numbers of outputs ``[..., n_outputs]``."""
        outputs = outputs if self.shape else outputs[..., 0]
        numbers: npt.NDArray[np.float64] = outputs * self.std + self.mean
        return numbers

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        errors = (outputs.reshape(targets.shape) - targets).square()
        return errors if errors.ndim == 1 else errors.mean(dim=1)

    def score(self, outputs: Tensor, targets: Tensor) -> float:
        residual = (outputs.reshape(targets.shape) - targets).square().sum(dim=0)
        total = (targets - targets.mean(dim=0)).square().sum(dim=0)
        # As in scikit-learn, 0 or 1 for a constant target.
        total = total.where(total > 0, residual.clamp(min=torch.finfo(total.dtype).tiny))
        return 1.0 - (residual / total).mean().item()


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

    target_: Numbers = field(init=False)

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
        return self.target_.decode(outputs).mean(axis=0)

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
        self.target_.check_columns(y)
        predicted = self.predict(X, times)
        targets = read_as_fitted(y, "y", self.target_.shape)
        check_length(len(predicted), targets, "y")
        weights = None if sample_weight is None else read_weights(sample_weight, len(targets))
        return float(r2_score(targets, predicted, sample_weight=weights))

    def _learn_target(self, y: Any, sample_weight: Any) -> Numbers:
        return Numbers.learn(y, sample_weight)

    @property
    def target_mean_(self) -> Any:
        """Mean of the training targets."""
        return self.target_.mean

    @property
    def target_std_(self) -> Any:
        """Standard deviation of the training targets."""
        return self.target_.std

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

    def _describe_targets(self) -> dict[str, Any]:
        moments = {"target_mean": self.target_mean_, "target_std": self.target_std_}
        return {name: np.asarray(moment).tolist() for name, moment in moments.items()}

    def _restore_targets(self, described: dict[str, Any]) -> None:
        check_fields(described, REGRESSION)
        moments = [described["target_mean"], described["target_std"]]
        if np.shape(moments[0]) != np.shape(moments[1]):
            raise ValueError("target_mean and target_std must have the same length")
        self.target_ = Numbers(
            *(np.array(moment) if isinstance(moment, list) else moment for moment in moments)
        )


def _read_numbers(y: Any, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Read finite numbers of the shape for each series."""
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
    return targets


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
