"""What tests of pictures look at: pixels, panels, and whether one can read them."""

import io
import itertools
from collections.abc import Iterator
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
    """Return the panels with axes; not colour bars, and not those that hold words."""
    return [
        ax for ax in figure.axes if ax.get_label() != COLORBAR and ax.get_visible() and ax.axison
    ]


def visible(figure: Any) -> list[Any]:
    return [ax for ax in figure.axes if ax.get_visible()]


def y_labels(ax: Any) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


def images(figure: Any) -> list[np.ndarray]:
    return [ax.images[0].get_array().data for ax in panels(figure) if ax.images]


def titles(figure: Any) -> list[str]:
    return [band.get_suptitle() for band in figure.subfigs]


def assert_readable(figure: Any) -> None:
    """Every panel says what its axes are, every colour bar what its colours are; there is ink."""
    for ax in figure.axes:
        if ax.get_label() == COLORBAR:
            assert ax.get_ylabel() or ax.get_xlabel()
        elif ax.get_visible() and ax.axison:
            grid = ax.get_subplotspec()
            assert ax.get_xlabel() or not grid.is_last_row() or figure.get_supxlabel()
            assert ax.get_ylabel() or not grid.is_first_col() or ax.get_yticklabels()
    picture = pixels(figure)
    assert 500 <= picture.shape[1] <= 1100
    assert picture[..., :3].std() > 0.03
    # Nothing is cut off: the outermost pixels are paper.
    for edge in (picture[0], picture[-1], picture[:, 0], picture[:, -1]):
        assert (edge == 1).all()


def assert_legible(figure: Any) -> None:
    """No text is cut off or runs into another, and panels side by side have one height."""
    figure.draw_without_rendering()
    written = [(text, text.get_window_extent().padded(-0.5)) for text in _texts(figure)]
    assert written
    for text, box in written:
        inside = (box.min >= 0).all() and (box.max <= figure.bbox.size).all()
        assert inside, f"{text.get_text()!r} is cut off: {box} in {figure.bbox.size}"
    upright = [(text, box) for text, box in written if text.get_rotation() % 90 == 0]
    for (text, box), (neighbour, beside) in itertools.combinations(upright, 2):
        assert not box.overlaps(beside), f"{text.get_text()!r} runs into {neighbour.get_text()!r}"
    for one, neighbour in itertools.combinations(panels(figure), 2):
        places = [ax.get_subplotspec() for ax in (one, neighbour)]
        if None in places or places[0].get_gridspec() is not places[1].get_gridspec():
            continue
        rows = [spec.rowspan for spec in places]
        first, second = (ax.get_window_extent() for ax in (one, neighbour))
        if rows[0].stop == rows[1].stop:
            assert abs(first.y0 - second.y0) < 1, "panels of a row begin at different heights"
        if rows[0].start == rows[1].start:
            assert abs(first.y1 - second.y1) < 1, "panels of a row end at different heights"


def _texts(figure: Any) -> Iterator[Any]:
    """Yield what is written: titles, labels, ticks within the panels, legends, and words."""
    legends = list(figure.legends)
    for canvas in (figure, *figure.subfigs):
        yield from _visible(canvas.texts)
    for ax in figure.axes:
        if not ax.get_visible():
            continue
        yield from _visible([*ax.texts, ax.title])
        if not ax.axison:
            continue
        for axis in (ax.xaxis, ax.yaxis):
            yield from _visible([axis.label, axis.get_offset_text()])
            low, high = sorted(axis.get_view_interval())
            margin = 1e-9 * (high - low)
            for tick in axis.get_major_ticks():
                if low - margin <= tick.get_loc() <= high + margin:
                    yield from _visible([tick.label1, tick.label2])
        legends += [ax.get_legend()] if ax.get_legend() else []
    for legend in legends:
        yield from _visible(legend.get_texts())


def _visible(texts: Any) -> Iterator[Any]:
    return (text for text in texts if text.get_visible() and text.get_text().strip())
