"""Pictures of trainings and results show their numbers, and can be read whatever the names."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from picture_checks import assert_legible, assert_readable, images, panels, y_labels

from tsformer.metrics import expected_calibration_error, reliability
from tsformer.plots import plot_confusion, plot_history, plot_learning_curves, plot_reliability
from tsformer.plots.figures import shortened
from tsformer.training import History

figures = pytest.importorskip("matplotlib.figure", reason='needs the extra "plots"')

HISTORY = [
    {"epoch": n, "loss": 1 / n, "val_loss": 0.2 + abs(n - 30) / 40, "val_score": 1 - 1 / n, "lr": 1}
    for n in range(1, 51)
]


def lines_of(figure: Any) -> list[Any]:
    return [line for ax in panels(figure) for line in ax.lines if line.get_linestyle() == "-"]


@pytest.mark.parametrize("validated", [True, False])
def test_the_curves_are_those_of_the_history(validated: bool) -> None:
    columns = ["loss", "val_loss", "val_score", "lr"] if validated else ["loss", "lr"]
    history = History([{key: row[key] for key in ["epoch", *columns]} for row in HISTORY[:3]])
    frame = history.to_frame()
    for figure in (plot_history(history), plot_history(frame)):
        assert_readable(figure)
        for line, column in zip(lines_of(figure), columns, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
            np.testing.assert_array_equal(line.get_ydata(), frame[column])


@pytest.mark.parametrize(
    "history",
    [
        HISTORY,
        HISTORY[:1],
        [{key: row[key] for key in ("epoch", "loss", "lr")} for row in HISTORY],
        [{**row, "loss": 1e7 * row["loss"], "lr": 1e-9} for row in HISTORY],
    ],
    ids=["validated", "one epoch", "training alone", "large and small"],
)
def test_curves_are_legible(history: list[dict[str, float]]) -> None:
    figure = plot_history(history)
    assert_legible(figure)
    markers = {line.get_marker() for line in lines_of(figure)}
    assert markers == {"o" if len(history) == 1 else "None"}, "one epoch is a dot"


def test_scores_end_at_one_and_the_best_epoch_is_marked() -> None:
    losses, scores, rate = plot_history(HISTORY).axes
    assert scores.get_ylim() == (pytest.approx(0, abs=0.05), 1.0)
    assert scores.get_ylim()[0] >= 0
    for ax in (losses, scores):
        (mark,) = [line for line in ax.lines if line.get_linestyle() == "--"]
        assert list(mark.get_xdata()) == [30, 30]
        assert "validation" in [text.get_text() for text in ax.get_legend().get_texts()]
    assert losses.get_legend().get_texts()[0].get_text() == "training"
    assert not [line for line in rate.lines if line.get_linestyle() == "--"]
    worse = [{**row, "val_score": -row["epoch"]} for row in HISTORY]  # R2 can be anything below 1
    assert plot_history(worse).axes[1].get_ylim()[0] < -50
    for nothing in ([], [{"epoch": 1, "seconds": 2.0}], pd.DataFrame(columns=["epoch", "loss"])):
        with pytest.raises(ValueError, match="pass classifier"):
            plot_history(nothing)


def test_the_confusion_matrix_counts() -> None:
    true = ["walk", "walk", "run", "run", "run", "sit"]
    predicted = ["walk", "run", "run", "run", "sit", "sit"]
    figure = plot_confusion(true, predicted, ["walk", "run", "sit"])
    assert_readable(figure)
    (ax,) = panels(figure)
    placed = {text.get_position(): int(text.get_text()) for text in ax.texts}
    # (x, y) is (predicted, true)
    assert placed == {(0, 0): 1, (1, 0): 1, (1, 1): 2, (2, 1): 1, (2, 2): 1}
    np.testing.assert_allclose(images(figure)[0].sum(axis=1), 1)
    assert ax.get_title() == "4 of 6 correct: accuracy 0.667"
    assert y_labels(ax) == ["walk", "run", "sit"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "classes",
    [
        ["0", "1"],
        [f"a class whose name is very long, number {i}" for i in range(6)],
        [f"class {i}" for i in range(20)],
        [f"a class of many, number {i}" for i in range(60)],
    ],
    ids=len,
)
def test_confusions_are_legible(classes: list[str]) -> None:
    labels = np.repeat(classes, 2)
    assert_legible(plot_confusion(labels, labels[::-1], classes))


def test_reliability_has_the_numbers_of_each_bin() -> None:
    y, proba = [0, 1, 1, 0], np.array([[0.5, 0.5], [0.4, 0.6], [0.0, 1.0], [0.39, 0.61]])
    bins, figure = reliability(y, proba, n_bins=5), plot_reliability(y, proba, n_bins=5)
    assert_legible(figure)
    for ax, column in zip(figure.axes, ("accuracy", "count"), strict=True):
        np.testing.assert_allclose([bar.get_x() for bar in ax.patches], bins.index / 5, atol=1e-9)
        np.testing.assert_allclose([bar.get_width() for bar in ax.patches], 0.2)
        assert [bar.get_height() for bar in ax.patches] == bins[column].tolist()
    dots = figure.axes[0].lines[0]
    np.testing.assert_array_equal(dots.get_xdata(), bins["confidence"])
    np.testing.assert_array_equal(dots.get_ydata(), bins["accuracy"])
    error = expected_calibration_error(y, proba, n_bins=5)
    assert error != expected_calibration_error(y, proba)
    assert figure.axes[0].get_title() == f"expected calibration error {error:.3f}"


def test_pictures_go_where_they_are_told() -> None:
    figure = figures.Figure(figsize=(12, 8), layout="constrained")
    above, below = figure.subfigures(2, 1)
    curves = above.subplots(1, 3)
    assert plot_history(HISTORY, axes=curves) is figure
    assert [ax.get_ylabel() for ax in curves] == ["loss", "score", "learning rate"]
    ax = below.subplots()
    assert plot_confusion([0, 1], [0, 1], [0, 1], ax=ax) is figure
    assert ax.get_title() == "2 of 2 correct: accuracy 1.000"
    assert_legible(figure)
    with pytest.raises(ValueError, match="3 in all; got 1"):
        plot_history(HISTORY, axes=ax)


def test_names_that_differ_at_their_ends_stay_apart() -> None:
    long = [shortened(f"a very long name of a class, number {i}", 20) for i in range(12)]
    assert len(set(long)) == 12
    assert max(map(len, long)) <= 20
    assert shortened("short", 20) == "short"


# --- learning curves: the means, the spreads and the numbers of series ----------------------------


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
def test_learning_curves_are_legible(
    datasets: list[str], methods: list[str], sizes: list[str]
) -> None:
    rows = results(datasets, methods, sizes, n_seeds=1 if len(datasets) == 1 else 3)
    figure = plot_learning_curves(rows)
    assert_legible(figure)
    assert [ax.get_title().replace("\n", "") for ax in panels(figure)] == datasets


def test_a_panel_has_the_means_and_spreads_of_its_data_set() -> None:
    rows = results(["ArrowHead", "C"], ["none", "rope"], ["10%", "50%"])
    rows = rows.rename(columns={"accuracy": "f1_macro"})
    figure = plot_learning_curves(rows, metric="f1_macro")
    assert figure.get_supxlabel().replace("\n", " ").startswith("training series (log scale)")
    assert figure.get_supylabel() == "test f1 macro"
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["none", "rope"]
    for ax, name in zip(panels(figure), ("ArrowHead", "C"), strict=True):
        assert ax.get_xscale() == "log"
        assert ax.get_ylim()[1] <= 1
        for container, method in zip(ax.containers, ("none", "rope"), strict=True):
            part = rows[(rows["dataset"] == name) & (rows["encoding"] == method)]
            scores = part.groupby("n_train")["f1_macro"]
            line, _, (bars,) = container
            np.testing.assert_array_equal(line.get_xdata(), scores.mean().index)
            np.testing.assert_allclose(line.get_ydata(), scores.mean())
            lengths = [float(np.ptp(bar[:, 1])) for bar in bars.get_segments()]
            np.testing.assert_allclose(lengths, 2 * scores.std())


def test_a_share_that_is_another_number_in_each_fold_is_one_point() -> None:
    columns = ["dataset", "method", "train_size", "n_train", "seed", "resample", "accuracy"]
    rows = [("A", "m", "4", 4, 0, fold, 0.5) for fold in range(3)]
    rows += [("A", "m", "50%", n, 0, fold, 0.6 + fold / 10) for fold, n in enumerate((9, 9, 12))]
    rows += [("A", "m", "100%", n, 0, fold, 0.9) for fold, n in enumerate((18, 18, 24))]
    (ax,) = panels(plot_learning_curves(pd.DataFrame(rows, columns=columns)))
    line = ax.get_lines()[0]
    np.testing.assert_allclose(line.get_xdata(), [4, 10, 20])
    np.testing.assert_allclose(line.get_ydata(), [0.5, 0.7, 0.9])
