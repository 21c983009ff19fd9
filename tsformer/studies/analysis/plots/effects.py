"""Figures of gains over a baseline, what they correlate with, and what methods cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from tsformer._optional import require
from tsformer.plots.figures import encoding_color, new_figure
from tsformer.studies.analysis.effects import COVARIATES
from tsformer.studies.analysis.statistics import p_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_cost", "plot_gains", "plot_mean_gains"]

_COSTS = {"fit_seconds": "seconds per fit", "n_parameters": "parameters"}
#: Each method also has its own marker, since colours alone are not distinct enough.
_MARKERS = "osD^vPX<>*ph"


def plot_mean_gains(tables: Mapping[str, pd.DataFrame], baseline: str) -> Figure:
    """Draw each method's mean gain over a baseline with its interval, one panel per variant.

    Parameters
    ----------
    tables : mapping of str to DataFrame
        Label of a variant to what `tsformer.studies.analysis.effects.mean_gains` returns.
    baseline : str
        The method over which gains were computed.

    Returns
    -------
    matplotlib.figure.Figure
    """
    methods = list(dict.fromkeys(name for table in tables.values() for name in table["method"]))
    figure = new_figure(max(3.7 * len(tables) + 1.2, 6), 1.2 + 0.32 * len(methods))
    panels = figure.subplots(1, len(tables), sharey=True, squeeze=False)[0]
    for ax, (label, table) in zip(panels, tables.items(), strict=True):
        for row in table.to_dict("records"):
            y = methods.index(row["method"])
            color = encoding_color(row["method"])
            ax.plot([100 * row["low"], 100 * row["high"]], [y, y], color=color, linewidth=2)
            ax.plot([100 * row["gain"]], [y], "o", color=color, markersize=6)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_yticks(range(len(methods)), methods)
        ax.set_ylim(len(methods) - 0.5, -0.5)
        ax.grid(axis="x", alpha=0.3)
        n = int(table["datasets"].iloc[0])
        ax.set_title(f"{label}{', ' if label else ''}{n} data sets", fontsize=10)
    figure.supxlabel(
        f"mean gain over {baseline} in percentage points, with 95 % interval", fontsize=10
    )
    return figure


def plot_gains(gains: pd.DataFrame, effects: pd.DataFrame, covariate: str, baseline: str) -> Figure:
    """Draw gains against series length or training size, one panel per method.

    Parameters
    ----------
    gains : DataFrame
        As `tsformer.studies.analysis.effects.gains` returns.
    effects : DataFrame
        As `tsformer.studies.analysis.effects.effects` returns, for the titles: the rank
        correlation, and its p corrected for the number of methods.
    covariate : {"length", "train_size"}
        The x axis.
    baseline : str
        The method over which gains were computed.

    Returns
    -------
    matplotlib.figure.Figure
    """
    found = effects[effects["covariate"] == covariate].set_index("method")
    gains = gains[gains[covariate].notna()]
    methods = list(found.index)
    n_columns = min(4, len(methods))
    n_rows = -(-len(methods) // n_columns)
    figure = new_figure(max(2.2 * n_columns + 0.8, 5), 2.1 * n_rows + 0.6)
    panels = figure.subplots(n_rows, n_columns, sharex=True, sharey=True, squeeze=False)
    for ax, method in zip(panels.flat, methods, strict=False):
        rows = gains[gains["method"] == method]
        ax.axhline(0, color="0.4", linewidth=0.8)
        ax.scatter(
            rows[covariate],
            100 * rows["gain"],
            color=encoding_color(method),
            s=24,
            alpha=0.85,
            linewidths=0,
            zorder=3,
        )
        effect = found.loc[method]
        said = "no correlation computed"
        if effect["p_holm"] == effect["p_holm"]:  # NaN: too few data sets, or all equal
            said = f"r = {effect['rho']:+.2f}, {p_text(effect['p_holm'])}"
        ax.set_title(f"{method}\n{said}", fontsize=9)
        _scale_by_powers(ax, gains[covariate])
        ax.grid(alpha=0.3)
    for ax in panels.flat[len(methods) :]:
        ax.set_visible(False)
    figure.supxlabel(
        f"{COVARIATES[covariate]} (log scale); one dot per data set; r: rank correlation, p: Holm",
        fontsize=10,
    )
    figure.supylabel(f"gain over {baseline} (percentage points)", fontsize=10)
    return figure


def _scale_by_powers(ax: Axes, values: pd.Series[float]) -> None:
    """Make x logarithmic with plain numbers: matplotlib's own labels overlap."""
    ticker = require("matplotlib.ticker", extra="plots", purpose="drawing a figure")
    ax.set_xscale("log")
    wide = values.max() > 100 * values.min()
    ax.xaxis.set_major_locator(ticker.LogLocator(subs=(1,) if wide else (1, 3)))
    ax.xaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    ax.xaxis.set_minor_locator(ticker.NullLocator())


def plot_cost(costs: pd.DataFrame) -> Figure:
    """Draw mean score against cost, one panel per known cost; a line joins the Pareto front.

    Parameters
    ----------
    costs : DataFrame
        As `tsformer.studies.analysis.effects.costs` returns.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        If the table has no cost column.
    """
    there = [name for name in _COSTS if name in costs.columns]
    if not there:
        raise ValueError(
            f"no cost to draw: the table needs one of the columns {', '.join(_COSTS)}; got "
            f"{', '.join(costs.columns)}"
        )
    # Tall enough for the legend: one line per method and one for the front.
    figure = new_figure(4.2 * len(there) + 1.6, max(4.0, 0.22 * (len(costs) + 2)))
    panels = figure.subplots(1, len(there), sharey=True, squeeze=False)[0]
    for ax, cost in zip(panels, there, strict=True):
        _draw_cost(ax, costs, cost)
    panels[0].set_ylabel("mean score")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _draw_cost(ax: Axes, costs: pd.DataFrame, cost: str) -> None:
    front = costs[costs[f"front_{cost}"]].sort_values(cost)
    ax.plot(front[cost], front["score"], color="0.6", linewidth=1, zorder=1, label="Pareto front")
    for i, row in enumerate(costs.to_dict("records")):
        ax.scatter(
            [row[cost]],
            [row["score"]],
            color=encoding_color(row["method"]),
            marker=_MARKERS[i % len(_MARKERS)],
            edgecolors="black" if row[f"front_{cost}"] else "none",
            s=55,
            zorder=3,
            label=row["method"],
        )
    # Encodings share most of a model: their costs are too close for a log scale.
    ax.margins(0.08)
    ax.set_xlabel(f"{_COSTS[cost]}, mean over data sets")
    ax.grid(alpha=0.3)
    if np.ptp(costs[cost]) >= 10_000:
        ax.ticklabel_format(axis="x", style="plain")
