"""Figures of gains over a baseline and of costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from tsformer.plots.figures import (
    MARKERS,
    Panels,
    encoding_colors,
    end_score_axis,
    fewer_ticks,
    scale_by_powers,
    shortened,
    text_width,
    widest,
    wrapped,
)
from tsformer.studies.analysis.ranking import REMAINING
from tsformer.studies.analysis.scores import COSTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: A cost that differs by more than this factor is drawn on a log scale. Encodings share most of a
#: model, and stay on a linear one; methods differ by orders of magnitude.
_FAR_APART = 20


def plot_mean_gains(
    tables: Mapping[str, pd.DataFrame],
    baseline: str,
    *,
    axes: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw each method's mean gain over a baseline with its interval, one panel per variant.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Label of a variant to what `tsformer.studies.analysis.analyse.mean_gains` returns. A mean of
        too few data sets has no interval there, and none here.
    baseline : str
        The method over which gains were computed.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each variant. By default, a new figure.

    Raises
    ------
    ValueError
        If `axes` has another number of panels.

    Examples
    --------
    >>> table = pd.DataFrame({"method": ["rope"], "gain": [0.1], "low": [0.05], "high": [0.2]})
    >>> plot_mean_gains({"": table.assign(datasets=12)}, "none").axes[0].get_title()
    '12 data sets'
    """
    methods = list(dict.fromkeys(name for table in tables.values() for name in table["method"]))
    names = list(map(shortened, methods))
    width = 3.7 if len(tables) > 1 else 5.5
    panels = Panels(
        axes,
        len(tables),
        "variant",
        n_columns=len(tables),
        panel=(width, 0.9 + 0.32 * len(methods)),
        around=(0.3 + widest(names, 10), 0.5),
        sharey=True,
    )
    colors = encoding_colors([baseline, *methods])
    for ax, (label, table) in zip(panels.axes, tables.items(), strict=True):
        for row in table.to_dict("records"):
            y = methods.index(row["method"])
            color = colors[row["method"]]
            if row["low"] == row["low"]:  # NaN: too few data sets
                ax.plot([100 * row["low"], 100 * row["high"]], [y, y], color=color, linewidth=2)
            ax.plot([100 * row["gain"]], [y], "o", color=color, markersize=6)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_yticks(range(len(methods)), names)
        ax.set_ylim(len(methods) - 0.5, -0.5)
        ax.grid(axis="x", alpha=0.3)
        fewer_ticks(ax, 5)
        n_datasets = f"{int(table['datasets'].iloc[0])} data sets"
        title = f"{label}, {n_datasets}" if label else n_datasets
        if text_width(title, 10) > width - 0.4:
            title = f"{wrapped(label, width - 0.4, 10)}\n{n_datasets}"
        ax.set_title(title, fontsize=10)
    interval = any(table["low"].notna().any() for table in tables.values())
    panels.label(
        f"mean gain over {baseline} in percentage points{', with 95 % interval' * interval}"
    )
    return panels.figure


def plot_ranking(ranking: pd.DataFrame, *, axes: Axes | None = None) -> Figure:
    """Draw how far each encoding is behind the leader, with its interval.

    Parameters
    ----------
    ranking : DataFrame
        The `ranking` of a `Comparison`. An encoding without a fit is not drawn; a dropped one is
        hollow.
    axes : Axes, optional
        Where to draw; by default, a new figure.

    Examples
    --------
    >>> ranking = pd.DataFrame({"encoding": ["rope", "none"], "folds": 3, "behind": [0, 0.1]})
    >>> ranking = ranking.assign(margin=[0, 0.05], outcome=["leads", "behind"])
    >>> plot_ranking(ranking).axes[0].get_xlabel()
    'accuracy minus that of rope on the same folds, in percentage points'
    """
    shown = ranking[ranking["behind"].notna()]
    names = list(map(shortened, shown["encoding"]))
    panels = Panels(
        axes,
        1,
        "ranking",
        n_columns=1,
        panel=(5.5, 0.9 + 0.26 * len(names)),
        around=(0.9 + widest(names, 10), 0),
    )
    (ax,) = panels.axes
    colors = encoding_colors(ranking["encoding"])
    for y, row in enumerate(shown.to_dict("records")):
        color, x = colors[row["encoding"]], -100 * row["behind"]
        if row["margin"] > 0:
            half = 100 * row["margin"]
            ax.plot([x - half, x + half], [y, y], color=color, linewidth=2)
        remains = row["outcome"] in REMAINING
        ax.plot([x], [y], "o", color=color, markersize=6, fillstyle="full" if remains else "none")
    ax.axvline(0, color="0.4", linewidth=0.8)
    folds = [f"{n} fold{'s' * (n != 1)}" for n in shown["folds"]]
    ax.set_yticks(range(len(names)), [f"{name}, {n}" for name, n in zip(names, folds, strict=True)])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="x", alpha=0.3)
    fewer_ticks(ax, 5)
    ax.set_xlabel(f"accuracy minus that of {names[0]} on the same folds, in percentage points")
    return panels.figure


