"""What tests of pictures look at: pixels, panels, and whether one can read them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

image = pytest.importorskip("matplotlib.image", reason='needs the extra "plots"')

SIZES = {"d_model": 8, "n_heads": 2}
#: Columns of axes between two colour bars, which have a y label alone.
COLORBAR = "<colorbar>"


def pixels(figure: Any) -> np.ndarray:
    file = io.BytesIO()
    figure.savefig(file, format="png")
    file.seek(0)
    return image.imread(file)


def panels(figure: Any) -> list[Any]:
    return [ax for ax in figure.axes if ax.get_label() != COLORBAR and ax.get_visible()]


def images(figure: Any) -> list[np.ndarray]:
    return [ax.images[0].get_array().data for ax in panels(figure) if ax.images]


def titles(figure: Any) -> list[str]:
    return [band.get_suptitle() for band in figure.subfigs]


def assert_readable(figure: Any) -> None:
    """Every panel says what its axes are, every colour bar what its colours are; there is ink."""
    for ax in figure.axes:
        if ax.get_label() == COLORBAR:
            assert ax.get_ylabel() or ax.get_xlabel()
        elif ax.get_visible():
            grid = ax.get_subplotspec()
            assert ax.get_xlabel() or not grid.is_last_row() or figure.get_supxlabel()
            assert ax.get_ylabel() or not grid.is_first_col() or ax.get_yticklabels()
    picture = pixels(figure)
    assert 500 <= picture.shape[1] <= 1100
    assert picture[..., :3].std() > 0.03
    # Nothing is cut off: the outermost pixels are paper.
    for edge in (picture[0], picture[-1], picture[:, 0], picture[:, -1]):
        assert (edge == 1).all()
