"""Figures of training curves and of test results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer.plots.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_confusion", "plot_history"]

_MOST_NUMBERED = 20


def plot_history(history: Any) -> Figure:
    """Draw training curves: losses, the validation score if there is one, the learning rate.

    Parameters
    ----------
    history : History, DataFrame or list of dict
        One row per epoch, as ``classifier.history_``.

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
                marker = (
                    "o" if len(frame) < 3 else None
                )  # a line through a single point is invisible
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
    """Draw a confusion matrix: counts as numbers, coloured by the fraction of the true class.

    Parameters
    ----------
    y_true, y_pred : array-like (n,)
        True and predicted labels.
    classes : array-like (K,)
        All labels, in display order.

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
    every = max(1, -(-len(classes) // 40))  # no more names than can be read
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
        f"{np.trace(counts)} of {counts.sum()} correct: accuracy {accuracy:.3f}", fontsize=11
    )
    figure.colorbar(image, ax=ax, label="fraction of the true class", shrink=0.9)
    return figure
