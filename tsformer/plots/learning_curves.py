"""Figures of scores against the number of training series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from tsformer._checks import check_known
from tsformer.plots.figures import (
    MARKERS,
    Panels,
    encoding_color,
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
    average: bool = False,
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
    average : bool, default=False
        Draw one panel with the mean over data sets against the percentage, in place of a panel for
        each data set. Data sets that lack a method or a size are left out; the spread is that of
        the mean over seeds.
    axes : Axes or sequence of Axes, optional
        Where to draw: one panel for each data set, or the one of the average. By default, a new
        figure.

    Raises
    ------
    ValueError
        If a column is missing, if `axes` has another number of panels, or if ``average=True`` with
        sizes that are not percentages or without a data set that has all methods and sizes.

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
    parts = {"": _averaged(rows)} if average else dict(list(rows.groupby("dataset", sort=False)))
    names = [shortened(name) for name in methods]
    width = 3.2 if len(parts) > 1 else 4.6
    panels = Panels(
        axes,
        len(parts),
        "data set" if not average else "average",
        n_columns=3,
        # Tall enough for the legend of a single row.
        panel=(width, max(2.9, 0.24 * (len(methods) + 1))),
        around=(1.1 + widest(names, 8), 0.5),
    )
    for ax, (dataset, part) in zip(panels.axes, parts.items(), strict=True):
        for place, method in enumerate(methods):
            _draw(ax, part[part["method"] == method], method, MARKERS[place % len(MARKERS)])
        scale_by_powers(ax, part["x"])
        if average:
            shares = _apart(part["x"])
            ax.set_xticks(shares, [f"{share:g}%" for share in shares])
        end_score_axis(ax, part["score"], "y")
        ax.grid(alpha=0.3)
        n_datasets = rows["dataset"].nunique() if not average else part["datasets"].iloc[0]
        title = f"mean over {n_datasets} data sets" if average else str(dataset)
        ax.set_title(wrapped(title, width - 0.6, 10), fontsize=10)
    what = "share of the training series" if average else "training series"
    bars = "; mean ± standard deviation over fits" if panels.own else ""
    panels.label(f"{what} (log scale){bars}", f"test {metric.replace('_', ' ')}")
    handles, labels = panels.axes[0].get_legend_handles_labels()
    if panels.own:
        panels.figure.legend(handles, labels, loc="outside right upper", fontsize=8, frameon=False)
    else:
        panels.axes[-1].legend(fontsize=8, framealpha=0.8, edgecolor="none")
    return panels.figure


def _tidy(results: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return `dataset`, `method`, `size`, `x`, the repeat of each fit, and `score`."""
    method = "method" if "method" in results.columns else "encoding"
    for name in ("dataset", method, "train_size", metric):
        check_known("column of the results", name, results.columns)
    sizes = results["train_size"].astype(str)
    relative = sizes.str.endswith("%")
    if "n_train" in results.columns:
        numbers = results["n_train"].astype(float)
    elif relative.any():
        raise ValueError(
            "the results lack the column n_train, which says how many series a percentage is; got "
            f"the columns {', '.join(map(str, results.columns))}"
        )
    else:
        numbers = sizes.astype(float)
    repeats = [name for name in ("seed", "resample") if name in results.columns]
    return pd.DataFrame(
        {
            "dataset": results["dataset"],
            "method": results[method].astype(str),
            "size": sizes,
            "x": numbers,
            "repeat": list(map(tuple, results[repeats].to_numpy())),
            "score": results[metric].astype(float),
        }
    )


def can_average(results: pd.DataFrame, metric: str = "accuracy") -> bool:
    """Return whether `plot_learning_curves` can draw the mean over these data sets."""
    rows = _tidy(results, metric)
    return bool(rows["size"].str.endswith("%").all() and _complete(rows))


def _complete(rows: pd.DataFrame) -> list[str]:
    """Return the data sets that have every method, size and repeat."""
    cells = rows[["method", "size", "repeat"]].map(str).agg("/".join, axis=1)
    counts = cells.groupby(rows["dataset"], sort=False).nunique()
    return counts.index[counts == cells.nunique()].tolist()


def _averaged(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over data sets for each method, percentage and repeat."""
    if not rows["size"].str.endswith("%").all():
        raise ValueError(
            "a mean over data sets needs sizes that are percentages, which mean the same in each; "
            f"got {', '.join(dict.fromkeys(rows['size']))}"
        )
    complete = _complete(rows)
    if not complete:
        raise ValueError("no data set has scores of every method, size and seed; draw them apart")
    kept = rows[rows["dataset"].isin(complete)]
    means = kept.groupby(["method", "size", "repeat"], sort=False)["score"].mean().reset_index()
    return means.assign(x=means["size"].str.removesuffix("%").astype(float), datasets=len(complete))


def _apart(values: pd.Series[float]) -> list[float]:
    """Drop values whose tick labels would overlap the next."""
    kept: list[float] = []
    for value in sorted(set(values), reverse=True):
        if not kept or value <= kept[-1] / 1.3:
            kept.append(value)
    return kept


def _draw(ax: Axes, rows: pd.DataFrame, method: str, marker: str) -> None:
    # By size: a percentage is another number of series in each fold of a cross-validation.
    points = rows.groupby("size", sort=False).agg(
        x=("x", "mean"), mean=("score", "mean"), spread=("score", "std")
    )
    points = points.fillna({"spread": 0.0}).sort_values("x")
    ax.errorbar(
        points["x"].to_numpy(),
        points["mean"].to_numpy(),
        yerr=points["spread"].to_numpy(),  # of length 0 for a single fit
        color=encoding_color(method),
        marker=marker,
        markersize=5,
        linewidth=1.6,
        elinewidth=1.0,
        label=shortened(method),
    )
