"""The pictures of all encodings and augmentations."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason='needs the extra "plots"')
from tools import pictures
from tsformer import augmentation, encodings


def texts(figure: Any) -> list[Any]:
    """Bounding boxes of all that is written, in pixels, with what it says."""
    figure.savefig(io.BytesIO(), dpi=figure.dpi)  # places are known once it is drawn
    found = figure.findobj(lambda artist: hasattr(artist, "get_text"))
    return [
        (text.get_window_extent(), text.get_text())
        for text in found
        if text.get_visible() and text.get_text()
    ]


def assert_apart_on_the_page(figure: Any, boxes: list[tuple[Any, str]]) -> None:
    for (box, what), (other, other_what) in itertools.combinations(boxes, 2):
        assert not box.overlaps(other), f"{what!r} and {other_what!r} overlap"
    page = figure.bbox
    for box, what in boxes:
        assert page.x0 <= box.x0, what
        assert box.x1 <= page.x1, what
        assert page.y0 <= box.y0, what
        assert box.y1 <= page.y1, what


@pytest.mark.slow
def test_every_encoding_has_a_tile_and_no_words_overlap():
    rows = encodings.available()
    figure = pictures.encoding_gallery(rows)
    boxes = texts(figure)
    written = [text for _, text in boxes]
    for row in rows:
        assert written.count(row["name"]) == 1
        assert row["reference"] in written
    for kind in {row["kind"] for row in rows}:
        assert pictures.KINDS[kind][0] in written
    panels = [(ax.get_window_extent(), "a panel") for ax in figure.axes]
    assert_apart_on_the_page(figure, boxes + panels)
    assert figure.bbox.width == pictures.PAGE


def test_every_augmentation_is_drawn_on_every_series_that_it_can_change():
    figure = pictures.augmentation_gallery()
    rows = augmentation.available()
    panels = np.reshape(figure.axes, (len(rows), len(pictures.KINDS_OF_SERIES)))
    assert [ax.get_title() for ax in panels[0]] == list(pictures.KINDS_OF_SERIES)
    assert [ax.get_ylabel() for ax in panels[:, 0]] == [row["name"] for row in rows]
    for row, line in zip(rows, panels, strict=True):
        for ax, kind in zip(line, pictures.KINDS_OF_SERIES, strict=True):
            if kind == "codes" and not row["symbolic"]:
                assert not ax.lines
                assert [text.get_text() for text in ax.texts] == ["not for codes"]
                continue
            curves = {line.get_label(): line.get_ydata() for line in ax.lines}
            assert set(curves) == {"before", "draw 1", "draw 2"} | (
                {"the other series"} if row["mixes"] else set()
            )
            before, *draws = (curves[label] for label in ("before", "draw 1", "draw 2"))
            for draw in draws:
                assert not np.array_equal(draw, before, equal_nan=True)
                assert (np.isnan(draw) == np.isnan(before)).all(), "a gap is a gap"
            assert np.isnan(before).any() == (kind == "irregular times and a gap")
    labels = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert labels == ["before", "draw 1", "draw 2", "the other series"]
