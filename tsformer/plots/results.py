"""Figures of training curves and of test results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._optional import require
from tsformer.data.layout import check_ids
from tsformer.metrics import expected_calibration_error, reliability
from tsformer.plots.figures import (
    Panels,
    end_score_axis,
    figure_of,
    is_estimator,
    labels_of,
    new_figure,
    of_times,
    one_panel,
    shortened,
    text_width,
    widest,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NUMBERED = 20
_TRAINING, _VALIDATION = "#0072B2", "#D55E00"
#: The panels, and the lines in each: column, label, colour.
_CURVES = {
    "loss": (("loss", "training", _TRAINING), ("val_loss", "validation", _VALIDATION)),
    "score": (("val_score", "validation", _VALIDATION),),
    "learning rate": (("lr", "", _TRAINING),),
}


def plot_history(history: Any, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Draw training curves: losses, the validation score if there is one, the learning rate.

    With validation data, a dashed line marks the epoch with the lowest validation loss, whose
    weights early stopping keeps.

    Parameters
    ----------
    history : fitted estimator, History, DataFrame or list of dict
        An estimator with a ``history_``, or one row per epoch.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each of loss, validation score and learning rate that the
        history has. By default, a new figure.

    Raises
    ------
    ValueError, TypeError
        If there is nothing to draw, or `axes` has another number of panels.

    Examples
    --------
    >>> rows = [{"epoch": n, "loss": 1 / n, "val_loss": 2 / n, "val_score": 1.0} for n in (1, 2, 3)]
    >>> [ax.get_ylabel() for ax in plot_history(rows).axes]
    ['loss', 'score']
    """
    history = getattr(history, "transformer_", None) or history  # of an ensemble
    if is_estimator(history, "history_"):
        history = history.history_
    frame = history if isinstance(history, pd.DataFrame) else pd.DataFrame(history)
    if "epoch" in frame:
        frame = frame.set_index("epoch")
    curves = {
        title: drawn
        for title, lines in _CURVES.items()
        if (drawn := [line for line in lines if line[0] in frame])
    }
    if not curves or frame.empty:
        raise ValueError(
            "the history has no epoch with a loss, a score or a learning rate; got the columns "
            f"{list(frame.columns)}: pass classifier.history_"
        )
    ticker = require("matplotlib.ticker", extra="plots", purpose="drawing a figure")
    panels = Panels(
        axes, len(curves), f"of {', '.join(curves)}", n_columns=len(curves), panel=(3.0, 3.4)
    )
    marker = "o" if len(frame) < 3 else None  # a line through a single point is invisible
    for ax, (title, lines) in zip(panels.axes, curves.items(), strict=True):
        for column, label, color in lines:
            ax.plot(frame.index, frame[column], color, label=label, marker=marker, clip_on=False)
        ax.xaxis.set_major_locator(ticker.MaxNLocator(5, integer=True, min_n_ticks=1))
        if len(frame) == 1:
            ax.set_xlim(frame.index[0] - 0.5, frame.index[0] + 0.5)
        ax.set(xlabel="epoch", ylabel=title)
        ax.grid(alpha=0.3)
        if title == "score":
            end_score_axis(ax, frame["val_score"], "y")
        if title == "learning rate":
            continue
        if "val_loss" in frame and frame["val_loss"].notna().any():
            best: Any = frame["val_loss"].idxmin()
            ax.axvline(best, color="0.4", lw=1, ls="--", label=f"lowest loss, epoch {best}")
        if len(ax.get_lines()) > 1:
            ax.legend(fontsize=8, framealpha=0.8, edgecolor="none")
    return panels.figure


def plot_confusion(
    y_true: Any,
    y_pred: Any,
    classes: Any = None,
    *,
    times: Any = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw a confusion matrix: counts as numbers, coloured by the fraction of the true class.

    Called as ``plot_confusion(y_true, y_pred)`` or ``plot_confusion(classifier, X, y)``.

    Parameters
    ----------
    y_true, y_pred : array-like (n,)
        True and predicted labels; or a fitted classifier, and series.
    classes : array-like (K,), optional
        Labels in display order; others that occur come last, sorted. Names of more than 32
        characters are shortened. With a classifier, the true labels of the series.
    times : optional
        With a classifier, times of the steps.
    ax : Axes, optional
        Where to draw. By default, a new figure.

    Examples
    --------
    >>> figure = plot_confusion(["run", "sit", "sit"], ["run", "run", "sit"], ["run", "sit"])
    >>> figure.axes[0].get_title()
    '2 of 3 correct: accuracy 0.667'
    """
    from sklearn.metrics import confusion_matrix

    if is_estimator(y_true, "classes_"):
        classifier, X = y_true, y_pred
        y_true, y_pred = labels_of(X, classes), classifier.predict(X, **of_times(times))
        classes = classifier.classes_
    check_ids(y_true, y_pred, "y_pred", of="y_true")
    found = np.unique(np.concatenate([np.ravel(y_true), np.ravel(y_pred)])).tolist()
    classes = [] if classes is None else np.asarray(classes).tolist()
    classes += [label for label in found if label not in classes]
    counts = confusion_matrix(y_true, y_pred, labels=classes)
    parts = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names = [shortened(name, 32) for name in classes]
    label = widest(names, 9)
    side = min(max(3.4, 0.42 * len(names)), 7.0)
    upright = label > 0.8 * side / len(names)
    ax = one_panel(ax, side + label + 1.7, side + (label if upright else 0.2) + 0.9)
    image = ax.imshow(parts, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    every = max(1, -(-len(names) // 40))  # no more names than can be read
    shown = range(0, len(names), every)
    ax.set_xticks(shown, names[::every], rotation=90 if upright else 0, fontsize=9)
    ax.set_yticks(shown, names[::every], fontsize=9)
    if len(names) <= _MOST_NUMBERED:
        widest_count = text_width(str(counts.max()), 9)
        fontsize = min(9.0, 9.0 * 0.9 * side / len(names) / widest_count)
        for (i, j), count in np.ndenumerate(counts):
            if count:
                color = "white" if parts[i, j] > 0.6 else "black"
                ax.text(j, i, count, ha="center", va="center", color=color, fontsize=fontsize)
    n_right, n = np.trace(counts), counts.sum()
    ax.set(xlabel="predicted", ylabel="true")
    ax.set_title(f"{n_right} of {n} correct: accuracy {n_right / max(n, 1):.3f}", fontsize=11)
    figure = figure_of(ax)
    figure.colorbar(image, ax=ax, label="fraction of the true class")
    return figure


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
    accuracy, confidence = bins["accuracy"], bins["confidence"]
    upper.bar(centers, accuracy, width, color="#56B4E9", edgecolor="white", label="accuracy")
    dots: dict[str, Any] = {"color": "#0072B2", "clip_on": False, "label": "mean confidence"}
    upper.plot(confidence, accuracy, "o", **dots)
    upper.plot([0, 1], [0, 1], "--", color="#7F7F7F", label="calibrated")
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy", yticks=np.linspace(0, 1, 6))
    upper.legend(loc="upper left", fontsize=9, frameon=False)
    upper.set_title(f"expected calibration error {error:.3f}", fontsize=11)
    lower.bar(centers, bins["count"], width, color="#7F7F7F", edgecolor="white")
    lower.set(xlabel="confidence", ylabel="series")
    return figure
