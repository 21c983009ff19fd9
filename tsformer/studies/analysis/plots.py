"""Figures of a study's scores, statistics and costs, made without pyplot.

`ax` or `axes` are panels to draw on, as many as the figure has; by default, a new figure is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer._optional import require
from tsformer.plots import figures
from tsformer.plots.figures import (
    MARKERS,
    Panels,
    abbreviated,
    encoding_colors,
    figure_of,
    widest,
    wrapped,
)
from tsformer.studies.analysis.ranking import REMAINING
from tsformer.studies.analysis.statistics import Statistics, p_text
from tsformer.studies.analysis.study_scores import COSTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: A cost that differs by more than this factor is drawn on a log scale: that of methods, which
#: differ by orders of magnitude, but not that of encodings.
_FAR_APART = 20
#: Degrees by which names below a matrix are turned.
_SLANT = 40


def plot_boxes(results: pd.DataFrame, *, ax: Axes | None = None) -> Figure:
    """Draw one box per encoding: scores minus the mean over encodings on that data set.

    Parameters
    ----------
    results : DataFrame
        One row per fit, with the columns `dataset`, `encoding` and `accuracy`.
    ax : Axes, optional
        Where to draw.

    Examples
    --------
    >>> results = pd.DataFrame({"dataset": "A", "encoding": ["none", "rope"], "accuracy": 0.8})
    >>> [label.get_text() for label in plot_boxes(results).axes[0].get_yticklabels()]
    ['none', 'rope']
    """
    by_encoding = results.groupby(["dataset", "encoding"], sort=False)["accuracy"].mean()
    level = results["dataset"].map(by_encoding.groupby("dataset").mean())
    gains = (100 * (results["accuracy"] - level)).groupby(results["encoding"], sort=False)
    boxes_of = {name: gain.to_numpy(dtype=float) for name, gain in gains}
    names = [abbreviated(name) for name in boxes_of]
    ax = figures.one_panel(ax, 6 + widest(names, 10), 1.4 + 0.34 * len(names))
    style: Any = {"medianprops": {"color": "black"}, "orientation": "horizontal"}
    style |= {"flierprops": {"marker": ".", "markersize": 4, "alpha": 0.6}, "patch_artist": True}
    boxes = ax.boxplot(list(boxes_of.values()), tick_labels=names, **style)
    for box, color in zip(boxes["boxes"], encoding_colors(boxes_of).values(), strict=True):
        box.set(facecolor=color, alpha=0.75)
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
        Where to draw: one panel for each data set.

    Examples
    --------
    >>> results = pd.DataFrame({"dataset": ["A", "B"], "encoding": "none", "accuracy": 0.8})
    >>> [ax.get_title() for ax in plot_comparison(results).axes]
    ['A', 'B']
    """
    datasets, encodings = results["dataset"].unique(), results["encoding"].unique()
    width, names = 3.2 if len(datasets) > 1 else 5.2, list(map(abbreviated, encodings))
    size, beside = (width, 1.1 + 0.34 * len(encodings)), (0.3 + widest(names, 9), 0.6)
    panels = Panels(
        axes, len(datasets), "data set", n_columns=3, panel=size, around=beside, sharey=True
    )
    for ax, dataset in zip(panels.axes, datasets, strict=True):
        rows = results[results["dataset"] == dataset]
        for y, (encoding, color) in enumerate(encoding_colors(encodings).items()):
            values = rows.loc[rows["encoding"] == encoding, "accuracy"].to_numpy(dtype=float)
            if not len(values):
                continue
            # Dots of equal value are side by side, and a dot at the end of the axis is whole.
            shift = np.linspace(-0.16, 0.16, len(values)) if len(values) > 1 else np.zeros(1)
            dots: dict[str, Any] = {"alpha": 0.65, "linewidths": 0, "zorder": 3, "clip_on": False}
            ax.scatter(values, y + shift, 22, color, **dots)
            mean, spread = values.mean(), values.std(ddof=1) if len(values) > 1 else 0.0
            ax.plot([mean - spread, mean + spread], [y, y], color=color, linewidth=2, zorder=2)
            ax.plot([mean, mean], [y - 0.34, y + 0.34], color=color, linewidth=3, zorder=4)
        ax.tick_params(labelsize=9)
        ax.margins(x=0.08)
        _name_rows(ax, names, 4)
        figures.end_score_axis(ax, rows["accuracy"], "x")
        ax.set_title(wrapped(dataset, width - 0.4, 11), fontsize=11)
    panels.label("test accuracy: one dot per fit, bar = mean ± standard deviation")
    return panels.figure