def plot_cost(costs: pd.DataFrame, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Draw mean score against cost, one panel per known cost; a line joins the Pareto front.

    Costs that differ by more than a factor of twenty have a log scale. Memory has no front.

    Parameters
    ----------
    costs : DataFrame
        As `tsformer.studies.analysis.analyse.costs` returns. A method without any cost, a published
        one, is not drawn.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each cost that the table has. By default, a new figure.

    Raises
    ------
    ValueError
        If the table has no cost column, or `axes` has another number of panels.

    Examples
    --------
    >>> table = pd.DataFrame({"method": ["none", "rope"], "score": [0.7, 0.9], "rank": [2.0, 1.0]})
    >>> table = table.assign(fit_seconds=[3.0, 4.0], front_fit_seconds=True)
    >>> plot_cost(table).axes[0].get_xlabel()
    'seconds per fit, mean over data sets'
    """
    there = [name for name in COSTS if name in costs.columns]
    if not there:
        raise ValueError(
            f"no cost to draw: the table needs one of the columns {', '.join(COSTS)}; got "
            f"{', '.join(costs.columns)}"
        )
    costs = costs[costs[there].notna().any(axis=1)]
    # Axes of the caller's are taken for a row: the legend goes beside the last.
    n_columns = len(there) if axes is not None or len(there) < 4 else 2
    panels = Panels(
        axes,
        len(there),
        "cost",
        n_columns=n_columns,
        # Tall enough for the legend: one line per method and one for the front.
        panel=(4.2, max(4.0, 0.24 * (len(costs) + 2))),
        around=(0.8 + widest(map(shortened, costs["method"]), 8), 0.0),
        sharey=True,
    )
    for ax, cost in zip(panels.axes, there, strict=True):
        _draw_cost(ax, costs, cost)
        end_score_axis(ax, costs["score"], "y")
    for ax in panels.axes[::n_columns]:
        ax.set_ylabel("mean score")
    panels.axes[n_columns - 1].legend(
        *panels.axes[0].get_legend_handles_labels(),  # beside it there may be no front
        loc="upper left",
        bbox_to_anchor=(1.02, 1.02),
        fontsize=8,
        frameon=False,
        borderaxespad=0,
    )
    return panels.figure


def _draw_cost(ax: Axes, costs: pd.DataFrame, cost: str) -> None:
    if f"front_{cost}" in costs.columns:
        front = costs[costs[f"front_{cost}"]].sort_values(cost)
        ax.plot(
            front[cost], front["score"], color="0.6", linewidth=1, zorder=1, label="Pareto front"
        )
    colors = encoding_colors(costs["method"])
    for i, row in enumerate(costs.to_dict("records")):
        ax.scatter(
            [row[cost]],
            [row["score"]],
            color=colors[row["method"]],
            marker=MARKERS[i % len(MARKERS)],
            edgecolors="black" if row.get(f"front_{cost}") else "none",
            s=55,
            zorder=3,
            clip_on=False,
            label=shortened(row["method"]),
        )
    ax.margins(0.08)
    ax.grid(alpha=0.3)
    known = costs[cost].dropna()
    if 0 < _FAR_APART * known.min() < known.max():
        ax.set_xlabel(f"{COSTS[cost]}, mean over data sets (log scale)")
        scale_by_powers(ax, known)
        return
    ax.set_xlabel(f"{COSTS[cost]}, mean over data sets")
    fewer_ticks(ax, 5)
    ax.xaxis.set_major_formatter("{x:,.10g}")
