"""Pictures of trainings and results show their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from picture_checks import SIZES, assert_readable, images, panels

from tsformer import TSTransformerClassifier
from tsformer.data import load_dataset
from tsformer.plots import (
    plot_confusion,
    plot_history,
)

colors = pytest.importorskip("matplotlib.colors")


@pytest.mark.parametrize("validated", [True, False])
def test_the_curves_are_those_of_the_history(validated: bool) -> None:
    X, y = load_dataset("ItalyPowerDemand", split="train")
    more: dict[str, Any] = {"X_val": X[:9], "y_val": y[:9]} if validated else {}
    history = TSTransformerClassifier(**SIZES, max_epochs=3).fit(X, y, **more).history_
    figure = plot_history(history)
    assert_readable(figure)
    frame = history.to_frame()
    columns = ["loss", "val_loss", "val_score", "lr"] if validated else ["loss", "lr"]
    lines = [line for ax in panels(figure) for line in ax.lines if line.get_linestyle() == "-"]
    marks = [line for ax in panels(figure) for line in ax.lines if line.get_linestyle() == "--"]
    assert len(marks) == 2 * validated, "on the losses and on the score"
    for mark in marks:
        assert set(mark.get_xdata()) == {frame["val_loss"].idxmin()}
    if validated:
        labels = [text.get_text() for text in panels(figure)[0].get_legend().get_texts()]
        assert labels[:2] == ["training", "validation"]
        assert panels(figure)[1].get_ylim()[1] <= 1
    for line, column in zip(lines, columns, strict=True):
        np.testing.assert_array_equal(line.get_xdata(), [1, 2, 3])
        np.testing.assert_array_equal(line.get_ydata(), frame[column])
    of_frame = [
        line
        for ax in panels(plot_history(frame))
        for line in ax.lines
        if line.get_linestyle() == "-"
    ]
    for line, same in zip(lines, of_frame, strict=True):
        np.testing.assert_array_equal(line.get_xydata(), same.get_xydata())


def test_one_epoch_can_be_seen() -> None:
    one, three = ([{"epoch": e, "loss": 1.0, "lr": 1.0} for e in range(n)] for n in (1, 3))
    assert all(ax.lines[0].get_marker() == "o" for ax in panels(plot_history(one)))
    assert all(ax.lines[0].get_marker() == "None" for ax in panels(plot_history(three)))


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
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["walk", "run", "sit"]
