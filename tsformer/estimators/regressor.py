"""TSTransformerRegressor: a scikit-learn regressor over the same model and training."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import RegressorMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from tsformer.estimators.base import Targets, TransformerEstimator
from tsformer.estimators.parameters import RegressionParameters
from tsformer.estimators.scoring import TimedScore
from tsformer.estimators.weights import series_weights

__all__ = ["TSTransformerRegressor"]


class TSTransformerRegressor(
    TimedScore, RegressionParameters, RegressorMixin, TransformerEstimator
):
    """Predict a number from each time series: extrinsic regression.

    The model is that of `TSTransformerClassifier` with one output. It learns by squared loss what
    the targets are after scaling to mean 0 and standard deviation 1.

    Parameters
    ----------
    encoding : str, PositionalEncoding subclass or factory, default="lspe"
        A name of ``tsformer.encodings.names()``, a sum such as ``"tape+erpe"``, or your own.
    **parameters
        All the others of `TSTransformerClassifier`, which explains them, but `label_smoothing` and
        `class_weight`. They were chosen for classification, and not anew for regression.

    Attributes
    ----------
    target_mean_, target_std_ : float
        Of the training targets.
    n_features_in_, n_channels_, n_iter_, history_, model_, models_, estimators_, device_ :
        As in `TSTransformerClassifier`; the score of validation data is R².

    Examples
    --------
    >>> from tsformer import TSTransformerRegressor, load_dataset
    >>> X, _ = load_dataset("ItalyPowerDemand", split="train")
    >>> evening = X[:, 0, 18:].max(axis=1)
    >>> reg = TSTransformerRegressor(encoding="rope", max_epochs=5, random_state=0)
    >>> reg.fit(X[..., :18], evening).predict(X[:3, :, :18]).shape
    (3,)
    """

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
        X, sample_weight, X_val, times, times_val : as in `TSTransformerClassifier.fit`
        y, y_val : array-like (n,)
            Finite numbers.

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
        return self._fit(X, y, sample_weight, times, (X_val, y_val, times_val))

    def predict(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Predict the target of each series; of several members, the mean of what they predict.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n,) of float64
        """
        return self.predict_members(X, times).mean(axis=0)

    def predict_members(self, X: Any, times: Any = None) -> npt.NDArray[np.float64]:
        """Predict the target of each series by each member.

        Parameters
        ----------
        X, times : as in `transform`

        Returns
        -------
        ndarray (n_estimators, n) of float64
            In the order of `estimators_`.
        """
        outputs = self._outputs(X, times)[..., 0].astype(np.float64)
        return outputs * self.target_std_ + self.target_mean_

    def _targets(self, y: Any, name: str, *, reset: bool) -> Targets:
        targets = column_or_1d(y, warn=True)
        try:
            targets = targets.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"{name} must hold numbers: {error}. For classes use TSTransformerClassifier"
            ) from error
        assert_all_finite(targets, input_name=name)
        if reset:
            self.target_mean_ = float(targets.mean())
            self.target_std_ = float(targets.std()) or 1.0
        return ((targets - self.target_mean_) / self.target_std_).astype(np.float32)

    def _weights(self, sample_weight: npt.ArrayLike | None, targets: Targets) -> Targets | None:
        return series_weights(sample_weight, None, np.zeros(len(targets), np.int64), np.zeros(1))

    def _describe_targets(self) -> dict[str, Any]:
        return {"target_mean": self.target_mean_, "target_std": self.target_std_}

    def _restore_targets(self, described: dict[str, Any]) -> None:
        self.target_mean_ = described["target_mean"]
        self.target_std_ = described["target_std"]

    def _n_outputs(self) -> int:
        return 1

    def _loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs[:, 0] - targets).square()

    def _val_score(self, outputs: Tensor, targets: Tensor) -> float:
        residual = self._loss(outputs, targets).sum()
        return 1.0 - (residual / (targets - targets.mean()).square().sum()).item()
