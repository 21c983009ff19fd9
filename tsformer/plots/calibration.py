"""The reliability diagram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tsformer.metrics import expected_calibration_error, reliability
from tsformer.plots.figures import is_estimator, labels_of, new_figure, of_times

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_reliability(
    y_true: Any,
    y_proba: Any,
    labels: npt.ArrayLike | None = None,
    n_bins: int = 10,
    *,
    times: Any = None,
) -> Figure:
    """Draw how often predictions are right over how confident they are.

    Bars on the diagonal are calibrated; above it a classifier is right more often than it says, and
    below it less often. The lower panel has the number of predictions of each confidence. Called as
    ``plot_reliability(y_true, y_proba)`` or ``plot_reliability(classifier, X, y)``.

    Parameters
    ----------
    y_true, y_proba, labels, n_bins : as in `tsformer.metrics.reliability`
        Or a fitted classifier, series, and their true labels.
    times : optional
        With a classifier, times of the steps.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If the shapes do not match, a label is unknown or rows are no probabilities.

    Examples
    --------
    >>> from tsformer.plots import plot_reliability
    >>> figure = plot_reliability([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
    """
    if is_estimator(y_true, "predict_proba"):
        classifier, X = y_true, y_proba
        y_true, y_proba = labels_of(X, labels), classifier.predict_proba(X, **of_times(times))
        labels = classifier.classes_
    bins = reliability(y_true, y_proba, labels, n_bins)
    error = expected_calibration_error(y_true, y_proba, labels, n_bins)
    figure = new_figure(5, 5.5)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    centers, width = (bins.index + 0.5) / n_bins, 1 / n_bins
    upper.bar(
        centers, bins["accuracy"], width, color="#56B4E9", edgecolor="white", label="accuracy"
    )
    upper.plot(
        bins["confidence"],
        bins["accuracy"],
        "o",
        color="#0072B2",
        clip_on=False,
        label="mean confidence",
    )
    upper.plot([0, 1], [0, 1], "--", color="#7F7F7F", label="calibrated")
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy", yticks=np.linspace(0, 1, 6))
    upper.legend(loc="upper left", fontsize=9, frameon=False)
    upper.set_title(f"expected calibration error {error:.3f}", fontsize=11)
    lower.bar(centers, bins["count"], width, color="#7F7F7F", edgecolor="white")
    lower.set(xlabel="confidence", ylabel="series")
    return figure
