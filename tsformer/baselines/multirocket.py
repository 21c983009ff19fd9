"""MultiRocketClassifier: sktime's features of MultiRocket with a ridge."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tsformer._optional import require


class MultiRocketClassifier(ClassifierMixin, BaseEstimator):
    """Classify by the features of MultiRocket, as Tan et al. (2022) do.

    sktime's `RocketClassifier` with ``rocket_transform="multirocket"`` is the same pipeline, but
    hands series of several channels on in arrays that its own transform refuses (sktime 1.2 with
    pandas 3).
    """

    pipeline_: Pipeline

    def __init__(self, num_kernels: int = 6250, random_state: int | None = None):
        self.num_kernels = num_kernels
        self.random_state = random_state

    def fit(self, X: npt.NDArray[np.float64], y: npt.ArrayLike) -> Self:
        """Fit to series X (B, C, L) and labels y (B,)."""
        rocket = require("sktime.transformations.rocket", extra="baselines", purpose="MultiRocket")
        cls = rocket.MultiRocket if X.shape[1] == 1 else rocket.MultiRocketMultivariate
        self.transform_ = cls(num_kernels=self.num_kernels, random_state=self.random_state)
        features = self.transform_.fit_transform(np.ascontiguousarray(X)).to_numpy()
        ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10))
        self.pipeline_ = make_pipeline(StandardScaler(with_mean=False), ridge)
        self.pipeline_.fit(features, np.asarray(y))
        self.classes_ = self.pipeline_.classes_
        return self

    def predict(self, X: npt.NDArray[np.float64]) -> npt.NDArray[Any]:
        """Return the label of each series, (B,)."""
        check_is_fitted(self, "pipeline_")
        features = self.transform_.transform(np.ascontiguousarray(X)).to_numpy()
        return np.asarray(self.pipeline_.predict(features))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
