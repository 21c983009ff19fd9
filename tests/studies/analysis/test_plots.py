"""Pictures of studies show the right numbers, and all of them."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from made_up_scores import compared_twelve, results
from matplotlib import colors
from picture_checks import assert_legible, assert_readable, panels, pixels, visible, y_labels

from tsformer.data import list_datasets
from tsformer.encodings import names
from tsformer.plots import encoding_color
from tsformer.studies.analysis.plots import (
    plot_boxes,
    plot_comparison,
    plot_cost,
    plot_critical_difference,
    plot_mean_gains,
    plot_pairs,
)
from tsformer.studies.analysis.statistics import (
    Statistics,
    compare_methods,
    costs,
    mean_gains,
    mean_ranks,
)


def fits(scores: dict[tuple[str, str], list[float]]) -> pd.DataFrame:
    rows = [(*key, seed, value) for key, of in scores.items() for seed, value in enumerate(of)]
    return pd.DataFrame(rows, columns=["dataset", "encoding", "seed", "accuracy"])


def test_a_comparison_shows_every_fit_and_the_means():
    scores = {("A", "none"): [0.5, 0.7], ("A", "lspe"): [0.9, 0.9], ("B", "none"): [0.2]}
    scores[("C", "lspe")] = [0.1, 0.4]
    figure = plot_comparison(fits(scores))
    assert_readable(figure)
    by_title = {ax.get_title(): ax for ax in panels(figure)}
    assert list(by_title) == ["A", "B", "C"]
    assert y_labels(by_title["A"]) == ["none", "lspe"]
    for (dataset, encoding), values in scores.items():
        ax, color = by_title[dataset], encoding_color(encoding)
        groups = [c for c in ax.collections if colors.same_color(c.get_facecolor()[0, :3], color)]
        dots = np.concatenate([group.get_offsets() for group in groups])
        np.testing.assert_array_equal(dots[:, 0], values)
        assert (abs(dots[:, 1] - ["none", "lspe"].index(encoding)) < 0.2).all()
        spread, mean = (
            line.get_xdata() for line in ax.lines if colors.same_color(line.get_color(), color)
        )
        apart = np.std(values, ddof=1) if len(values) > 1 else 0.0
        np.testing.assert_allclose(spread, np.mean(values) + np.array([-apart, apart]))
        np.testing.assert_allclose(mean, np.mean(values))
    assert_readable(plot_comparison(fits({("A", "none"): [0.5]})))  # wider than one of several


def test_boxes_are_of_gains_not_of_data_sets():
    """Half the gain lies to either side of the data set's mean: 5 points on A and 10 on B."""
    scores = {("A", "none"): 0.5, ("A", "lspe"): 0.6, ("B", "none"): 0.7, ("B", "lspe"): 0.9}
    (axes,) = plot_boxes(fits({key: [at, at + 0.02] for key, at in scores.items()})).axes
    medians = [line.get_xdata().mean() for line in axes.lines[4::6]]
    assert np.allclose(sorted(medians), [-7.5, 7.5])
    assert y_labels(axes) == ["none", "lspe"]


def test_the_matrix_shows_difference_counts_and_p():
    figure = plot_pairs(compare_methods(results({"a": [0.5, 0.5, 0.9], "b": [0.6, 0.5, 0.7]})))
    cells = {text.get_text() for text in figure.axes[0].texts}
    assert cells == {"+3.3\n1/1/1\np=1.000", "-3.3\n1/1/1\np=1.000"}
    assert y_labels(figure.axes[0]) == ["a  0.633", "b  0.600"]
    clear = plot_pairs(compared_twelve())
    bold = [text for text in clear.axes[0].texts if text.get_fontweight() == "bold"]
    assert len(bold) == 4, "the worst against the two others, from both sides"


