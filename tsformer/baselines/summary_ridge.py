"""SummaryRidgeClassifier: a ridge on a few numbers of each series, without training a network."""

from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from tsformer.data.containers import to_arrays
from tsformer.data.layout import check_ids, refuse_nul
from tsformer.data.series import Floats


class SummaryRidgeClassifier(ClassifierMixin, BaseEstimator):
    """Classify series by mean, deviation and slope of each channel, and the length.

    A data set on which no method beats it needs no order of the steps beyond a trend.
    """

    def fit(self, X: Any, y: npt.ArrayLike) -> Self:
        """Fit to series X, in any container, and labels y (B,)."""
        check_ids(X, y, "y")
        refuse_nul(y, "y")
        ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10))
        self.pipeline_ = make_pipeline(StandardScaler(), ridge).fit(_features(X), np.asarray(y))
        self.classes_ = self.pipeline_.classes_
        return self

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """Return the label of each series, (B,)."""
        check_is_fitted(self, "pipeline_")
        return np.asarray(self.pipeline_.predict(_features(X)))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.input_tags.allow_nan = True
        return tags


def _features(X: Any) -> Floats:
    return np.stack(list(map(summary_features, to_arrays(X))))


def summary_features(x: Floats) -> Floats:
    """Return means, deviations and slopes of the channels, and the length, [3 C + 1]."""
    values = pd.DataFrame(x.T)
    apart = values - values.mean()
    steps = values.notna().mul(values.index, axis=0).where(values.notna())
    steps -= steps.mean()
    slopes = (apart * steps).sum() / (steps**2).sum().replace(0, 1)
    parts = [values.mean(), values.std(ddof=0), slopes]
    return np.append(pd.concat(parts).fillna(0.0), len(values))
