"""Scores of a fitted estimator."""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn import metrics
from sklearn.base import is_classifier

from tsformer.estimators.targets import read_columns
from tsformer.metrics import expected_calibration_error

_Array = npt.NDArray[Any]


def scored(
    estimator: Any, X: Any, y: npt.ArrayLike, times: Any = None
) -> tuple[dict[str, float], _Array, _Array | None]:
    """Return scores by name, predictions, and the probabilities of a classifier."""
    true = array_of(y)
    if not is_classifier(estimator):
        predicted = np.asarray(estimator.predict(X, times))
        scores = {
            "r2": float(metrics.r2_score(true, predicted)),
            "rmse": float(metrics.root_mean_squared_error(true, predicted)),
            "mae": float(metrics.mean_absolute_error(true, predicted)),
        }
        return scores, predicted, None
    proba = estimator.predict_proba(X, times)
    if true.ndim == 2 and true.shape[1] > 1:
        known = ~np.isnan(true).any(axis=1)
        predicted = (proba > 0.5).astype(np.int64)
        return _several_label_scores(true[known], proba[known]), predicted, proba
    predicted = estimator.classes_[proba.argmax(axis=1)]
    scores = classification_scores(true, proba, estimator.classes_)
    return scores, in_text(predicted, true), proba


def array_of(y: Any) -> _Array:
    """Return targets as an array; several labels of a series also from a sparse matrix."""
    columns = read_columns(y)
    return np.asarray(y) if columns is None else columns


def _several_label_scores(y: _Array, proba: _Array) -> dict[str, float]:
    """Return the scores of probabilities (n, K) of several labels."""
    if not len(y):
        return {}
    predicted = (proba > 0.5).astype(np.int64)
    of_truth = np.where(y == 1, proba, 1 - proba)
    return {
        "accuracy": float(metrics.accuracy_score(y, predicted)),
        "label_accuracy": float((y == predicted).mean()),
        "f1_macro": float(metrics.f1_score(y, predicted, average="macro", zero_division=0)),
        "log_loss": float(-np.log(of_truth.clip(np.finfo(np.float64).tiny)).mean()),
        "brier_score": float(np.square(1 - of_truth).mean()),
    }


def classification_scores(y: _Array, proba: _Array, classes: _Array) -> dict[str, float]:
    """Return the scores of probabilities (n, K) of the sorted `classes`."""
    scores = label_scores(y, classes[proba.argmax(axis=1)])
    if not np.isin(y, classes).all():  # an unknown label has no probability
        return scores
    brier = metrics.brier_score_loss(y, proba, labels=classes, scale_by_half=False)
    return {
        **scores,
        "log_loss": float(metrics.log_loss(y, proba, labels=classes)),
        "brier_score": float(brier),
        "calibration_error": expected_calibration_error(y, proba, classes),
    }


def label_scores(y: _Array, predicted: _Array) -> dict[str, float]:
    """Return accuracy, balanced accuracy and macro F1 of predicted labels (n,)."""
    predicted = in_text(predicted, y)
    # `balanced_accuracy_score` warns of predicted classes that are not in `y`.
    balanced = metrics.recall_score(y, predicted, labels=np.unique(y), average="macro")
    return {
        "accuracy": float(metrics.accuracy_score(y, predicted)),
        "balanced_accuracy": float(balanced),
        "f1_macro": float(metrics.f1_score(y, predicted, average="macro")),
    }


def in_text(predicted: _Array, y: _Array) -> _Array:
    """Return predictions as text if labels of a file are, beside a model of integers."""
    return predicted.astype(str) if y.dtype.kind == "U" else predicted
