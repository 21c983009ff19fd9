"""The gallery of encodings: a tile for each, and no overlapping text."""

from __future__ import annotations

import io
import itertools
from typing import Any

import pytest

from tools import catalogue_pages

pytest.importorskip("matplotlib", reason='needs the extra "plots"')
from tools import encoding_gallery


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
    rows = catalogue_pages.packaged()
    figure = encoding_gallery.gallery(rows)
    boxes = texts(figure)
    written = [text for _, text in boxes]
    for row in rows:
        assert written.count(row["name"]) == 1
        assert row["reference"] in written
    for kind in {row["kind"] for row in rows}:
        assert encoding_gallery.KINDS[kind][0] in written
    panels = [(ax.get_window_extent(), "a panel") for ax in figure.axes]
    assert_apart_on_the_page(figure, boxes + panels)
    assert figure.bbox.width == encoding_gallery.PAGE


def test_a_kind_begins_where_it_fits():
    rows = [{"kind": kind} for kind in ["embed"] * 4 + ["none"] + ["rotate"] * 2 + ["bias"] * 4]
    placed = [(row, column, first) for row, column, _, first in encoding_gallery.placed(rows)]
    assert placed == [
        *[(0, column, column == 0) for column in range(4)],
        (0, 4, True),
        (1, 0, True), (1, 1, False),
        *[(2, column, column == 0) for column in range(4)],
    ]  # fmt: skip


def test_the_habit_is_drawn_at_its_sizes():
    figure = encoding_gallery.habit()
    assert [ax.images[0].get_array().shape for ax in figure.axes[:3]] == [
        (512, 512), (512, 512), (96, 48),
    ]  # fmt: skip
    figure.savefig(io.BytesIO(), dpi=figure.dpi)
    panels = [(ax.get_tightbbox(), ax.get_title() or ax.get_xlabel()) for ax in figure.axes]
    assert_apart_on_the_page(figure, panels)
