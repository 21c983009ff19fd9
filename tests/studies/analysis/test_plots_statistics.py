"""Figures of statistics: that they show the right numbers and names."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from made_up_scores import results, twelve

pytest.importorskip("baycomp", reason='needs the extra "statistics"')
pytest.importorskip("scikit_posthocs", reason='needs the extra "statistics"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')

from tsformer.studies.analysis.plots import (
    plot_chances,
    plot_critical_difference,
    plot_pairs,
)
from tsformer.studies.analysis.statistics import compare_methods


def test_the_matrix_shows_difference_counts_and_p():
    figure = plot_pairs(compare_methods(results({"a": [0.5, 0.5, 0.9], "b": [0.6, 0.5, 0.7]})))
    cells = {text.get_text() for text in figure.axes[0].texts}
    assert cells == {"+3.3\n1/1/1\np=1.000", "-3.3\n1/1/1\np=1.000"}
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert labels == ["a  0.633", "b  0.600"]
    clear = plot_pairs(compare_methods(results(twelve())))
    bold = [text for text in clear.axes[0].texts if text.get_fontweight() == "bold"]
    assert len(bold) == 4, "the worst against the two others, from both sides"


def test_chances_are_drawn_as_parts_of_one():
    found = compare_methods(results(twelve()))
    axes = plot_chances(found, "worst").axes[0]
    widths = np.array([bar.get_width() for bar in axes.patches]).reshape(3, 2)
    np.testing.assert_allclose(widths.sum(axis=0), 1)
    np.testing.assert_allclose(widths[0], found.against("worst")["p_better"])
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == found.against("worst")["method"].tolist()


def test_pictures(tmp_path):
    found = compare_methods(results(twelve()))
    for draw in (plot_critical_difference, plot_pairs):
        figure = draw(found)
        figure.savefig(tmp_path / "figure.png")
        texts = [text.get_text() for text in figure.axes[0].texts]
        labels = [label.get_text() for label in figure.axes[0].get_xticklabels()]
        assert any("worst" in text for text in texts + labels)


def test_the_diagram_names_ranks_and_joins_in_order():
    found = compare_methods(results(twelve()))
    (ax,) = plot_critical_difference(found).axes
    names = {text.get_text() for text in ax.texts}
    assert any(name.startswith("best (") for name in names)
    assert any(name.endswith(") worst") for name in names)
    (bar,) = [line for line in ax.lines if line.get_marker() == "o"]
    np.testing.assert_allclose(bar.get_xdata(), found.ranks.iloc[:2])


@pytest.mark.parametrize("wide", [False, True])
def test_bars_that_nearly_meet_have_heights_of_their_own(wide, monkeypatch):
    """Two groups that differ from each other, the second right behind the first."""
    base = np.random.default_rng(0).uniform(0.4, 0.5, 20)
    apart = {"a": 0.3, "b": 0.3, "c": 0.2, "d": 0.2}
    noise = np.random.default_rng(1).normal(size=(4, 20)) * 0.01
    found = compare_methods(
        results({k: list(base + v + e) for (k, v), e in zip(apart.items(), noise, strict=True)})
    )
    # With a gap that is there, or as wide as the whole axis.
    monkeypatch.setattr("tsformer.studies.analysis.plots.statistics._GAP", 2 if wide else 0.01)
    (ax,) = plot_critical_difference(found).axes
    bars = [line for line in ax.lines if line.get_marker() == "o"]
    assert len(bars) == 2
    heights = [set(bar.get_ydata()) for bar in bars]
    assert heights == ([{-1.0}, {-2.0}] if wide else [{-1.0}, {-1.0}])
    labels = [text.get_position()[1] for text in ax.texts]
    assert max(labels) == min(heights[-1]) - 1, "names are below the bars"
    assert ax.get_ylim()[0] <= min(labels)


@pytest.mark.slow
def test_the_diagram_is_the_same_in_every_process(tmp_path):
    """Sets of words have another order wherever they are hashed with another seed."""
    code = (
        "import sys, pandas as pd\n"
        "from tsformer.studies.analysis.plots import plot_critical_difference\n"
        "from tsformer.studies import compare_methods\n"
        "rows = [(f'd{d}', m, 0, ((d * 7 + i * 5) % 11) / 11) for d in range(9)\n"
        "        for i, m in enumerate('abcdef')]\n"
        "rows = pd.DataFrame(rows, columns=['dataset', 'method', 'seed', 'score'])\n"
        "plot_critical_difference(compare_methods(rows)).savefig(sys.argv[1])\n"
    )
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, tmp_path / f"{seed}.png"],
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for seed in ("1", "2")
    ]
    assert [process.wait() for process in running] == [0, 0]
    assert (tmp_path / "1.png").read_bytes() == (tmp_path / "2.png").read_bytes()
