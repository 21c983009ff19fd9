"""Pictures of studies can be read: with long names, many encodings, few or many data sets."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import figure as figures
from picture_checks import assert_legible, panels

from tsformer.data import list_datasets
from tsformer.encodings import names
from tsformer.studies import (
    Statistics,
    plot_boxes,
    plot_chances,
    plot_comparison,
    plot_cost,
    plot_critical_difference,
    plot_mean_gains,
    plot_pairs,
)
from tsformer.studies.analysis.statistics import mean_ranks

PROBLEMS = ["AsphaltObstaclesCoordinates", "DistalPhalanxOutlineAgeGroup", "ProximalPhalanxTW"]
PROBLEMS += ["SonyAIBORobotSurface1", "MiddlePhalanxOutlineCorrect", "StandWalkJump", "CBF"]
LONG = ["none", "my_own_encoding_with_a_name_that_goes_on_and_on_and_on_for_a_while"]
LONG += ["fixed+learnable+erpe+rope", "tape+erpe, stem=convolution, head_norm=None"]
COLUMNS = ["better", "worse", "difference", "wins", "ties", "loses", "p", "p_holm"]
COLUMNS += ["p_better", "p_same", "p_worse"]
#: Data sets and methods of a study.
STUDIES: dict[str, tuple[list[str], list[str]]] = {
    "small": (PROBLEMS[:2], ["none", "rope"]),
    "long names": (PROBLEMS, LONG),
    "many encodings": (PROBLEMS, [*names(), "tape+erpe"]),
    "many data sets": (list(list_datasets()["name"][:20]), ["none", "rope", "erpe"]),
}
CASES = [pytest.param(n, marks=pytest.mark.slow if n != "small" else ()) for n in STUDIES]


def results(study: str) -> pd.DataFrame:
    datasets, methods = STUDIES[study]
    rng = np.random.default_rng(0)
    rows = [
        (name, method, seed, min(1.0, 0.9 + 0.01 * i + 0.05 * rng.normal()))
        for name in datasets
        for i, method in enumerate(methods)
        for seed in range(3)
    ]
    return pd.DataFrame(rows, columns=["dataset", "encoding", "seed", "accuracy"])


@cache
def found(study: str) -> Statistics:
    """Return statistics with made-up tests, which would take most of the time."""
    means = results(study).groupby(["dataset", "encoding"])["accuracy"].mean().unstack()
    ranks = mean_ranks(means).sort_values()
    means = means[ranks.index]
    rows = [
        (one, other, (means[one] - means[other]).mean(), 12, 1, 1, 0.0123, 0.04, 0.3, 0.6, 0.1)
        for one, other in itertools.combinations(means.columns, 2)
    ]
    pairs = pd.DataFrame(rows, columns=COLUMNS)
    pairs.loc[::2, "p_holm"] = 1.0
    return Statistics(means, means, ranks, 0.01, pairs, 0.01, [])


def mean_gains(study: str) -> pd.DataFrame:
    methods = [name for name in found(study).ranks.index if name != "none"]
    gain = np.linspace(0.1, -0.1, len(methods))
    table = pd.DataFrame({"method": methods, "gain": gain, "low": gain - 0.1, "high": gain + 0.1})
    return table.assign(datasets=len(found(study).scores))


def costs(study: str) -> pd.DataFrame:
    ranks = found(study).ranks
    n = np.arange(len(ranks))
    table = pd.DataFrame({"method": ranks.index, "score": 1 - 0.002 * n, "rank": ranks.to_numpy()})
    costs = {"fit_seconds": 2 + 0.11 * n, "predict_seconds": 0.003 * 1.9 ** (n % 23)}
    table = table.assign(**costs, n_parameters=123_456 + 1_234 * n, front_n_parameters=n < 2)
    return table.assign(front_fit_seconds=n < 1, front_predict_seconds=n < 1)


@pytest.mark.parametrize("study", CASES)
def test_pictures_are_legible(study):
    table, memory = mean_gains(study), np.linspace(812.3, 1_234.5, len(found(study).ranks))
    variants = {f"stem=convolution, head_norm={what}": table for what in ("batch", "layer", None)}
    with_memory = costs(study).assign(peak_memory_mb=memory, predict_memory_mb=memory[::-1])
    for figure in (
        plot_comparison(results(study)),
        plot_boxes(results(study)),
        plot_critical_difference(found(study)),
        plot_pairs(found(study)),
        plot_chances(found(study), "none"),
        plot_mean_gains({"": table}, "none"),
        plot_mean_gains(variants, "none"),
        plot_cost(costs(study)),
        plot_cost(with_memory),
    ):
        assert_legible(figure)


def test_axes_of_scores_end_at_one():
    table = results("small").assign(accuracy=[0.9, 1.0] * 6)
    for ax in panels(plot_comparison(table)):
        assert ax.get_xlim()[1] == 1
    for ax in panels(plot_comparison(table.assign(accuracy=0.01))):
        assert ax.get_xlim()[0] >= 0
    for ax in panels(plot_comparison(table.assign(accuracy=[0.9, 3.0] * 6))):
        assert ax.get_xlim()[1] > 3, "a score that can be above 1"
    for ax in panels(plot_cost(costs("small"))):
        assert ax.get_ylim()[1] == 1


def test_a_mean_without_an_interval_is_a_dot():
    table = mean_gains("small").assign(low=np.nan, high=np.nan)
    figure = plot_mean_gains({"": table}, "none")
    assert "interval" not in figure.get_supxlabel()
    (ax,) = panels(figure)
    assert len([line for line in ax.lines if line.get_marker() == "o"]) == len(table)
    assert len(ax.lines) == len(table) + 1, "and the line at zero"


DRAWN: dict[str, tuple[int, Any]] = {
    "boxes": (1, lambda ax: plot_boxes(results("small"), ax=ax[0])),
    "critical difference": (1, lambda ax: plot_critical_difference(found("small"), ax=ax[0])),
    "pairs": (1, lambda ax: plot_pairs(found("small"), ax=ax[0])),
    "chances": (1, lambda ax: plot_chances(found("small"), "none", ax=ax[0])),
    "comparison": (2, lambda ax: plot_comparison(results("small"), axes=ax)),
    "mean gains": (1, lambda ax: plot_mean_gains({"": mean_gains("small")}, "none", axes=ax)),
    "cost": (3, lambda ax: plot_cost(costs("small"), axes=ax)),
}


@pytest.mark.parametrize("what", DRAWN)
def test_pictures_of_studies_go_where_they_are_told(what):
    n, draw = DRAWN[what]
    figure = figures.Figure(figsize=(5 * n, 4), layout="constrained")
    axes = list(figure.subplots(1, n, squeeze=False).flat)
    assert draw(axes) is figure
    assert figure.axes == axes, "nothing is drawn elsewhere"
    assert all(ax.has_data() for ax in axes)
    if what in ("comparison", "cost"):
        with pytest.raises(ValueError, match=f"{n} in all; got 1"):
            draw(axes[:1])
