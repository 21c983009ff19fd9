"""Figures of training, of test results, of learning curves and of recordings."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known
from tsformer.data.layout import check_ids
from tsformer.data.windows import Windows
from tsformer.metrics import expected_calibration_error, reliability
from tsformer.plots.figures import (
    LEGEND,
    MARKERS,
    Panels,
    abbreviated,
    encoding_colors,
    end_score_axis,
    figure_of,
    is_estimator,
    library,
    new_figure,
    one_panel,
    place_times,
    scale_by_powers,
    tested,
    widest,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_NUMBERED = 20
#: Column of a history, title of its panel, label and colour of its line.
_CURVES = (
    ("loss", "loss", "training", "#0072B2"),
    ("val_loss", "loss", "validation", "#D55E00"),
    ("val_score", "score", "validation", "#D55E00"),
    ("lr", "learning rate", "", "#0072B2"),
)


def plot_history(history: Any, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Draw training curves: losses, the validation score if there is one, the learning rate.

    A dashed line marks the epoch with the lowest validation loss, which early stopping keeps.

    Parameters
    ----------
    history : fitted estimator, History, DataFrame or list of dict
        An estimator with a ``history_``, or one row per epoch.
    axes : Axes or sequence of Axes, optional
        One panel for each of loss, validation score and learning rate in the history.

    Examples
    --------
    >>> rows = [{"epoch": n, "loss": 1 / n, "val_loss": 2 / n, "val_score": 1.0} for n in (1, 2, 3)]
    >>> [ax.get_ylabel() for ax in plot_history(rows).axes]
    ['loss', 'score']
    """
    history = getattr(history, "transformer_", None) or history  # of an ensemble
    if is_estimator(history, "history_"):
        history = history.history_
    frame = pd.DataFrame(history)
    frame = frame.set_index("epoch") if "epoch" in frame else frame
    curves = [curve for curve in _CURVES if curve[0] in frame]
    if not curves or frame.empty:
        raise ValueError(
            f"the history has no losses or scores, but {list(frame)}: pass classifier.history_"
        )
    titles = list(dict.fromkeys(title for _, title, *_ in curves))
    n = len(titles)
    panels = Panels(axes, n, f"of {', '.join(titles)}", n, (3.0, 3.4))
    marker = "o" if len(frame) < 3 else None  # a line through a single point is invisible
    for column, title, label, color in curves:
        ax = panels.axes[titles.index(title)]
        ax.plot(frame.index, frame[column], color, label=label, marker=marker, clip_on=False)
    for ax, title in zip(panels.axes, titles, strict=True):
        ax.xaxis.set_major_locator(library("ticker").MaxNLocator(5, integer=True, min_n_ticks=1))
        if len(frame) == 1:
            ax.set_xlim(frame.index[0] - 0.5, frame.index[0] + 0.5)
        ax.set(xlabel="epoch", ylabel=title)
        ax.grid(alpha=0.3)
        if title == "score":
            end_score_axis(ax, frame["val_score"], "y")
        if title != "learning rate" and "val_loss" in frame and frame["val_loss"].notna().any():
            best: Any = frame["val_loss"].idxmin()
            ax.axvline(best, color="0.4", lw=1, ls="--", label=f"lowest loss, epoch {best}")
        if len(ax.get_lines()) > 1:
            ax.legend(**LEGEND)
    return panels.figure


