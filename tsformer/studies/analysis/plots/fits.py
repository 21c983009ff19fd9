"""Figures of fits: scores by data set, gains as box plots, all scores of a study."""

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
    figure_of,
    new_figure,
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

    Returns
    -------
    matplotlib.figure.Figure

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
    for box, name in zip(boxes["boxes"], encodings, strict=True):
        box.set_facecolor(encoding_color(name))
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


def plot_by_dataset(results: pd.DataFrame, *, panels: pd.Series | None = None) -> Figure:
    """Draw the mean score of every encoding on every data set, ± one standard deviation.

    A row is a data set, a colour an encoding; the deviation is that over seeds and resamples, and
    has no line if there is one fit.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding` and `accuracy`.
    panels : Series, optional
        A title for each row of `results`; each title gets a panel of its own.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> rows = pd.DataFrame({"dataset": "A", "encoding": ["none", "rope"], "accuracy": [0.6, 0.8]})
    >>> len(plot_by_dataset(rows).axes)
    1
    """
    datasets = list(dict.fromkeys(results["dataset"]))
    encodings = list(dict.fromkeys(results["encoding"]))
    titles = pd.Series("", results.index) if panels is None else panels
    names = list(dict.fromkeys(titles))
    row = 0.35 + 0.11 * len(encodings)
    width = 4.4 + 4.4 * len(names)
    figure = new_figure(width, max(width, 2.2 + row * len(datasets)))
    places = figure.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for ax, name in zip(places, names, strict=True):
        _draw(ax, results[titles == name], datasets, encodings)
        ax.set_title(name, fontsize=14)
    places[0].set_yticks(range(len(datasets)), datasets)
    places[0].set_ylim(len(datasets) - 0.5, -0.5)
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=min(4, len(labels)), fontsize=13
    )
    figure.supxlabel("test accuracy: mean ± standard deviation over fits", fontsize=13)
    return figure


def _draw(ax: Axes, rows: pd.DataFrame, datasets: list[str], encodings: list[str]) -> None:
    by_dataset = rows.groupby(["encoding", "dataset"])["accuracy"]
    means, spreads = by_dataset.mean(), by_dataset.std().fillna(0.0)
    beside = np.linspace(-0.36, 0.36, len(encodings)) if len(encodings) > 1 else [0.0]
    for encoding, offset in zip(encodings, beside, strict=True):
        cells = [(place, (encoding, name)) for place, name in enumerate(datasets)]
        cells = [(place, cell) for place, cell in cells if cell in means.index]
        ax.errorbar(
            [means[cell] for _, cell in cells],
            [place + offset for place, _ in cells],
            xerr=[spreads[cell] for _, cell in cells],
            fmt="o",
            markersize=5,
            linewidth=1.6,
            color=encoding_color(encoding),
            label=encoding,
        )
    for place in range(len(datasets) - 1):
        ax.axhline(place + 0.5, color="0.85", linewidth=0.8, zorder=0)
    ax.grid(axis="x", alpha=0.3)
    ax.tick_params(labelsize=13)
    low, high = ax.get_xlim()
    ax.set_xlim(low, min(high, 1.0) if means.max() < 1 else 1.01)
