"""Pictures of trainings, results and recordings: their numbers, legible whatever the names."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from picture_checks import assert_legible, assert_readable, images, panels, y_labels

from tsformer.data import windows
from tsformer.metrics import expected_calibration_error, reliability
from tsformer.plots import (
    plot_confusion,
    plot_history,
    plot_learning_curves,
    plot_recording,
    plot_reliability,
)
from tsformer.training import History

figures = pytest.importorskip("matplotlib.figure", reason='needs the extra "plots"')

HISTORY = [
    {"epoch": n, "loss": 1 / n, "val_loss": 0.2 + abs(n - 30) / 40, "val_score": 1 - 1 / n, "lr": 1}
    for n in range(1, 51)
]
ALONE = [{key: row[key] for key in ("epoch", "loss", "lr")} for row in HISTORY]


def lines_of(figure: Any) -> list[Any]:
    return [line for ax in panels(figure) for line in ax.lines if line.get_linestyle() == "-"]


@pytest.mark.parametrize(
    "history",
    [HISTORY, HISTORY[:1], ALONE, [{**row, "loss": 1e7 * row["loss"]} for row in HISTORY]],
    ids=["validated", "one epoch", "training alone", "large"],
)
def test_curves_are_those_of_the_history(history: list[dict[str, float]]) -> None:
    frame = History(history).to_frame()
    columns = [name for name in ("loss", "val_loss", "val_score", "lr") if name in frame]
    for figure in (plot_history(history), plot_history(frame)):
        assert_readable(figure)
        assert_legible(figure)
        for line, column in zip(lines_of(figure), columns, strict=True):
            np.testing.assert_array_equal(line.get_xdata(), frame.index)
            np.testing.assert_array_equal(line.get_ydata(), frame[column])
            assert line.get_marker() == ("o" if len(history) == 1 else "None")


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
    for nothing in ([], [{"epoch": 1, "seconds": 2.0}]):
        with pytest.raises(ValueError, match="history"):
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
@pytest.mark.parametrize("n", [2, 20, 60])
def test_confusions_are_legible(n: int) -> None:
    classes = [f"a class whose name is very long, number {i}" for i in range(n)]
    labels = np.repeat(classes, 2)
    assert_legible(plot_confusion(labels, labels[::-1], classes))


def test_reliability_has_the_numbers_of_each_bin() -> None:
    y, proba = [0, 1, 1, 0], np.array([[0.5, 0.5], [0.4, 0.6], [0.0, 1.0], [0.39, 0.61]])
    bins, figure = reliability(y, proba, n_bins=5), plot_reliability(y, proba, n_bins=5)
    assert_legible(figure)
    for ax, column in zip(figure.axes, ("accuracy", "count"), strict=True):
        bars = [(bar.get_x(), bar.get_width(), bar.get_height()) for bar in ax.patches]
        expected = [(i / 5, 0.2, height) for i, height in bins[column].items()]
        np.testing.assert_allclose(bars, expected, atol=1e-9)
    assert figure.axes[0].get_xlim() == figure.axes[0].get_ylim() == (0, 1)
    dots, calibrated = figure.axes[0].lines
    np.testing.assert_array_equal(calibrated.get_xydata(), [[0, 0], [1, 1]])
    assert calibrated.get_color() == "#7F7F7F", "grey, no colour of the scores"
    np.testing.assert_array_equal(dots.get_xdata(), bins["confidence"])
    np.testing.assert_array_equal(dots.get_ydata(), bins["accuracy"])
    error = expected_calibration_error(y, proba, n_bins=5)
    assert error != expected_calibration_error(y, proba)
    assert f"{error:.3f}" in figure.axes[0].get_title()


def test_pictures_go_where_they_are_told() -> None:
    figure = figures.Figure(figsize=(12, 8), layout="constrained")
    above, below = figure.subfigures(2, 1)
    curves, ax = above.subplots(1, 3), below.subplots()
    assert plot_history(HISTORY, axes=curves) is figure
    assert plot_confusion([0, 1], [0, 1], [0, 1], ax=ax) is figure
    assert [ax.get_ylabel() for ax in curves] == ["loss", "score", "learning rate"]
    assert_legible(figure)
    with pytest.raises(ValueError, match="axes"):
        plot_history(HISTORY, axes=ax)


N = {"ArrowHead": 36, "SonyAIBORobotSurface1": 20, "AsphaltObstaclesCoordinates": 390, "C": 7494}
LONG = ["none", "tape+erpe, stem=convolution, head_norm=None", "a method whose name goes on and on"]


def results(datasets: list[str], methods: list[str], shares: list[str]) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        itertools.product(datasets, shares, methods, range(3)),
        columns=["dataset", "train_size", "encoding", "seed"],
    )
    numbers = rows["train_size"].str.rstrip("%").astype(float) / 100 * rows["dataset"].map(N)
    return rows.assign(n_train=numbers.round(), accuracy=rng.uniform(0.4, 1, len(rows)))


def test_learning_curves_of_long_names_are_legible() -> None:
    figure = plot_learning_curves(results(list(N), LONG, ["10%", "20%", "50%", "100%"]))
    assert_legible(figure)
    assert [ax.get_title().replace("\n", "") for ax in panels(figure)] == list(N)


def test_a_panel_has_the_means_and_spreads_of_its_data_set() -> None:
    rows = results(["ArrowHead", "C"], ["none", "rope"], ["10%", "50%"])
    rows = rows.rename(columns={"accuracy": "f1_macro"})
    figure = plot_learning_curves(rows, metric="f1_macro")
    assert figure.get_supylabel() == "test f1 macro"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["none", "rope"]
    for ax, name in zip(panels(figure), ("ArrowHead", "C"), strict=True):
        assert ax.get_xscale() == "log"
        assert ax.get_ylim()[1] <= 1
        for container, method in zip(ax.containers, ("none", "rope"), strict=True):
            fits = rows[(rows["dataset"] == name) & (rows["encoding"] == method)]
            scores = fits.groupby("n_train")["f1_macro"]
            line, _, (bars,) = container
            np.testing.assert_array_equal(line.get_xdata(), scores.mean().index)
            np.testing.assert_allclose(line.get_ydata(), scores.mean())
            lengths = [float(np.ptp(bar[:, 1])) for bar in bars.get_segments()]
            np.testing.assert_allclose(lengths, 2 * scores.std())


def test_a_share_that_is_another_number_in_each_fold_is_one_point() -> None:
    columns = ["dataset", "method", "train_size", "n_train", "seed", "resample", "accuracy"]
    rows = [("A", "m", "4", 4, 0, fold, 0.5) for fold in range(3)]
    rows += [("A", "m", "50%", n, 0, fold, 0.6 + fold / 10) for fold, n in enumerate((9, 9, 12))]
    (ax,) = panels(plot_learning_curves(pd.DataFrame(rows, columns=columns)))
    line = ax.get_lines()[0]
    np.testing.assert_allclose(line.get_xdata(), [4, 10])
    np.testing.assert_allclose(line.get_ydata(), [0.5, 0.7])


SECONDS = pd.to_timedelta([*range(30), *range(60, 90)], unit="s")
INDICES = {
    "dates": (pd.Timestamp("2024-10-27 00:59:30", tz="UTC") + SECONDS).tz_convert("Europe/Berlin"),
    "durations": SECONDS,
    "steps": None,
}


@pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)
def test_bars_are_the_events(index):
    values = np.arange(120.0).reshape(2, 60)
    x = values if index is None else pd.DataFrame(values.T, index, ["left", "right"])
    labels = np.array(["rest"] * 15 + ["walk"] * 45, dtype=object)
    cut = windows({"anna": x}, {"anna": labels}, 1, 1)
    predicted = np.where(np.arange(60) < 20, "rest", "run")
    figure = plot_recording(cut, cut.steps(predicted), "anna")
    assert_readable(figure)
    assert_legible(figure)
    top, bottom = panels(figure)
    assert y_labels(bottom) == ["rest", "run", "walk"]
    extents = np.array([bar.get_paths()[0].get_extents().intervalx for bar in bottom.collections])
    bars = (extents - extents[0, 0]) / (extents[0, 1] - extents[0, 0]) * 15
    expected = [(0, 15), (15, 60), (0, 20), (20, 60)]
    if index is not None:  # a pause
        expected = [(0, 15), (15, 30), (60, 90), (0, 20), (20, 30), (60, 90)]
    np.testing.assert_allclose(bars, expected, atol=1e-3)
    drawn = [line.get_ydata() for line in top.lines]
    np.testing.assert_array_equal(np.concatenate(drawn), values.ravel())
    assert len(drawn) == (2 if index is None else 4)