def _name_rows(ax: Axes, names: Sequence[str], n_ticks: int) -> None:
    """Name the rows of a panel, the first at the top."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(axis="x", alpha=0.3)
    figures.fewer_ticks(ax, n_ticks)


def plot_mean_gains(
    tables: Mapping[str, pd.DataFrame], baseline: str, *, axes: Axes | Sequence[Axes] | None = None
) -> Figure:
    """Draw each method's mean gain over a baseline with its interval, one panel per variant.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Label of a variant to what `tsformer.studies.analysis.statistics.mean_gains` returns.
    baseline : str
        The method over which gains were computed.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each variant.

    Examples
    --------
    >>> table = pd.DataFrame({"method": ["rope"], "gain": [0.1], "low": [0.05], "high": [0.2]})
    >>> plot_mean_gains({"": table.assign(datasets=12)}, "none").axes[0].get_title()
    '12 data sets'
    """
    methods = list(dict.fromkeys(name for table in tables.values() for name in table["method"]))
    names, n = list(map(abbreviated, methods)), len(tables)
    width = 3.7 if n > 1 else 5.5
    size, beside = (width, 0.9 + 0.32 * len(methods)), (0.3 + widest(names, 10), 0.5)
    panels = Panels(axes, n, "variant", n_columns=n, panel=size, around=beside, sharey=True)
    colors = encoding_colors([baseline, *methods])
    for ax, (label, table) in zip(panels.axes, tables.items(), strict=True):
        y = map(methods.index, table["method"])
        _draw_intervals(ax, names, y, table, table["method"].map(colors))
        words = [*([label] if label else []), f"{int(table['datasets'].iloc[0])} data sets"]
        ax.set_title(wrapped(", ".join(words), width - 0.4, 10), fontsize=10)
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
        The `ranking` of a `Comparison`; dropped encodings are hollow.
    axes : Axes, optional
        Where to draw.

    Examples
    --------
    >>> ranking = pd.DataFrame({"encoding": ["rope", "none"], "folds": 3, "behind": [0, 0.1]})
    >>> ranking = ranking.assign(margin=[0, 0.05], outcome=["leads", "behind"])
    >>> plot_ranking(ranking).axes[0].get_xlabel()
    'accuracy minus that of rope on the same folds, in percentage points'
    """
    colors = encoding_colors(ranking["encoding"])
    shown = ranking[ranking["behind"].notna()]
    names = list(map(abbreviated, shown["encoding"]))
    ax = figures.one_panel(axes, 6.4 + widest(names, 10), 0.9 + 0.26 * len(names))
    gain, margin = -shown["behind"], shown["margin"].where(shown["margin"] > 0)
    table = pd.DataFrame({"gain": gain, "low": gain - margin, "high": gain + margin})
    fills = shown["outcome"].isin(REMAINING).map({True: "full", False: "none"})
    folds = [f"{n} fold{'s' * (n != 1)}" for n in shown["folds"]]
    rows = list(map("{}, {}".format, names, folds))
    _draw_intervals(ax, rows, range(len(rows)), table, shown["encoding"].map(colors), fills)
    ax.set_xlabel(f"accuracy minus that of {names[0]} on the same folds, in percentage points")
    return figure_of(ax)


def _draw_intervals(
    ax: Axes,
    names: list[str],
    rows: Iterable[int],
    table: pd.DataFrame,
    colors: Iterable[str],
    fills: Iterable[Any] = itertools.repeat("full"),
) -> None:
    """Draw shares around zero in points, with their intervals, in named rows."""
    limits = 100 * table[["low", "gain", "high"]]
    for y, (low, x, high), color, fill in zip(rows, limits.to_numpy(), colors, fills, strict=False):
        if low == low:  # NaN: too few scores
            ax.plot([low, high], [y, y], color=color, linewidth=2)
        ax.plot([x], [y], "o", color=color, markersize=6, fillstyle=fill)
    ax.axvline(0, color="0.4", linewidth=0.8)
    _name_rows(ax, names, 5)


