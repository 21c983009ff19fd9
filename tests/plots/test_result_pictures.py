"""Pictures of trainings and results show their numbers, and can be read whatever the names."""

from typing import Any

import numpy as np
import pytest
from picture_checks import assert_legible, assert_readable, images, panels, y_labels

from tsformer.plots import plot_confusion, plot_history
from tsformer.plots.figures import shortened
from tsformer.training import History

figures = pytest.importorskip("matplotlib.figure")

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
    with pytest.raises(ValueError, match="pass classifier"):
        plot_history([])


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
    with pytest.raises(ValueError, match=r"3 in all; got 1\. .*plt\.subplots\(1, 3\)"):
        plot_history(HISTORY, axes=ax)


def test_names_that_differ_at_their_ends_stay_apart() -> None:
    long = [shortened(f"a very long name of a class, number {i}", 20) for i in range(12)]
    assert len(set(long)) == 12
    assert max(map(len, long)) <= 20
    assert shortened("short", 20) == "short"
