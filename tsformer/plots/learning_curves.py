"""Figures of scores against the number of training series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from tsformer._checks import check_known
from tsformer.plots.figures import (
    MARKERS,
    Panels,
    encoding_colors,
    end_score_axis,
    scale_by_powers,
    shortened,
    widest,
    wrapped,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_learning_curves(
    results: pd.DataFrame,
    *,
    metric: str = "accuracy",
    axes: Axes | Sequence[Axes] | None = None,
) -> Figure:
    """Draw scores against the number of training series, a line per method.

    A line joins the means over seeds and resamples; bars are ± one standard deviation. A
    percentage whose number of series varies between resamples is drawn at the mean number.

    Parameters
    ----------
    results : DataFrame
        One row per fit, as `tsformer.studies.compare` returns them for a study with `train_sizes`:
        `dataset`, `method` or `encoding`, `train_size` (a number, or a percentage as in
        ``"10%"``), `seed` and `metric`, and `n_train`, the number of series, which may only be
        missing where no size is a percentage.
    metric : str, default="accuracy"
        The column to show.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each data set. By default, a new figure.

    Raises
    ------
    ValueError
        If a column is missing, or if `axes` has another number of panels.

    Examples
    --------
    >>> rows = [("A", "none", n, 0, 0.5 + n / 100) for n in (10, 20, 40)]
    >>> columns = ["dataset", "method", "train_size", "seed", "accuracy"]
    >>> figure = plot_learning_curves(pd.DataFrame(rows, columns=columns))
    >>> figure.axes[0].get_title()
    'A'
    """
    rows = _tidy(results, metric)
    methods = list(dict.fromkeys(rows["method"]))
    parts = dict(list(rows.groupby("dataset", sort=False)))
    names = [shortened(name) for name in methods]
    width = 3.2 if len(parts) > 1 else 4.6
    panels = Panels(
        axes,
        len(parts),
        "data set",
        n_columns=3,
        # Tall enough for the legend of a single row.
        panel=(width, max(2.9, 0.24 * (len(methods) + 1))),
        around=(1.1 + widest(names, 8), 0.5),
    )
    for ax, (dataset, part) in zip(panels.axes, parts.items(), strict=True):
        for place, (method, color) in enumerate(encoding_colors(methods).items()):
            # By size: a percentage is another number of series in each fold.
            sizes = part[part["method"] == method].groupby("size", sort=False)
            points = sizes.agg(x=("x", "mean"), mean=("score", "mean"), spread=("score", "std"))
            x, mean, spread = points.fillna({"spread": 0.0}).sort_values("x").to_numpy().T
            style: dict[str, Any] = {"color": color, "marker": MARKERS[place % len(MARKERS)]}
            ax.errorbar(x, mean, yerr=spread, markersize=5, label=shortened(method), **style)
        scale_by_powers(ax, part["x"])
        end_score_axis(ax, part["score"], "y")
        ax.grid(alpha=0.3)
        ax.set_title(wrapped(str(dataset), width - 0.6, 10), fontsize=10)
    bars = "; mean ± standard deviation over fits" if panels.own else ""
    panels.label(f"training series (log scale){bars}", f"test {metric.replace('_', ' ')}")
    handles, labels = panels.axes[0].get_legend_handles_labels()
    if panels.own:
        panels.figure.legend(handles, labels, loc="outside right upper", fontsize=8, frameon=False)
    else:
        panels.axes[-1].legend(fontsize=8, framealpha=0.8, edgecolor="none")
    return panels.figure


def _tidy(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return `dataset`, `method`, `size`, number of series `x` and `score` of each fit."""
    method = "method" if "method" in results.columns else "encoding"
    for name in ("dataset", method, "train_size", metric):
        check_known("column of the results", name, results.columns)
    sizes = results["train_size"].astype(str)
    if sizes.str.endswith("%").any():
        check_known("column of the results", "n_train", results.columns)
    return pd.DataFrame(
        {
            "dataset": results["dataset"],
            "method": results[method].astype(str),
            "size": sizes,
            "x": results.get("n_train", sizes).astype(float),
            "score": results[metric].astype(float),
        }
    )