def plot_cost(costs: pd.DataFrame, *, axes: Axes | Sequence[Axes] | None = None) -> Figure:
    """Draw mean score against cost, one panel per known cost; a line joins the Pareto front.

    Costs that differ by more than a factor of twenty have a log scale. Memory has no front.

    Parameters
    ----------
    costs : DataFrame
        As `tsformer.studies.analysis.statistics.costs` returns; ValueError without any cost.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each cost that the table has.

    Examples
    --------
    >>> table = pd.DataFrame({"method": ["none"], "score": [0.7], "fit_seconds": [3.0]})
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
    # The caller's panels count as one row: the legend goes beside the last.
    n, n_columns = len(there), len(there) if axes is not None or len(there) < 4 else 2
    # Tall enough for the legend: one line per method and one for the front.
    size = 4.2, max(4.0, 0.24 * (len(costs) + 2))
    around = 0.8 + widest(map(abbreviated, costs["method"]), 8), 0.0
    panels = Panels(axes, n, "cost", n_columns=n_columns, panel=size, around=around, sharey=True)
    colors = encoding_colors(costs["method"])
    for ax, cost in zip(panels.axes, there, strict=True):
        known, front = costs[cost].dropna(), costs.get(f"front_{cost}")
        if front is not None:
            rows = costs[front].sort_values(cost)
            ax.plot(rows[cost], rows["score"], "0.6", linewidth=1, zorder=1, label="Pareto front")
        for i, row in enumerate(costs.to_dict("records")):
            edge = "black" if row.get(f"front_{cost}") else "none"
            dot: dict[str, Any] = {
                "color": colors[row["method"]],
                "marker": MARKERS[i % len(MARKERS)],
                "s": 55,
            }
            dot |= {"zorder": 3, "clip_on": False, "label": abbreviated(row["method"])}
            ax.scatter(row[cost], row["score"], edgecolors=edge, **dot)
        ax.margins(0.08)
        ax.grid(alpha=0.3)
        far = bool(0 < _FAR_APART * known.min() < known.max())
        ax.set_xlabel(f"{COSTS[cost]}, mean over data sets{' (log scale)' * far}")
        if far:
            figures.scale_by_powers(ax, known)
        else:
            figures.fewer_ticks(ax, 5)
            ax.xaxis.set_major_formatter("{x:,.10g}")
        figures.end_score_axis(ax, costs["score"], "y")
    for ax in panels.axes[::n_columns]:
        ax.set_ylabel("mean score")
    beside: dict[str, Any] = {
        "loc": "upper left",
        "bbox_to_anchor": (1.02, 1.02),
        "borderaxespad": 0,
    }
    shown = panels.axes[0].get_legend_handles_labels()  # only the first surely has a front
    panels.axes[n_columns - 1].legend(*shown, fontsize=8, frameon=False, **beside)
    return panels.figure


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
        Where to draw.

    Examples
    --------
    >>> from tsformer.studies import compare_methods
    >>> rows = [(d, m, 0, s + d / 9) for d in range(6) for m, s in (("none", 0.3), ("rope", 0.4))]
    >>> found = compare_methods(pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"]))
    >>> figure = plot_critical_difference(found)
    >>> sorted(text.get_text() for text in figure.axes[0].texts)
    ['none (2.00)', 'rope (1.00)']
    """
    posthocs = require("scikit_posthocs", extra="statistics", purpose="the diagram")
    # By number: the library uses sets, and sets of names have another order in every process.
    ranks = statistics.ranks.reset_index(drop=True)
    index = {name: i for i, name in enumerate(statistics.ranks.index)}
    p = pd.DataFrame(1.0, ranks.index, ranks.index)
    for pair in statistics.significant(alpha).to_dict("records"):
        i, j = index[pair["better"]], index[pair["worse"]]
        p.iloc[i, j] = p.iloc[j, i] = pair["p_holm"]
    labels = [f"{abbreviated(name)} ({rank:.2f})" for name, rank in statistics.ranks.items()]
    middle = (len(labels) + 1) // 2
    beside = widest(labels[:middle], 10) + widest(labels[middle:], 10)
    height, own_figure = 1.9 + 0.2 * len(labels), ax is None
    ax = figures.one_panel(ax, 5.5 + beside, height)
    style: dict[str, Any] = {"label_fmt_left": "{label}", "label_fmt_right": "{label}"}
    style |= {"crossbar_props": {"linewidth": 3, "marker": "o", "markersize": 7}}
    style |= {"elbow_props": {"color": "0.4"}}
    drawn = posthocs.critical_difference_diagram(ranks, p, alpha=alpha, ax=ax, **style)
    for text in drawn["labels"]:
        text.set_text(labels[int(text.get_text())])
    for (bar,) in drawn["crossbars"]:
        bar.set_xdata(np.sort(bar.get_xdata()))  # a single stroke of constant width
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