def plot_confusion(
    y_true: Any, y_pred: Any, classes: Any = None, *, times: Any = None, ax: Axes | None = None
) -> Figure:
    """Draw a confusion matrix: counts as numbers, coloured by the fraction of the true class.

    Called as ``plot_confusion(y_true, y_pred)`` or ``plot_confusion(classifier, X, y)``.

    Parameters
    ----------
    y_true, y_pred : array-like (n,)
        True and predicted labels; or a fitted classifier, and series.
    classes : array-like (K,), optional
        Labels in display order; others come last. With a classifier, the true labels.
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
        y_true, y_pred, classes = tested(y_true, y_pred, classes, "predict", times)
    check_ids(y_true, y_pred, "y_pred", of="y_true")
    extra = np.unique(np.concatenate([np.ravel(y_true), np.ravel(y_pred)])).tolist()
    classes = [*dict.fromkeys([*([] if classes is None else np.asarray(classes).tolist()), *extra])]
    counts = confusion_matrix(y_true, y_pred, labels=classes)
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    names, K = [abbreviated(name, 32) for name in classes], len(classes)
    label, side = widest(names, 9), min(max(3.4, 0.42 * K), 7.0)
    upright = label > 0.8 * side / K
    ax = one_panel(ax, side + label + 1.7, side + (label if upright else 0.2) + 0.9)
    image = ax.imshow(fractions, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    fontsize = min(9.0, 55 * side / K)
    ax.set_xticks(range(K), names, rotation=90 if upright else 0, fontsize=fontsize)
    ax.set_yticks(range(K), names, fontsize=fontsize)
    fontsize = min(9.0, 100 * side / K / len(str(counts.max())))
    for (i, j), count in np.ndenumerate(counts if K <= _MOST_NUMBERED else counts[:0]):
        if count:
            color = "white" if fractions[i, j] > 0.6 else "black"
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
    """Draw how often predictions are right over how confident they are, and their numbers.

    Bars on the diagonal are calibrated; above it a classifier is right more often than it says.
    Called as ``plot_reliability(y_true, y_proba)`` or ``plot_reliability(classifier, X, y)``.

    Parameters
    ----------
    y_true, y_proba, labels, n_bins : as in `tsformer.metrics.reliability`
        Or a fitted classifier, series, and their true labels.
    times : optional
        With a classifier, times of the steps.

    Examples
    --------
    >>> figure = plot_reliability([0, 1, 1], [[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]])
    """
    if is_estimator(y_true, "predict_proba"):
        y_true, y_proba, labels = tested(y_true, y_proba, labels, "predict_proba", times)
    bins = reliability(y_true, y_proba, labels, n_bins)
    error = expected_calibration_error(y_true, y_proba, labels, n_bins)
    figure = new_figure(5, 5.5)
    upper, lower = figure.subplots(2, sharex=True, height_ratios=[3, 1])
    bars: Any = {"x": (bins.index + 0.5) / n_bins, "width": 1 / n_bins, "edgecolor": "white"}
    dots: Any = {"color": "#0072B2", "clip_on": False, "label": "mean confidence"}
    upper.bar(height=bins["accuracy"], color="#56B4E9", label="accuracy", **bars)
    upper.plot(bins["confidence"], bins["accuracy"], "o", **dots)
    upper.plot([0, 1], [0, 1], "--", color="#7F7F7F", label="calibrated")
    upper.set(xlim=(0, 1), ylim=(0, 1), ylabel="accuracy", yticks=np.linspace(0, 1, 6))
    upper.legend(loc="upper left", fontsize=9, frameon=False)
    upper.set_title(f"expected calibration error {error:.3f}", fontsize=11)
    lower.bar(height=bins["count"], color="#7F7F7F", **bars)
    lower.set(xlabel="confidence", ylabel="series")
    return figure


def plot_learning_curves(
    results: pd.DataFrame, *, metric: str = "accuracy", axes: Axes | Sequence[Axes] | None = None
) -> Figure:
    """Draw scores against the number of training series, a line per method.

    A line joins the means over seeds and resamples; bars are ± one standard deviation.

    Parameters
    ----------
    results : DataFrame
        One row per fit, as `tsformer.studies.compare` returns them for a study with `train_sizes`:
        `dataset`, `method` or `encoding`, `train_size` (a number, or as in ``"10%"``), `seed`,
        `metric`, and, where a size is a percentage, `n_train`, the number of series.
    metric : str, default="accuracy"
        The column to show.
    axes : Axes or sequence of Axes, optional
        One panel for each data set. By default, a new figure.

    Examples
    --------
    >>> rows = [("A", "none", n, 0, 0.5 + n / 100) for n in (10, 20, 40)]
    >>> columns = ["dataset", "method", "train_size", "seed", "accuracy"]
    >>> plot_learning_curves(pd.DataFrame(rows, columns=columns)).axes[0].get_title()
    'A'
    """
    of_method = "method" if "method" in results.columns else "encoding"
    sizes = results.get("train_size", pd.Series()).astype(str)
    shares = ["n_train"] if sizes.str.endswith("%").any() else []
    for name in ("dataset", of_method, "train_size", metric, *shares):
        check_known("column of the results", name, results.columns)
    numbers = {"x": results.get("n_train", sizes), "score": results[metric]}
    rows = results.assign(method=results[of_method].astype(str), size=sizes, **numbers)
    rows = rows.astype({"x": float, "score": float})
    colors = encoding_colors(dict.fromkeys(rows["method"]))
    n = rows["dataset"].nunique()
    width = 3.2 if n > 1 else 4.6
    size = width, max(2.9, 0.24 * (len(colors) + 1))  # as tall as the legend
    legend = 1.1 + widest(map(abbreviated, colors), 8)
    panels = Panels(axes, n, "data set", 3, size, (legend, 0.5))
    by_dataset = rows.groupby("dataset", sort=False)
    for ax, (dataset, fits) in zip(panels.axes, by_dataset, strict=True):
        for marker, (method, color) in zip(MARKERS * len(colors), colors.items(), strict=False):
            # By size: a percentage is another number of series in each fold.
            by_size = fits[fits["method"] == method].groupby("size", sort=False)
            points = by_size.agg(x=("x", "mean"), mean=("score", "mean"), spread=("score", "std"))
            x, mean, spread = points.fillna({"spread": 0.0}).sort_values("x").to_numpy().T
            style: Any = {"color": color, "marker": marker, "markersize": 5}
            ax.errorbar(x, mean, yerr=spread, label=abbreviated(method), **style)
        scale_by_powers(ax, fits["x"])
        end_score_axis(ax, fits["score"], "y")
        ax.grid(alpha=0.3)
        ax.set_title(wrapped(str(dataset), width - 0.6, 10), fontsize=10)
    bars = "; mean ± standard deviation over fits" if panels.own else ""
    panels.label(f"training series (log scale){bars}", f"test {metric.replace('_', ' ')}")
    if panels.own:
        handles, labels = panels.axes[0].get_legend_handles_labels()
        panels.figure.legend(handles, labels, loc="outside right upper", fontsize=8, frameon=False)
    else:
        panels.axes[-1].legend(**LEGEND)
    return panels.figure


def plot_recording(
    windows: Windows,
    steps: pd.DataFrame,
    recording: Hashable = None,
    *,
    least_duration: Any = 1,
    axes: Sequence[Axes] | None = None,
) -> Figure:
    """Draw a recording above its events: true in grey, predicted coloured by confidence.

    Parameters
    ----------
    windows : Windows
        From `tsformer.data.windows`.
    steps : DataFrame
        The predictions, from ``windows.steps``.
    recording : hashable, optional
        The name of the recording; by default the first.
    least_duration : int or duration, default=1
        As in ``windows.events``.
    axes : sequence of two Axes, optional
        For the values and the events. By default, a new figure.

    Examples
    --------
    >>> from tsformer.data import windows
    >>> cut = windows(np.arange(9.0)[None], ["rest"] * 5 + ["walk"] * 4, 1, 1)
    >>> figure = plot_recording(cut, cut.steps(cut.y))
    >>> [label.get_text() for label in figure.axes[1].get_yticklabels()]
    ['rest', 'walk']
    """
    recording = next(iter(windows.recordings)) if recording is None else recording
    check_known("recording", recording, windows.recordings)
    drawn = windows.recordings[recording]
    steps = steps[steps["recording"] == recording]
    panels = Panels(axes, 2, "of values, events", 1, (9.0, 2.2), (0.8, 0.0), sharex=True)
    top, bottom = panels.axes
    at, unit = place_times(bottom.xaxis, drawn.index)
    for k, (name, channel) in enumerate(zip(drawn.channels, drawn.values, strict=True)):
        for start, stop in pairwise([0, *drawn.ends]):  # no line across a pause
            label, segment = None if start else abbreviated(name, 20), slice(start, stop)
            top.plot(at[segment], channel[segment], f"C{k % 10}", linewidth=0.8, label=label)
    if len(drawn.channels) > 1:
        top.legend(**LEGEND, loc="upper right", ncols=4)
    top.set(title=f"recording {abbreviated(recording)}", ylabel="values")
    true, predicted = windows.events(steps, of="true"), windows.events(steps, least_duration)
    labels = sorted({*true["label"], *predicted["label"]})
    limits = library("colors").Normalize(min([0.5, *predicted["confidence"]]), 1)
    shade = library("cm").ScalarMappable(limits, "viridis_r")
    for events, above, height in ((true, 0.08, 0.2), (predicted, -0.38, 0.42)):
        for event in events.itertuples(index=False):
            left, right = place_times(bottom.xaxis, pd.Index([event.start, event.end]))[0]
            color = "0.45" if events is true else shade.to_rgba(event.confidence)
            row = labels.index(event.label) + above
            bottom.broken_barh([(left, right - left)], (row, height), color=color, linewidth=0)
    bottom.set_yticks(range(len(labels)), [abbreviated(label, 32) for label in labels])
    bottom.set(axisbelow=True, ylim=(-0.6, max(len(labels), 1) - 0.4))
    bottom.set_xlabel("step" if isinstance(drawn.index, pd.RangeIndex) else unit)
    bottom.set_ylabel("true (grey, thin)\nand predicted", fontsize=8)
    bottom.grid(axis="y", alpha=0.2)
    panels.colorbar(shade, "confidence")
    return panels.figure
