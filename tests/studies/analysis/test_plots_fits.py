"""Figures of all fits of a study show their numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from picture_checks import assert_readable, panels

from tsformer.plots import encoding_color
from tsformer.studies.analysis.plots import plot_boxes, plot_comparison

colors = pytest.importorskip("matplotlib.colors")


def test_a_comparison_shows_every_fit_and_the_means() -> None:
    scores = {
        ("A", "none"): [0.5, 0.7],
        ("A", "lspe"): [0.9, 0.9],
        ("B", "none"): [0.2],
        ("C", "lspe"): [0.1, 0.4],
        ("D", "none"): [0.6, 0.8],
    }
    rows = [
        {"dataset": dataset, "encoding": encoding, "seed": seed, "accuracy": value}
        for (dataset, encoding), values in scores.items()
        for seed, value in enumerate(values)
    ]
    figure = plot_comparison(pd.DataFrame(rows))
    assert_readable(figure)
    by_title = {ax.get_title(): ax for ax in panels(figure)}
    assert list(by_title) == ["A", "B", "C", "D"]
    assert [tick.get_text() for tick in by_title["A"].get_yticklabels()] == ["none", "lspe"]
    for (dataset, encoding), values in scores.items():
        place = ["none", "lspe"].index(encoding)
        ax = by_title[dataset]
        dots = [
            dot
            for group in ax.collections
            if colors.same_color(group.get_facecolor()[0, :3], encoding_color(encoding))
            for dot in group.get_offsets()
        ]
        assert [x for x, _ in dots] == values
        assert all(abs(y - place) < 0.2 for _, y in dots)
        lines = [
            line
            for line in ax.lines
            if colors.same_color(line.get_color(), encoding_color(encoding))
        ]
        spread = np.std(values, ddof=1) if len(values) > 1 else 0.0
        mean = np.mean(values)
        np.testing.assert_allclose(lines[0].get_xdata(), [mean - spread, mean + spread])
        np.testing.assert_allclose(lines[1].get_xdata(), [mean, mean])


def test_boxes_are_of_gains_not_of_data_sets() -> None:
    """Half the gain lies to either side of the data set's mean: 5 points on A and 10 on B."""
    scores = {("A", "none"): 0.5, ("A", "lspe"): 0.6, ("B", "none"): 0.7, ("B", "lspe"): 0.9}
    rows = [(*key, seed, at + 0.02 * seed) for key, at in scores.items() for seed in (0, 1)]
    table = pd.DataFrame(rows, columns=["dataset", "encoding", "seed", "accuracy"])
    (axes,) = plot_boxes(table).axes
    medians = [line.get_xdata().mean() for line in axes.lines[4::6]]
    assert np.allclose(sorted(medians), [-7.5, 7.5])
    assert [label.get_text() for label in axes.get_yticklabels()] == ["none", "lspe"]