def plot_pairs(statistics: Statistics, *, alpha: float = 0.05, ax: Axes | None = None) -> Figure:
    """Draw the multiple-comparison matrix: every pair of methods, and their mean scores.

    A cell compares the row's method with the column's: the mean difference in percentage points
    (also as colour), the data sets won, tied and lost, and the p-value of Wilcoxon's test of that
    pair alone. Ismail-Fawaz et al., "An Approach to Multiple Comparison Benchmark Evaluations that
    is Stable Under Manipulation of the Comparate Set", 2023.

    Parameters
    ----------
    statistics : Statistics
        What to draw.
    alpha : float, default=0.05
        Pairs with a lower p after Holm's correction are bold, if Friedman's test is significant.
    ax : Axes, optional
        Where to draw.
    """
    means, pairs = statistics.scores.mean(), statistics.pairs
    index = {name: i for i, name in enumerate(statistics.ranks.index)}
    difference = np.full((len(index), len(index)), np.nan)
    labels = list(map(abbreviated, index))
    scored = [f"{label}  {means[name]:.3f}" for label, name in zip(labels, index, strict=True)]
    width = max(0.9 * len(labels), 3.6)
    below = widest(labels, 10) * np.sin(np.deg2rad(_SLANT))
    ax = figures.one_panel(ax, 0.6 + widest(scored, 10) + width, 1.3 + below + 0.68 * len(labels))
    bold = pairs.index.isin(statistics.significant(alpha).index)
    weights = np.where(bold, "bold", "normal")
    for weight, pair in zip(weights, pairs.to_dict("records"), strict=True):
        i, j = index[pair["better"]], index[pair["worse"]]
        counts = [pair["wins"], pair["ties"], pair["loses"]]
        for row, column, sign in ((i, j, 1), (j, i, -1)):
            difference[row, column] = sign * pair["difference"]
            points = f"{100 * difference[row, column]:+.1f}"
            cell = f"{points}\n{'/'.join(map(str, counts[::sign]))}\n{p_text(pair['p'])}"
            ax.text(column, row, cell, ha="center", va="center", fontsize=8, fontweight=weight)
    most = np.nanmax(np.abs(difference)) or 1.0
    # A wider range than the values: black text is unreadable on the map's dark ends.
    ax.imshow(difference, cmap="RdBu", vmin=-1.6 * most, vmax=1.6 * most, aspect="auto")
    ax.set_xticks(range(len(labels)), labels, rotation=_SLANT, ha="right", rotation_mode="anchor")
    ax.set_yticks(range(len(labels)), scored)
    ax.set_ylabel("method and mean score")
    of = f"all {len(pairs)} pairs" if len(pairs) > 1 else "the only pair"
    title = (
        "row minus column: points, data sets won/tied/lost, p of that pair alone (Wilcoxon)\n"
        f"bold: p < {alpha:g} after Holm for {of}; {len(statistics.scores)} data sets"
    )
    ax.set_title(wrapped(title, width - 0.1, 9), fontsize=9)
    return figure_of(ax)
