"""Pictures of gains and costs: that they show the right numbers, and all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from picture_checks import pixels

pytest.importorskip("matplotlib", reason='needs the extra "plots"')

from matplotlib.figure import Figure

from tsformer.plots import encoding_color
from tsformer.studies.analysis.effects import COSTS
from tsformer.studies.analysis.plots import plot_cost, plot_mean_gains

colors = pytest.importorskip("matplotlib.colors")


def visible(figure: Any) -> list[Any]:
    return [ax for ax in figure.axes if ax.get_visible()]


def test_mean_gains_of_variants_share_their_rows(tmp_path) -> None:
    table = pd.DataFrame(
        {"method": ["rope", "alibi"], "gain": [0.1, 0], "low": [0.05, -0.1], "high": [0.2, 0.1]}
    ).assign(datasets=12)
    figure = plot_mean_gains({"stem=conv": table, "stem=linear": table[::-1]}, "none")
    figure.savefig(tmp_path / "x.png")
    first = visible(figure)[0]
    assert [label.get_text() for label in first.get_yticklabels()] == ["rope", "alibi"]
    for ax in visible(figure):
        assert ax.get_ylim() == first.get_ylim()
        lines = [line for line in ax.lines if len(line.get_xdata()) == 2]
        spans = {line.get_color(): list(line.get_xdata()) for line in lines}
        assert spans[encoding_color("rope")] == [5, 20]
        assert spans[encoding_color("alibi")] == [-10, 10]
    assert [ax.get_title() for ax in visible(figure)] == [
        "stem=conv, 12 data sets", "stem=linear, 12 data sets",
    ]  # fmt: skip


def test_costs_frame_the_front(tmp_path) -> None:
    table = pd.DataFrame(
        {
            "method": ["rope", "alibi"],
            "score": [0.9, 0.8],
            "rank": [1.0, 2.0],
            "fit_seconds": [3.0, 5.0],
            "front_fit_seconds": [True, False],
        }
    )
    figure = plot_cost(table)
    figure.savefig(tmp_path / "x.png")
    (ax,) = visible(figure)
    rope, alibi = ax.collections
    np.testing.assert_allclose(rope.get_offsets(), [[3, 0.9]])
    assert colors.to_hex(rope.get_edgecolor()[0]) == "#000000"
    assert not len(alibi.get_edgecolor())
    both = table.assign(n_parameters=[10, 20], front_n_parameters=[True, False])
    assert len(visible(plot_cost(both))) == 2
    with pytest.raises(ValueError, match="no cost to draw"):
        plot_cost(table[["method", "score", "rank"]])


def test_costs_far_apart_are_on_a_log_scale() -> None:
    table = pd.DataFrame(
        {
            "method": ["majority", "minirocket", "1nn-dtw"],
            "score": [0.5, 0.9, 0.8],
            "rank": [3.0, 1.0, 2.0],
            "fit_seconds": [0.002, 1.0, 0.003],
            "predict_seconds": [2.0, 3.0, 39.0],
            "n_parameters": np.nan,
        }
    )
    table = table.assign(**{f"front_{cost}": True for cost in ("fit_seconds", "predict_seconds")})
    fit, predict = visible(plot_cost(table.drop(columns="n_parameters")))
    assert (fit.get_xscale(), predict.get_xscale()) == ("log", "linear")
    assert fit.get_xlabel() == "seconds per fit, mean over data sets (log scale)"
    assert [label.get_text() for label in fit.get_xticklabels()] == ["0.01", "0.1", "1"]
    for method in fit.collections:
        assert fit.get_xlim()[0] < method.get_offsets()[0, 0] < fit.get_xlim()[1]


def test_many_methods_are_all_in_the_legend() -> None:
    many = 30
    table = pd.DataFrame(
        {
            "method": [f"method {i}" for i in range(many)],
            "score": np.linspace(0.5, 0.9, many),
            "rank": np.arange(many),
            "fit_seconds": np.linspace(3.0, 5.0, many),
            "front_fit_seconds": [False] * (many - 1) + [True],
        }
    )
    figure = plot_cost(table)
    pixels(figure)  # lays it out
    legend = figure.axes[0].get_legend()
    box = legend.get_window_extent()
    assert box.y0 >= 0
    assert box.y1 <= figure.bbox.y1
    assert len(legend.get_texts()) == many + 1


def test_a_cost_without_a_front_has_no_line_and_frames_nothing() -> None:
    table = pd.DataFrame({"method": ["none", "rope"], "score": [0.7, 0.9], "rank": [2.0, 1.0]})
    table = table.assign(fit_seconds=[3.0, 4.0], front_fit_seconds=True, peak_memory_mb=[3.0, 4.0])
    seconds, memory = visible(plot_cost(table))
    assert len(seconds.lines) == 1
    assert len(memory.lines) == 0
    assert not any(len(dots.get_edgecolor()) for dots in memory.collections)
    legend = memory.get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["Pareto front", "none", "rope"]
    (alone,) = visible(plot_cost(table.drop(columns=["fit_seconds", "front_fit_seconds"])))
    assert [text.get_text() for text in alone.get_legend().get_texts()] == ["none", "rope"]


def test_four_costs_are_two_rows_with_the_legend_beside_the_first() -> None:
    table = pd.DataFrame({"method": ["none", "rope"], "score": [0.7, 0.9], "rank": [2.0, 1.0]})
    for cost in list(COSTS)[:4]:
        table = table.assign(**{cost: [3.0, 4.0], f"front_{cost}": True})
    axes = plot_cost(table).axes
    assert [ax.get_legend() is not None for ax in axes] == [False, True, False, False]
    assert [ax.get_ylabel() for ax in axes] == ["mean score", "", "mean score", ""]
    in_a_row = Figure().subplots(1, 4)
    plot_cost(table, axes=in_a_row)
    assert [ax.get_legend() is not None for ax in in_a_row] == [False, False, False, True]
