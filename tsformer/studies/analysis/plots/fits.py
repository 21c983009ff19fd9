"""A picture of all fits: how far above or below the data set's mean an encoding scores."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from tsformer.plots.figures import encoding_color, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_boxes"]


def plot_boxes(results: pd.DataFrame, *, metric: str = "accuracy") -> Figure:
    """Draw a box an encoding: its fits' score less the mean of all encodings on that data set.

    A box spans the quartiles, its line is the median, its whiskers reach the last fit within 1.5
    times the box; fits beyond are dots. Of the scores themselves the boxes would show how data
    sets differ.

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
    axes.set_xlabel(f"test {metric.replace('_', ' ')} less the data set's mean, points")
    return figure
