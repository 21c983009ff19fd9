"""Figures of fits: gains as box plots, scores by data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tsformer.plots.figures import (
    Panels,
    encoding_colors,
    end_score_axis,
    fewer_ticks,
    figure_of,
    one_panel,
    shortened,
    widest,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_boxes(results: pd.DataFrame, *, ax: Axes | None = None) -> Figure:
    """Draw one box per encoding: scores minus the mean over encodings on that data set.

    A box spans the quartiles with a line at the median; whiskers reach the last fit within 1.5
    times the box, and fits beyond are dots. Without subtracting the mean, the boxes would mostly
    show how data sets differ.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding` and `accuracy`.
    ax : Axes, optional
        Where to draw. By default, a new figure.

    Examples
    --------
    >>> rows = [("A", "none", 0.8), ("A", "rope", 0.9), ("B", "none", 0.5), ("B", "rope", 0.7)]
    >>> results = pd.DataFrame(rows, columns=["dataset", "encoding", "accuracy"])
    >>> [label.get_text() for label in plot_boxes(results).axes[0].get_yticklabels()]
    ['none', 'rope']
    """
    by_encoding = results.groupby(["dataset", "encoding"], sort=False)["accuracy"].mean()
    level = results["dataset"].map(by_encoding.groupby("dataset").mean())
    gain = 100 * (results["accuracy"] - level)
    encodings = list(dict.fromkeys(results["encoding"]))
    names = [shortened(name) for name in encodings]
    ax = one_panel(ax, 6 + widest(names, 10), 1.4 + 0.34 * len(encodings))
    boxes = ax.boxplot(
        [gain[results["encoding"] == name].to_numpy(dtype=float) for name in encodings],
        orientation="horizontal",
        tick_labels=names,
        patch_artist=True,
        medianprops={"color": "black"},
        flierprops={"marker": ".", "markersize": 4, "alpha": 0.6},
    )
    for box, color in zip(boxes["boxes"], encoding_colors(encodings).values(), strict=True):
        box.set_facecolor(color)
        box.set_alpha(0.75)
    ax.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    ax.invert_yaxis()
    ax.grid(axis="x", alpha=0.3)
    ax.set_xlabel(wrapped("test accuracy minus the data set's mean (points)", 5.4, 10))
    return figure_of(ax)


def plot_comparison(results: pd.DataFrame, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Draw scores per data set: one dot per fit, the mean, and ± one standard deviation.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding` and `accuracy`.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each data set. By default, a new figure.

    Raises
    ------
    ValueError
        If `axes` has another number of panels.

    Examples
    --------
    >>> rows = [("A", "none", 0.8), ("A", "rope", 0.9), ("B", "none", 0.5), ("B", "rope", 0.7)]
    >>> results = pd.DataFrame(rows, columns=["dataset", "encoding", "accuracy"])
    >>> [ax.get_title() for ax in plot_comparison(results).axes]
    ['A', 'B']
    """
    datasets = list(dict.fromkeys(results["dataset"]))
    encodings = list(dict.fromkeys(results["encoding"]))
    width = 3.2 if len(datasets) > 1 else 5.2
    panels = Panels(
        axes,
        len(datasets),
        "data set",
        n_columns=3,
        panel=(width, 1.1 + 0.34 * len(encodings)),
        around=(0.3 + widest(map(shortened, encodings), 9), 0.6),
        sharey=True,
    )
    for ax, dataset in zip(panels.axes, datasets, strict=True):
        _draw_dataset(ax, results[results["dataset"] == dataset], encodings)
        ax.set_title(wrapped(dataset, width - 0.4, 11), fontsize=11)
    panels.label("test accuracy: one dot per fit, bar = mean ± standard deviation")
    return panels.figure


def _draw_dataset(ax: Axes, rows: pd.DataFrame, encodings: list[str]) -> None:
    for place, (encoding, color) in enumerate(encoding_colors(encodings).items()):
        values = rows.loc[rows["encoding"] == encoding, "accuracy"].to_numpy(dtype=float)
        if not len(values):
            continue
        # Dots of equal value are drawn side by side, in the order of the seeds.
        beside = np.linspace(-0.16, 0.16, len(values)) if len(values) > 1 else np.zeros(1)
        ax.scatter(
            values,
            place + beside,
            color=color,
            s=22,
            alpha=0.65,
            linewidths=0,
            zorder=3,
            clip_on=False,  # a dot at the end of the axis is drawn whole
        )
        mean, spread = values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0
        ax.plot([mean - spread, mean + spread], [place, place], color=color, linewidth=2, zorder=2)
        ax.plot([mean, mean], [place - 0.34, place + 0.34], color=color, linewidth=3, zorder=4)
    ax.set_yticks(range(len(encodings)), [shortened(name) for name in encodings])
    ax.set_ylim(len(encodings) - 0.4, -0.6)
    ax.grid(axis="x", alpha=0.3)
    ax.tick_params(labelsize=9)
    ax.margins(x=0.08)
    fewer_ticks(ax)
    end_score_axis(ax, rows["accuracy"], "x")
