"""Figures of all fits of a study: scores per data set, and relative to each data set's mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tsformer.plots.figures import encoding_color, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_boxes", "plot_comparison"]


def plot_boxes(results: pd.DataFrame, *, metric: str = "accuracy") -> Figure:
    """Draw one box per encoding: scores minus the mean over encodings on that data set.

    A box spans the quartiles with a line at the median; whiskers reach the last fit within 1.5
    times the box, and fits beyond are dots. Without subtracting the mean, the boxes would mostly
    show how data sets differ.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding` and `metric`.
    metric : str, default="accuracy"
        The column to show.

    Returns
    -------
    matplotlib.figure.Figure
    """
    by_encoding = results.groupby(["dataset", "encoding"], sort=False)[metric].mean()
    level = results["dataset"].map(by_encoding.groupby("dataset").mean())
    gain = 100 * (results[metric] - level)
    encodings = list(dict.fromkeys(results["encoding"]))
    figure = new_figure(7, 1.4 + 0.34 * len(encodings))
    axes = figure.subplots()
    boxes = axes.boxplot(
        [gain[results["encoding"] == name].to_numpy(dtype=float) for name in encodings],
        orientation="horizontal",
        tick_labels=encodings,
        patch_artist=True,
        medianprops={"color": "black"},
        flierprops={"marker": ".", "markersize": 4, "alpha": 0.6},
    )
    for box, name in zip(boxes["boxes"], encodings, strict=True):
        box.set_facecolor(encoding_color(name))
        box.set_alpha(0.75)
    axes.axvline(0, color="0.6", linewidth=0.8, zorder=0)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    axes.set_xlabel(f"test {metric.replace('_', ' ')} minus the data set's mean (points)")
    return figure


def plot_comparison(results: pd.DataFrame, *, metric: str = "accuracy") -> Figure:
    """Draw scores per data set: one dot per fit, the mean, and ± one standard deviation.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding` and `metric`.
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
        _draw_dataset(ax, results[results["dataset"] == dataset], encodings, metric)
        ax.set_title(dataset, fontsize=11)
    for ax in axes.flat[len(datasets) :]:
        ax.set_visible(False)
    figure.supxlabel(
        f"test {metric.replace('_', ' ')}: one dot per fit, bar = mean ± standard deviation",
        fontsize=10,
    )
    return figure


def _draw_dataset(ax: Axes, rows: pd.DataFrame, encodings: list[str], metric: str) -> None:
    for place, encoding in enumerate(encodings):
        values = rows.loc[rows["encoding"] == encoding, metric].to_numpy(dtype=float)
        if not len(values):
            continue
        color = encoding_color(encoding)
        # Dots of equal value are drawn side by side, in the order of the seeds.
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
