"""Pictures of what statistics say: a critical-difference diagram, every pair, and chances."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer._optional import require
from tsformer.plots.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["p_text", "plot_chances", "plot_critical_difference", "plot_pairs"]


def plot_critical_difference(statistics: Any, *, alpha: float = 0.05) -> Figure:
    """Draw mean ranks on a line, best at the left; a bar joins methods that may be alike.

    A bar joins those that have a dot on it: one between two that are alike may differ from either.

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
    # By number: sets of names, which it works with, have another order in every process.
    place = {name: i for i, name in enumerate(names)}
    p = pd.DataFrame(1.0, index=range(len(names)), columns=range(len(names)))
    for pair in statistics.significant(alpha).itertuples():
        i, j = place[pair.better], place[pair.worse]
        p.loc[i, j] = p.loc[j, i] = pair.p_holm
    figure = new_figure(8, 1.6 + 0.16 * len(names))
    axes = figure.subplots()
    drawn = posthocs.critical_difference_diagram(
        statistics.ranks.set_axis(range(len(names))),
        p,
        alpha=alpha,
        ax=axes,
        label_fmt_left="{label}",
        label_fmt_right="{label}",
        # Not all that a bar passes over are joined by it: those with a dot are.
        crossbar_props={"linewidth": 3, "marker": "o", "markersize": 7},
        elbow_props={"color": "0.4"},
    )
    for text in drawn["labels"]:
        name = names[int(text.get_text())]
        rank = f"({statistics.ranks[name]:.2f})"
        text.set_text(f"{name} {rank}" if text.get_ha() == "right" else f"{rank} {name}")
    for (bar,) in drawn["crossbars"]:
        bar.set_xdata(np.sort(bar.get_xdata()))  # one stroke, as thick everywhere
    axes.set_title(
        f"mean rank over {len(statistics.scores)} data sets; dots on a bar are not shown to differ "
        f"(Wilcoxon, Holm, {alpha:g})",
        fontsize=9,
    )
    return figure


def plot_pairs(statistics: Any, *, alpha: float = 0.05) -> Figure:
    """Draw the multiple-comparison matrix: every pair of methods, and their mean scores.

    A cell holds, of the row's method less the column's, the mean difference in points (also as
    colour), the data sets won, tied and lost, and the p-value of Wilcoxon's test of that pair
    alone: none of these changes when another method joins. Bold is what stays below `alpha` after
    Holm's correction for all pairs, which does change.

    Parameters
    ----------
    statistics : tsformer.studies.statistics.Statistics
        What to draw.
    alpha : float, default=0.05
        Pairs whose corrected p is lower are bold, if Friedman's test finds anything.

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
    for pair in statistics.pairs.itertuples():
        row, column = place[pair.better], place[pair.worse]
        for i, j, sign in ((row, column, 1), (column, row, -1)):
            difference[i, j] = sign * pair.difference
            wins, losses = (pair.wins, pair.loses)[::sign]
            points = f"{100 * sign * pair.difference:+.1f}"
            axes.text(
                j,
                i,
                f"{points}\n{wins}/{pair.ties}/{losses}\n{p_text(pair.p)}",
                ha="center",
                va="center",
                fontsize=8,
                fontweight="bold" if pair.Index in differs else "normal",
            )
    most = np.nanmax(np.abs(difference)) or 1.0
    # Wider than the values: the ends of the map are too dark to read black on.
    axes.imshow(difference, cmap="RdBu", vmin=-1.6 * most, vmax=1.6 * most, aspect="auto")
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right")
    means = statistics.scores.mean()
    axes.set_yticks(range(len(names)), [f"{name}  {means[name]:.3f}" for name in names])
    axes.set_ylabel("method, mean score")
    axes.set_title(
        "row less column: points, data sets won/tied/lost, p of that pair alone (Wilcoxon)\n"
        f"bold: p < {alpha:g} after Holm for all {len(statistics.pairs)} pairs; "
        f"{len(statistics.scores)} data sets",
        fontsize=9,
    )
    return figure


def plot_chances(statistics: Any, reference: str) -> Figure:
    """Draw the Bayesian chances that each method is better than one, as good, or worse.

    Parameters
    ----------
    statistics : tsformer.studies.statistics.Statistics
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
            if width >= 0.08:  # a number wider than its bar would lie on the next
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
    axes.set_xlabel(f"chance, against {reference} (Bayesian signed-rank test)")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    return figure


def p_text(p: float) -> str:
    """Return a p-value as one writes it: three digits, and none below them; of NaN a dash."""
    if np.isnan(p):
        return "–"
    return "p<.001" if p < 0.001 else f"p={p:.3f}".replace("0.", ".")
