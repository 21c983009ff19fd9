"""The figure of all fits: scores by data set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tsformer.plots.figures import (
    Panels,
    encoding_color,
    end_score_axis,
    fewer_ticks,
    shortened,
    widest,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_comparison(results: pd.DataFrame, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Draw scores per data set: one dot per fit, the mean, and ± one standard deviation.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding` and `accuracy`.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each data set. By default, a new figure.

    Returns
    -------
    matplotlib.figure.Figure

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
    for place, encoding in enumerate(encodings):
        values = rows.loc[rows["encoding"] == encoding, "accuracy"].to_numpy(dtype=float)
        if not len(values):
            continue
        color = encoding_color(encoding)
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
