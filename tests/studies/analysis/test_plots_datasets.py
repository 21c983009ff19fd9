"""The figure of every encoding on every data set."""

from __future__ import annotations

import pandas as pd
import pytest

pytest.importorskip("matplotlib", reason='needs the extra "plots"')

from matplotlib.colors import to_hex

from tsformer.plots import encoding_color
from tsformer.studies.analysis.plots import plot_by_dataset


def rows(n_datasets: int = 3) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (f"d{d}", encoding, seed, 0.9 + 0.01 * d + gain + 0.01 * seed)
            for d in range(n_datasets)
            for encoding, gain in (("none", 0.0), ("learnable+gaussian", 0.02))
            for seed in (0, 1)
        ],
        columns=["dataset", "encoding", "seed", "accuracy"],
    )


def test_means_and_deviations_in_the_colour_of_the_encoding() -> None:
    (axes,) = plot_by_dataset(rows()).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["d0", "d1", "d2"]
    none, other = axes.containers
    assert to_hex(none.lines[0].get_color()).upper() == encoding_color("none")
    assert none.lines[0].get_xdata() == pytest.approx([0.905, 0.915, 0.925])
    (bars,) = other.lines[2]
    (left, _), (right, _) = bars.get_segments()[0]
    assert (right - left) / 2 == pytest.approx(0.01 / 2**0.5)
    low, high = axes.get_xlim()
    assert 0.85 < low < 0.905, "near the data, not at 0"
    assert high <= 1.01


def test_it_is_a_square_or_taller_and_each_variant_has_a_panel() -> None:
    """MLflow's grid has squares: a wide picture would be small in it."""
    width, height = plot_by_dataset(rows(2)).get_size_inches()
    assert height == width
    table = rows(40)
    assert plot_by_dataset(table).get_size_inches()[1] > width
    panels = table["seed"].map({0: "stem=linear", 1: "stem=conv"})
    figure = plot_by_dataset(table, panels=panels)
    assert [axes.get_title() for axes in figure.axes] == ["stem=linear", "stem=conv"]
