"""Figures of statistics: critical difference diagram and matrix of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer._optional import require
from tsformer.plots.figures import figure_of, one_panel, shortened, widest, wrapped
from tsformer.studies.analysis.statistics import Statistics, p_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Least gap between two bars of one height, of the range of mean ranks.
GAP = 0.05
#: Degrees by which names below a matrix are turned.
_SLANT = 40


def plot_critical_difference(
    statistics: Statistics, *, alpha: float = 0.05, ax: Axes | None = None
) -> Figure:
    """Draw mean ranks on a line, best at the left; bars join methods that do not differ.

    A bar joins the methods with a dot on it: a method that it merely passes over may differ.

    Parameters
    ----------
    statistics : Statistics
        What to draw.
    alpha : float, default=0.05
        Pairs with a lower corrected p differ; none does if Friedman's test is not significant.
    ax : Axes, optional
        Where to draw. By default, a new figure.

    Examples
    --------
    >>> from tsformer.studies import compare_methods
    >>> rows = [(d, m, 0, s + d / 9) for d in range(6) for m, s in (("none", 0.3), ("rope", 0.4))]
    >>> rows = pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"])
    >>> figure = plot_critical_difference(compare_methods(rows))
    >>> sorted(text.get_text() for text in figure.axes[0].texts)
    ['(2.00) none', 'rope (1.00)']
    """
    posthocs = require("scikit_posthocs", extra="statistics", purpose="the diagram")
    names = list(statistics.ranks.index)
    # By number: the library uses sets, and sets of names have another order in every process.
    place = {name: i for i, name in enumerate(names)}
    p = pd.DataFrame(1.0, index=range(len(names)), columns=range(len(names)))
    for pair in statistics.significant(alpha).to_dict("records"):
        i, j = place[pair["better"]], place[pair["worse"]]
        p.iloc[i, j] = p.iloc[j, i] = pair["p_holm"]
    labels = [f"{shortened(name)} ({rank:.2f})" for name, rank in statistics.ranks.items()]
    middle = (len(names) + 1) // 2
    beside = widest(labels[:middle], 10) + widest(labels[middle:], 10)
    height, own_figure = 1.9 + 0.2 * len(names), ax is None
    ax = one_panel(ax, 5.5 + beside, height)
    drawn = posthocs.critical_difference_diagram(
        statistics.ranks.set_axis(range(len(names))),
        p,
        alpha=alpha,
        ax=ax,
        label_fmt_left="{label}",
        label_fmt_right="{label}",
        # A bar joins only the methods that have a dot on it.
        crossbar_props={"linewidth": 3, "marker": "o", "markersize": 7},
        elbow_props={"color": "0.4"},
    )
    for text in drawn["labels"]:
        name = shortened(names[int(text.get_text())])
        rank = f"({statistics.ranks.iloc[int(text.get_text())]:.2f})"
        text.set_text(f"{name} {rank}" if text.get_ha() == "right" else f"{rank} {name}")
    for (bar,) in drawn["crossbars"]:
        bar.set_xdata(np.sort(bar.get_xdata()))  # a single stroke of constant width
    _part_bars(drawn, GAP * float(np.ptp(statistics.ranks)))
    ax.relim()
    ax.autoscale_view()
    if own_figure:  # many bars need more lines than the names
        n_lines = -min(text.get_position()[1] for text in drawn["labels"])
        figure_of(ax).set_figheight(max(height, 1.5 + 0.2 * n_lines))
    title = (
        f"mean rank over {len(statistics.scores)} data sets; methods with a dot on one bar are not "
        f"shown to differ (Wilcoxon, Holm, {alpha:g})"
    )
    ax.set_title(wrapped(title, 5.4, 9), fontsize=9)
    return figure_of(ax)


def _part_bars(drawn: dict[str, Any], gap: float) -> None:
    """Give bars of one height a gap between them, or a height of their own below."""
    heights: list[float] = []  # where the last bar of each height ends
    before = len({bar.get_ydata()[0] for (bar,) in drawn["crossbars"]})
    for (bar,) in drawn["crossbars"]:  # ordered by where they begin
        first, *_, last = bar.get_xdata()
        fits = (i for i, end in enumerate(heights) if first - end >= gap)
        height = next(fits, len(heights))
        heights[height : height + 1] = [last]
        bar.set_ydata([-height - 1.0] * len(bar.get_xdata()))
    lower = len(heights) - before
    for elbow in drawn["elbows"]:
        y, _, top = elbow.get_ydata()
        elbow.set_ydata([y - lower, y - lower, top])
    for label in drawn["labels"]:
        x, y = label.get_position()
        label.set_position((x, y - lower))


def plot_pairs(statistics: Statistics, *, alpha: float = 0.05, ax: Axes | None = None) -> Figure:
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
    ax : Axes, optional
        Where to draw. By default, a new figure.

    References
    ----------
    Ismail-Fawaz et al., "An Approach to Multiple Comparison Benchmark Evaluations that is Stable
    Under Manipulation of the Comparate Set", 2023.
    """
    names = list(statistics.ranks.index)
    place = {name: i for i, name in enumerate(names)}
    difference = np.full((len(names), len(names)), np.nan)
    means = statistics.scores.mean()
    labels = list(map(shortened, names))
    scored = [f"{label}  {means[name]:.3f}" for label, name in zip(labels, names, strict=True)]
    width = max(0.9 * len(names), 3.6)
    below = widest(labels, 10) * np.sin(np.deg2rad(_SLANT))
    ax = one_panel(ax, 0.6 + widest(scored, 10) + width, 1.3 + below + 0.68 * len(names))
    differs = set(statistics.significant(alpha).index)
    pairs = statistics.pairs
    for index, pair in zip(pairs.index, pairs.to_dict("records"), strict=True):
        row, column = place[pair["better"]], place[pair["worse"]]
        for i, j, sign in ((row, column, 1), (column, row, -1)):
            difference[i, j] = sign * pair["difference"]
            wins, losses = (pair["wins"], pair["loses"])[::sign]
            points = f"{100 * sign * pair['difference']:+.1f}"
            ax.text(
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
    ax.imshow(difference, cmap="RdBu", vmin=-1.6 * most, vmax=1.6 * most, aspect="auto")
    ax.set_xticks(range(len(names)), labels, rotation=_SLANT, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(names)), scored)
    ax.set_ylabel("method and mean score")
    n_pairs = len(statistics.pairs)
    title = (
        "row minus column: points, data sets won/tied/lost, p of that pair alone (Wilcoxon)\n"
        f"bold: p < {alpha:g} after Holm for {'the only pair' * (n_pairs == 1)}"
        f"{f'all {n_pairs} pairs' * (n_pairs > 1)}; {len(statistics.scores)} data sets"
    )
    ax.set_title(wrapped(title, width - 0.1, 9), fontsize=9)
    return figure_of(ax)
