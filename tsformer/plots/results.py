"""Pictures of training and of test results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer.plots.figures import encoding_color, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_comparison", "plot_confusion", "plot_history"]

_MOST_NUMBERED = 20


def plot_history(history: Any) -> Figure:
    """Draw a training's curves: losses, the validation score if there is one, the learning rate.

    Parameters
    ----------
    history : History, DataFrame or list of dict
        A row an epoch, as ``classifier.history_``.

    Returns
    -------
    matplotlib.figure.Figure
    """
    frame = history if isinstance(history, pd.DataFrame) else pd.DataFrame(history)
    if "epoch" in frame:
        frame = frame.set_index("epoch")
    panels = {
        "loss": {"loss": "training", "val_loss": "validation"},
        "validation score": {"val_score": ""},
        "learning rate": {"lr": ""},
    }
    panels = {title: lines for title, lines in panels.items() if lines.keys() & set(frame)}
    figure = new_figure(9, 3.4)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for ax, (title, lines) in zip(axes, panels.items(), strict=True):
        for (column, label), color in zip(lines.items(), ("#0072B2", "#D55E00"), strict=False):
            if column in frame:
                marker = "o" if len(frame) < 3 else None  # a line through one point is nothing
                ax.plot(frame.index, frame[column], color=color, label=label, marker=marker)
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_xlabel("epoch")
        ax.set_ylabel(title)
        ax.grid(alpha=0.3)
        if "val_loss" in frame and title == "loss":
            ax.legend(frameon=False)
    return figure


def plot_confusion(
    y_true: Sequence[Any] | np.ndarray,
    y_pred: Sequence[Any] | np.ndarray,
    classes: Sequence[Any] | np.ndarray,
) -> Figure:
    """Draw a confusion matrix: counts as numbers, colours by the part of the true class.

    Parameters
    ----------
    y_true, y_pred : array-like (n,)
        Labels, true and predicted.
    classes : array-like (K,)
        All labels, in the order to show them.

    Returns
    -------
    matplotlib.figure.Figure
    """
    from sklearn.metrics import confusion_matrix

    counts = confusion_matrix(y_true, y_pred, labels=classes)
    parts = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = min(max(4.2, 2.2 + 0.42 * len(classes)), 10)
    figure = new_figure(size + 1, size)
    ax = figure.subplots()
    image = ax.imshow(parts, cmap="Blues", vmin=0, vmax=1)
    every = max(1, -(-len(classes) // 40))  # so many names as can be read
    shown = range(0, len(classes), every)
    names = [str(classes[i]) for i in shown]
    longest = max(map(len, names))
    ax.set_xticks(shown, names, rotation=90 if longest > 3 else 0, fontsize=9)
    ax.set_yticks(shown, names, fontsize=9)
    if len(classes) <= _MOST_NUMBERED:
        for (i, j), count in np.ndenumerate(counts):
            if count:
                color = "white" if parts[i, j] > 0.6 else "black"
                ax.text(j, i, count, ha="center", va="center", color=color, fontsize=9)
    ax.set_xlabel("predicted")
    ax.set_ylabel("true")
    accuracy = np.trace(counts) / max(counts.sum(), 1)
    ax.set_title(
        f"{np.trace(counts)} of {counts.sum()} right: accuracy {accuracy:.3f}", fontsize=11
    )
    figure.colorbar(image, ax=ax, label="part of the true class", shrink=0.9)
    return figure


def plot_comparison(results: pd.DataFrame, *, metric: str = "accuracy") -> Figure:
    """Draw encodings compared: a dot a seed, the mean, and one standard deviation to either side.

    Parameters
    ----------
    results : DataFrame
        A row a fit, with the columns `dataset`, `encoding` and `metric`.
    metric : str, default="accuracy"
        The column to show.

    Returns
    -------
    matplotlib.figure.Figure
    """
    datasets = list(dict.fromkeys(results["dataset"]))
    encodings = list(dict.fromkeys(results["encoding"]))
    n_columns = min(len(datasets), 3)
    n_rows = -(-len(datasets) // n_columns)
    height = 1.1 + 0.34 * len(encodings)
    figure = new_figure(max(3.2 * n_columns + 0.8, 5.6), n_rows * height + 0.6)
    axes = figure.subplots(n_rows, n_columns, sharey=True, squeeze=False)
    for ax, dataset in zip(axes.flat, datasets, strict=False):
        _draw_problem(ax, results[results["dataset"] == dataset], encodings, metric)
        ax.set_title(dataset, fontsize=11)
    for ax in axes.flat[len(datasets) :]:
        ax.set_visible(False)
    figure.supxlabel(
        f"test {metric.replace('_', ' ')}: a dot a seed, bar = mean \u00b1 standard deviation",
        fontsize=10,
    )
    return figure


def _draw_problem(ax: Axes, rows: pd.DataFrame, encodings: list[str], metric: str) -> None:
    for place, encoding in enumerate(encodings):
        values = rows.loc[rows["encoding"] == encoding, metric].to_numpy(dtype=float)
        if not len(values):
            continue
        color = encoding_color(encoding)
        # Dots of equal value lie side by side, in the order of the seeds.
        beside = np.linspace(-0.16, 0.16, len(values)) if len(values) > 1 else np.zeros(1)
        ax.scatter(values, place + beside, color=color, s=22, alpha=0.65, linewidths=0, zorder=3)
        mean, spread = values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0
        ax.plot([mean - spread, mean + spread], [place, place], color=color, linewidth=2, zorder=2)
        ax.plot([mean, mean], [place - 0.34, place + 0.34], color=color, linewidth=3, zorder=4)
    ax.set_yticks(range(len(encodings)), encodings)
    ax.set_ylim(len(encodings) - 0.4, -0.6)
    ax.grid(axis="x", alpha=0.3)
    ax.tick_params(labelsize=9)
    ax.margins(x=0.08)
