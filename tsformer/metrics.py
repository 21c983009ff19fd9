"""Calibration metrics that scikit-learn lacks."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_number

__all__ = ["expected_calibration_error", "reliability"]


def reliability(
    y_true: npt.ArrayLike,
    y_proba: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    n_bins: int = 10,
) -> pd.DataFrame:
    """Compare confidence, the largest probability, with accuracy in bins of confidence.

    The bins are intervals of equal width from 0 to 1, closed on the right. Empty bins have no row.

    Parameters
    ----------
    y_true : array-like (n,)
        True labels.
    y_proba : array-like (n, K)
        Probabilities of the classes, from `predict_proba`.
    labels : array-like (K,), optional
        The label of each column, such as `classes_`; by default the sorted labels of `y_true`.
    n_bins : int, default=10
        Number of bins.

    Returns
    -------
    pandas.DataFrame
        The ``count``, mean ``confidence`` and ``accuracy`` of each bin, by its number.

    Raises
    ------
    ValueError
        If the shapes do not match, a label is unknown or a row does not hold probabilities.

    Examples
    --------
    >>> table = reliability([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], n_bins=2)
    >>> print(table.round(3).to_string(index=False))
     count  confidence  accuracy
         3         0.8     0.667
    """
    truth, proba = np.asarray(y_true), np.asarray(y_proba, dtype=np.float64)
    known = np.unique(truth) if labels is None else np.asarray(labels)
    if proba.shape != (len(truth), len(known)) or not len(truth):
        raise ValueError(
            f"y_proba must be (n, K), a column for each of the K={len(known)} labels and a row for "
            f"each of the n={len(truth)} > 0 series; got shape {proba.shape}"
        )
    if not (np.all(proba >= 0) and np.allclose(proba.sum(axis=1), 1, atol=1e-3)):
        raise ValueError("the rows of y_proba must be probabilities: >= 0, with the sum 1")
    if missing := set(truth.tolist()) - set(known.tolist()):
        raise ValueError(f"y_true has the label {min(missing)!r}, which is not among labels=")
    check_number("n_bins", n_bins, 1, whole=True)
    confidence = proba.max(axis=1)
    right = known[proba.argmax(axis=1)] == truth
    bin_of = np.clip(np.ceil(confidence * n_bins).astype(int) - 1, 0, n_bins - 1)
    bins = pd.DataFrame({"confidence": confidence, "accuracy": right.astype(float)}).groupby(bin_of)
    summary: pd.DataFrame = bins.mean().rename_axis("bin")
    summary.insert(0, "count", bins.size())
    return summary


def expected_calibration_error(
    y_true: npt.ArrayLike,
    y_proba: npt.ArrayLike,
    labels: npt.ArrayLike | None = None,
    n_bins: int = 10,
) -> float:
    """Compute the expected calibration error [1]_ of the predicted classes.

    ``sum_b n_b / n * abs(accuracy_b - confidence_b)`` over the bins `b` of `reliability`. On few
    series it is biased upwards.

    Parameters
    ----------
    y_true, y_proba, labels, n_bins : as in `reliability`

    Returns
    -------
    float
        Between 0 and 1; lower is better.

    References
    ----------
    .. [1] Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Examples
    --------
    >>> round(expected_calibration_error([0, 1], [[0.9, 0.1], [0.2, 0.8]]), 3)
    0.15
    """
    bins: Any = reliability(y_true, y_proba, labels, n_bins)
    gaps = (bins["accuracy"] - bins["confidence"]).abs()
    return float((gaps * bins["count"]).sum() / bins["count"].sum())
