"""Figures of statistics: critical difference diagram, matrix of pairs, and probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tsformer._optional import require
from tsformer.plots.figures import new_figure
from tsformer.studies.analysis.statistics import Statistics, p_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_chances", "plot_critical_difference", "plot_pairs"]


def plot_critical_difference(statistics: Statistics, *, alpha: float = 0.05) -> Figure:
    """Draw mean ranks on a line, best at the left; bars join methods not shown to differ.

    A bar joins the methods with a dot on it: a method that it merely passes over may differ.

    Parameters
    ----------
    statistics : Statistics
        What to draw.
    alpha : float, default=0.05
        Pairs with a lower corrected p differ; none does if Friedman's test is not significant.

    Returns
    -------
    matplotlib.figure.Figure
    """
    posthocs = require("scikit_posthocs", extra="statistics", purpose="the diagram")
    names = list(statistics.ranks.index)
    # By number: the library uses sets, and sets of names have another order in every process.
    place = {name: i for i, name in enumerate(names)}
    p = pd.DataFrame(1.0, index=range(len(names)), columns=range(len(names)))
    for pair in statistics.significant(alpha).to_dict("records"):
        i, j = place[pair["better"]], place[pair["worse"]]
        p.iloc[i, j] = p.iloc[j, i] = pair["p_holm"]
    figure = new_figure(8, 1.6 + 0.16 * len(names))
    axes = figure.subplots()
    drawn = posthocs.critical_difference_diagram(
        statistics.ranks.set_axis(range(len(names))),
        p,
        alpha=alpha,
        ax=axes,
        label_fmt_left="{label}",
        label_fmt_right="{label}",
        # A bar joins only the methods that have a dot on it.
        crossbar_props={"linewidth": 3, "marker": "o", "markersize": 7},
        elbow_props={"color": "0.4"},
    )
    for text in drawn["labels"]:
        name = names[int(text.get_text())]
        rank = f"({statistics.ranks[name]:.2f})"
        text.set_text(f"{name} {rank}" if text.get_ha() == "right" else f"{rank} {name}")
    for (bar,) in drawn["crossbars"]:
        bar.set_xdata(np.sort(bar.get_xdata()))  # a single stroke of constant width
    axes.set_title(
        f"mean rank over {len(statistics.scores)} data sets; methods with a dot on one bar are not "
        "shown to differ "
        f"(Wilcoxon, Holm, {alpha:g})",
        fontsize=9,
    )
    return figure


def plot_pairs(statistics: Statistics, *, alpha: float = 0.05) -> Figure:
    """Draw the multiple-comparison matrix: every pair of methods, and their mean scores.

    A cell compares the row's method with the column's: the mean difference in percentage points
    (also as colour), the data sets won, tied and lost, and the p-value of Wilcoxon's test of that
    pair alone. None of these changes when another method is added. Bold cells stay below `alpha`
    after Holm's correction for all pairs, which does change.

    Parameters
    ----------
    statistics : Statistics
        What to draw.
    alpha : float, default=0.05
        Pairs with a lower corrected p are bold, provided that Friedman's test is significant.

    Returns
    -------
    matplotlib.figure.Figure

    References
    ----------
    Ismail-Fawaz et al., "An Approach to Multiple Comparison Benchmark Evaluations that is Stable
    Under Manipulation of the Comparate Set", 2023.
    """
    names = list(statistics.ranks.index)
    place = {name: i for i, name in enumerate(names)}
    difference = np.full((len(names), len(names)), np.nan)
    figure = new_figure(2.6 + 0.9 * len(names), 1.5 + 0.68 * len(names))
    axes = figure.subplots()
    differs = set(statistics.significant(alpha).index)
    pairs = statistics.pairs
    for index, pair in zip(pairs.index, pairs.to_dict("records"), strict=True):
        row, column = place[pair["better"]], place[pair["worse"]]
        for i, j, sign in ((row, column, 1), (column, row, -1)):
            difference[i, j] = sign * pair["difference"]
            wins, losses = (pair["wins"], pair["loses"])[::sign]
            points = f"{100 * sign * pair['difference']:+.1f}"
            axes.text(
                j,
                i,
                f"{points}\n{wins}/{pair['ties']}/{losses}\n{p_text(pair['p'])}",
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold" if index in differs else "normal",
            )
    most = np.nanmax(np.abs(difference)) or 1.0
    # A wider range than the values: black text is unreadable on the map's dark ends.
    axes.imshow(difference, cmap="RdBu", vmin=-1.6 * most, vmax=1.6 * most, aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    means = statistics.scores.mean()
    axes.set_yticks(range(len(names)), [f"{name}  {means[name]:.3f}" for name in names])
    axes.set_ylabel("method and mean score")
    axes.set_title(
        "row minus column: points, data sets won/tied/lost, p of that pair alone (Wilcoxon)\n"
        f"bold: p < {alpha:g} after Holm for all {len(statistics.pairs)} pairs; "
        f"{len(statistics.scores)} data sets",
        fontsize=9,
    )
    return figure


def plot_chances(statistics: Statistics, reference: str) -> Figure:
    """Draw the probabilities that each method is better than, equivalent to, or worse than one.

    Parameters
    ----------
    statistics : Statistics
        What to draw.
    reference : str
        The method to compare the others with.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If there is no such method.
    """
    pairs = statistics.against(reference)
    figure = new_figure(7.6, 1.3 + 0.32 * len(pairs))
    axes = figure.subplots()
    left = np.zeros(len(pairs))
    rope = f"{statistics.rope:g}"
    for column, label, color in (
        ("p_better", f"better by more than {rope}", "#0072B2"),
        ("p_same", f"within {rope}", "#D9D9D9"),
        ("p_worse", f"worse by more than {rope}", "#D55E00"),
    ):
        chance = pairs[column].to_numpy()
        axes.barh(range(len(pairs)), chance, left=left, color=color, label=label, height=0.7)
        for i, (start, width) in enumerate(zip(left, chance, strict=True)):
            if width >= 0.08:  # a number wider than its bar would overlap the next
                dark = column != "p_same"
                axes.text(
                    start + width / 2,
                    i,
                    f"{width:.2f}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if dark else "black",
                )
        left = left + chance
    axes.set_yticks(range(len(pairs)), pairs["method"])
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.set_xlabel(f"probability, against {reference} (Bayesian signed-rank test)")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    return figure
