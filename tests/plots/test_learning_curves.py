"""Learning curves show the means, the spreads and the numbers of series that fits had."""

import numpy as np
import pandas as pd
import pytest
from picture_checks import assert_legible, panels

from tsformer.plots import plot_learning_curves
from tsformer.plots.learning_curves import can_average

figures = pytest.importorskip("matplotlib.figure", reason='needs the extra "plots"')

N = {"ArrowHead": 36, "SonyAIBORobotSurface1": 20, "AsphaltObstaclesCoordinates": 390, "C": 7494}
LONG = ["none", "tape+erpe, stem=convolution, head_norm=None", "a method whose name goes on and on"]
SHARES = ["10%", "20%", "50%", "100%"]


def results(
    datasets: list[str], methods: list[str], sizes: list[str], n_seeds: int = 3
) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = []
    for name in datasets:
        for size in sizes:
            share = size.endswith("%")
            n = max(1, round(N[name] * float(size[:-1]) / 100)) if share else int(size)
            rows += [
                (name, method, size, n, seed, min(1.0, 0.4 + 0.08 * np.log(n) + 0.1 * rng.random()))
                for method in methods
                for seed in range(n_seeds)
            ]
    columns = ["dataset", "encoding", "train_size", "n_train", "seed", "accuracy"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.parametrize(
    ("datasets", "methods", "sizes"),
    [
        (["ArrowHead"], ["none", "rope"], ["5", "20", "100%"]),
        (list(N), LONG, SHARES),
        (["C"], ["none"], ["100%"]),
    ],
    ids=["one", "long names", "one size"],
)
def test_curves_are_legible(datasets: list[str], methods: list[str], sizes: list[str]) -> None:
    rows = results(datasets, methods, sizes, n_seeds=1 if len(datasets) == 1 else 3)
    figure = plot_learning_curves(rows)
    assert_legible(figure)
    assert [ax.get_title().replace("\n", "") for ax in panels(figure)] == datasets
    if can_average(rows):
        assert_legible(plot_learning_curves(rows, average=True))


def test_a_panel_has_the_means_and_spreads_of_its_data_set() -> None:
    rows = results(["ArrowHead", "C"], ["none", "rope"], ["10%", "50%"])
    for ax, name in zip(panels(plot_learning_curves(rows)), ("ArrowHead", "C"), strict=True):
        assert ax.get_xscale() == "log"
        for container, method in zip(ax.containers, ("none", "rope"), strict=True):
            part = rows[(rows["dataset"] == name) & (rows["encoding"] == method)]
            scores = part.groupby("n_train")["accuracy"]
            line, _, (bars,) = container
            np.testing.assert_array_equal(line.get_xdata(), scores.mean().index)
            np.testing.assert_allclose(line.get_ydata(), scores.mean())
            lengths = [float(np.ptp(bar[:, 1])) for bar in bars.get_segments()]
            np.testing.assert_allclose(lengths, 2 * scores.std())


def test_the_average_is_over_data_sets_that_have_everything() -> None:
    rows = results(["ArrowHead", "C"], ["none", "rope"], SHARES)
    lacking = results(["SonyAIBORobotSurface1"], ["none", "rope"], SHARES[:3])
    figure = plot_learning_curves(pd.concat([rows, lacking]), average=True)
    (ax,) = panels(figure)
    assert ax.get_title() == "mean over 2 data sets"
    assert [tick.get_text() for tick in ax.get_xticklabels()] == SHARES[::-1]
    means = rows.groupby(["encoding", "train_size", "seed"])["accuracy"].mean()
    line, _, (bars,) = ax.containers[0]
    expected = [means["none", size].mean() for size in SHARES]
    np.testing.assert_allclose(line.get_ydata(), expected)
    spreads = [2 * means["none", size].std() for size in SHARES]
    lengths = [float(np.ptp(bar[:, 1])) for bar in bars.get_segments()]
    np.testing.assert_allclose(lengths, spreads)


def test_a_share_that_is_another_number_in_each_fold_is_one_point() -> None:
    columns = ["dataset", "method", "train_size", "n_train", "seed", "resample", "accuracy"]
    rows = [("A", "m", "4", 4, 0, fold, 0.5) for fold in range(3)]
    rows += [("A", "m", "50%", n, 0, fold, 0.6 + fold / 10) for fold, n in enumerate((9, 9, 12))]
    rows += [("A", "m", "100%", n, 0, fold, 0.9) for fold, n in enumerate((18, 18, 24))]
    (ax,) = panels(plot_learning_curves(pd.DataFrame(rows, columns=columns)))
    line = ax.get_lines()[0]
    np.testing.assert_allclose(line.get_xdata(), [4, 10, 20])
    np.testing.assert_allclose(line.get_ydata(), [0.5, 0.7, 0.9])


def test_what_cannot_be_drawn_is_refused() -> None:
    rows = results(["ArrowHead", "C"], ["none"], ["10", "100%"])
    assert not can_average(rows)
    with pytest.raises(ValueError, match=r"sizes that are percentages.* got 10, 100%"):
        plot_learning_curves(rows, average=True)
    shares = results(["ArrowHead"], ["none"], ["10%"])
    others = results(["C"], ["rope"], ["10%"])
    with pytest.raises(ValueError, match="no data set has scores of every method"):
        plot_learning_curves(pd.concat([shares, others]), average=True)
    with pytest.raises(ValueError, match="unknown column of the results 'train_size'"):
        plot_learning_curves(rows.drop(columns="train_size"))


def test_curves_go_where_they_are_told() -> None:
    figure = figures.Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, 2)
    rows = results(["ArrowHead", "C"], ["none", "rope"], SHARES)
    assert plot_learning_curves(rows, axes=axes) is figure
    assert_legible(figure)
    assert axes[1].get_legend() is not None
    with pytest.raises(ValueError, match="2 in all; got 1"):
        plot_learning_curves(rows, axes=axes[0])
