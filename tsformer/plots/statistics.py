"""Pictures of what statistics say: a critical-difference diagram, and every pair in a matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer._optional import require
from tsformer.plots.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_critical_difference", "plot_pairs"]


def plot_critical_difference(statistics: Any, *, alpha: float = 0.05) -> Figure:
    """Draw mean ranks on a line, best at the left; a bar joins methods that may be alike.

    Parameters
    ----------
    statistics : tsformer.studies.statistics.Statistics
        What to draw.
    alpha : float, default=0.05
        Pairs whose corrected p is lower differ; none does if Friedman's test finds nothing.

    Returns
    -------
    matplotlib.figure.Figure
    """
    posthocs = require("scikit_posthocs", extra="statistics", purpose="the diagram")
    names = list(statistics.ranks.index)
    p = pd.DataFrame(1.0, index=names, columns=names)
    for pair in statistics.significant(alpha).itertuples():
        p.loc[pair.better, pair.worse] = p.loc[pair.worse, pair.better] = pair.p_holm
    figure = new_figure(8, 1.6 + 0.16 * len(names))
    axes = figure.subplots()
    posthocs.critical_difference_diagram(
        statistics.ranks,
        p,
        alpha=alpha,
        ax=axes,
        label_fmt_left="{label} ({rank:.2f})",
        label_fmt_right="({rank:.2f}) {label}",
        crossbar_props={"linewidth": 3, "marker": ""},
        elbow_props={"color": "0.4"},
    )
    axes.set_title(
        f"mean rank over {len(statistics.scores)} data sets; a bar joins those that do not differ "
        f"(Wilcoxon, Holm, {alpha:g})",
        fontsize=9,
    )
    return figure


def plot_pairs(statistics: Any) -> Figure:
    """Draw every pair: mean difference as colour; wins, ties and losses, and corrected p, as text.

    Parameters
    ----------
    statistics : tsformer.studies.statistics.Statistics
        What to draw.

    Returns
    -------
    matplotlib.figure.Figure
    """
    names = list(statistics.ranks.index)
    place = {name: i for i, name in enumerate(names)}
    difference = np.full((len(names), len(names)), np.nan)
    figure = new_figure(1.6 + 0.95 * len(names), 1.2 + 0.62 * len(names))
    axes = figure.subplots()
    for pair in statistics.pairs.itertuples():
        row, column = place[pair.better], place[pair.worse]
        for i, j, sign in ((row, column, 1), (column, row, -1)):
            difference[i, j] = sign * pair.difference
            wins, losses = (pair.wins, pair.loses)[::sign]
            axes.text(
                *(j, i, f"{100 * sign * pair.difference:+.1f}\n{wins}/{pair.ties}/{losses}"),
                *(),
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold" if pair.p_holm < 0.05 else "normal",
            )
    most = np.nanmax(np.abs(difference)) or 1.0
    axes.imshow(difference, cmap="RdBu", vmin=-1.6 * most, vmax=1.6 * most, aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    axes.set_yticks(range(len(names)), names)
    axes.set_title(
        "row less column: points, wins/ties/losses\nbold: p < 0.05 after Holm",
        fontsize=9,
    )
    return figure
