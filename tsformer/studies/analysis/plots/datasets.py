"""A figure of all scores of a study by data set, square enough for MLflow's grid of pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tsformer.plots.figures import encoding_color, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_by_dataset(
    results: pd.DataFrame, *, metric: str = "accuracy", panels: pd.Series | None = None
) -> Figure:
    """Draw the mean score of every encoding on every data set, ± one standard deviation.

    A row is a data set, a colour an encoding; the deviation is that over seeds and resamples, and
    has no line if there is one fit.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding` and `metric`.
    metric : str, default="accuracy"
        The column to show.
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
        _draw(ax, results[titles == name], datasets, encodings, metric)
        ax.set_title(name, fontsize=14)
    places[0].set_yticks(range(len(datasets)), datasets)
    places[0].set_ylim(len(datasets) - 0.5, -0.5)
    handles, labels = places[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside upper center", ncols=min(4, len(labels)), fontsize=13
    )
    label = f"test {metric.replace('_', ' ')}: mean ± standard deviation over fits"
    figure.supxlabel(label, fontsize=13)
    return figure


def _draw(
    ax: Axes, rows: pd.DataFrame, datasets: list[str], encodings: list[str], metric: str
) -> None:
    by_dataset = rows.groupby(["encoding", "dataset"])[metric]
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