def test_the_diagram_names_ranks_and_joins_in_order():
    statistics = compared_twelve()
    (ax,) = plot_critical_difference(statistics).axes
    names = {text.get_text().partition(" (")[0] for text in ax.texts}
    assert names == {"best", "as good", "worst"}
    (bar,) = [line for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(bar.get_xdata(), statistics.ranks.iloc[:2])


def test_mean_gains_of_variants_share_their_rows():
    table = pd.DataFrame(
        {"method": ["rope", "alibi"], "gain": [0.1, 0], "low": [0.05, -0.1], "high": [0.2, 0.1]}
    ).assign(datasets=12)
    figure = plot_mean_gains({"stem=conv": table, "stem=linear": table[::-1]}, "none")
    pixels(figure)  # lays it out
    first = visible(figure)[0]
    assert y_labels(first) == ["rope", "alibi"]
    for ax in visible(figure):
        assert ax.get_ylim() == first.get_ylim()
        lines = [line for line in ax.lines if len(line.get_xdata()) == 2]
        spans = {line.get_color(): list(line.get_xdata()) for line in lines}
        assert spans[encoding_color("rope")] == [5, 20]
        assert spans[encoding_color("alibi")] == [-10, 10]
    titles = [ax.get_title() for ax in visible(figure)]
    assert titles == ["stem=conv, 12 data sets", "stem=linear, 12 data sets"]


def two_methods(**columns: Any) -> pd.DataFrame:
    table = pd.DataFrame({"method": ["rope", "alibi"], "score": [0.9, 0.8], "rank": [1.0, 2.0]})
    return table.assign(**columns)


def test_costs_frame_the_front_if_they_have_one():
    table = two_methods(fit_seconds=[3.0, 5.0], front_fit_seconds=[True, False])
    seconds, memory = visible(plot_cost(table.assign(peak_memory_mb=[3.0, 4.0])))
    rope, alibi = seconds.collections
    np.testing.assert_allclose(rope.get_offsets(), [[3, 0.9]])
    assert colors.to_hex(rope.get_edgecolor()[0]) == "#000000"
    assert not len(alibi.get_edgecolor())
    assert [len(ax.lines) for ax in (seconds, memory)] == [1, 0]
    assert not any(len(dots.get_edgecolor()) for dots in memory.collections)
    names = [text.get_text() for text in memory.get_legend().get_texts()]
    assert names == ["Pareto front", "rope", "alibi"]
    (alone,) = visible(plot_cost(two_methods(peak_memory_mb=[3.0, 4.0])))
    assert [text.get_text() for text in alone.get_legend().get_texts()] == ["rope", "alibi"]
    with pytest.raises(ValueError):
        plot_cost(two_methods())


PROBLEMS = ["AsphaltObstaclesCoordinates", "DistalPhalanxOutlineAgeGroup", "ProximalPhalanxTW"]
PROBLEMS += ["SonyAIBORobotSurface1", "MiddlePhalanxOutlineCorrect", "StandWalkJump", "CBF"]
LONG = ["my_own_encoding_with_a_name_that_goes_on_and_on_and_on_for_a_while"]
LONG += ["fixed+learnable+erpe+rope", "tape+erpe, stem=convolution, head_norm=None"]


@pytest.mark.parametrize(
    ("datasets", "methods"),
    [
        (PROBLEMS[:2], ["none", "rope"]),
        pytest.param(PROBLEMS, [*names(), *LONG], marks=pytest.mark.slow),
        pytest.param(
            list_datasets()["name"][:20], ["none", "rope", "erpe"], marks=pytest.mark.slow
        ),
    ],
    ids=["small", "many encodings", "many data sets"],
)
def test_pictures_are_legible(datasets, methods):
    """With made-up tests, which would take most of the time."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        itertools.product(datasets, methods, range(3)), columns=["dataset", "encoding", "seed"]
    )
    index = rows["encoding"].map(methods.index)
    score = 0.9 + 0.01 * index + 0.05 * rng.normal(size=len(rows))
    rows = rows.assign(accuracy=score.clip(upper=1), n_parameters=123_456 + 1_234 * index)
    rows = rows.assign(fit_seconds=2 + 0.11 * index, predict_seconds=0.003 * 1.9 ** (index % 23))
    memory = 812.3 * (1 + index / len(methods))
    rows = rows.assign(peak_memory_mb=memory, predict_memory_mb=memory)
    means = rows.pivot_table(index="dataset", columns="encoding", values="accuracy")
    ranks = mean_ranks(means).sort_values()
    means = means[ranks.index]
    pairs = pd.DataFrame([*itertools.combinations(means, 2)], columns=["better", "worse"])
    apart = [(means[better] - means[worse]).mean() for better, worse in pairs.to_numpy()]
    pairs = pairs.assign(difference=apart, wins=12, ties=1, loses=1, p=0.0123, p_holm=0.04)
    pairs.loc[::2, "p_holm"] = 1.0
    statistics = Statistics(means, means, ranks, 0.01, pairs, 0.01, [])
    gains = mean_gains(means.drop(columns="none").sub(means["none"], axis=0))
    variants = [f"stem=convolution, head_norm={norm}" for norm in ("batch", "layer", None)]
    for figure in (
        plot_comparison(rows),
        plot_boxes(rows),
        plot_critical_difference(statistics),
        plot_pairs(statistics),
        plot_mean_gains(dict.fromkeys(variants, gains), "none"),
        plot_cost(costs(rows.rename(columns={"encoding": "method"}), statistics)),
    ):
        assert_legible(figure)
