"""Scores of a fitted estimator."""

from statistics import fmean
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier
from sklearn.metrics import (
    accuracy_score,
    brier_score_loss,
    f1_score,
    log_loss,
    mean_absolute_error,
    r2_score,
    root_mean_squared_error,
)

from tsformer.estimators.targets import read_columns
from tsformer.metrics import expected_calibration_error


def main_score(estimator: Any) -> str:
    """Return the name of the score of `estimator.score`."""
    return "accuracy" if is_classifier(estimator) else "r2"


def scored(
    estimator: Any, X: Any, y: npt.ArrayLike, times: Any = None
) -> tuple[dict[str, float], npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Return scores by name, predictions, and the probabilities of a classifier."""
    true = array_of(y)
    if not is_classifier(estimator):
        predicted = np.asarray(estimator.predict(X, times))
        scores = {
            "r2": float(r2_score(true, predicted)),
            "rmse": float(root_mean_squared_error(true, predicted)),
            "mae": float(mean_absolute_error(true, predicted)),
        }
        return scores, predicted, None
    probabilities = estimator.predict_proba(X, times)
    if true.ndim == 2 and true.shape[1] > 1:
        known = ~np.isnan(true).any(axis=1)
        predicted = (probabilities > 0.5).astype(np.int64)
        return _several_label_scores(true[known], probabilities[known]), predicted, probabilities
    scores = classification_scores(true, probabilities, estimator.classes_)
    predicted = estimator.classes_[probabilities.argmax(axis=1)]
    return scores, in_text(predicted, true), probabilities


def array_of(y: Any) -> npt.NDArray[Any]:
    """Return targets as an array; several labels of a series also from a sparse matrix."""
    columns = read_columns(y)
    return np.asarray(y) if columns is None else columns


def _several_label_scores(y: npt.NDArray[Any], probabilities: npt.NDArray[Any]) -> dict[str, float]:
    """Return the scores of probabilities (n, K) of several labels."""
    if not len(y):
        return {}
    predicted = (probabilities > 0.5).astype(np.int64)
    of_truth = np.where(y == 1, probabilities, 1 - probabilities)
    return {
        "accuracy": float(accuracy_score(y, predicted)),
        "label_accuracy": float((y == predicted).mean()),
        "f1_macro": float(f1_score(y, predicted, average="macro", zero_division=0)),
        "log_loss": float(-np.log(of_truth.clip(np.finfo(np.float64).tiny)).mean()),
        "brier_score": float(np.square(1 - of_truth).mean()),
    }


def classification_scores(
    y: npt.NDArray[Any], probabilities: npt.NDArray[Any], classes: npt.NDArray[Any]
) -> dict[str, float]:
    """Return the scores of probabilities (n, K) of the sorted `classes`."""
    scores = label_scores(y, classes[probabilities.argmax(axis=1)])
    if not np.isin(y, classes).all():  # an unknown label has no probability
        return scores
    return {
        **scores,
        "log_loss": float(log_loss(y, probabilities, labels=classes)),
        "brier_score": float(
            brier_score_loss(y, probabilities, labels=classes, scale_by_half=False)
        ),
        "calibration_error": expected_calibration_error(y, probabilities, classes),
    }


def label_scores(y: npt.NDArray[Any], predicted: npt.NDArray[Any]) -> dict[str, float]:
    """Return accuracy, balanced accuracy and macro F1 of predicted labels (n,)."""
    predicted = in_text(predicted, y)
    return {
        "accuracy": float(accuracy_score(y, predicted)),
        # scikit-learn's warns of predicted classes that are not in `y`.
        "balanced_accuracy": fmean((predicted[y == each] == each).mean() for each in np.unique(y)),
        "f1_macro": float(f1_score(y, predicted, average="macro")),
    }


def in_text(predicted: npt.NDArray[Any], y: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return predictions as text if labels of a file are, beside a model of integers."""
    return predicted.astype(str) if y.dtype.kind == "U" else predicted
