"""The pictures of all encodings and augmentations."""

from __future__ import annotations

import numpy as np
import pytest
from picture_checks import assert_legible

pytest.importorskip("matplotlib", reason='needs the extra "plots"')
from tools import pictures
from tsformer import augmentation, encodings


@pytest.mark.slow
def test_every_encoding_has_a_tile_and_no_words_overlap():
    rows = encodings.available()
    figure = pictures.encoding_gallery(rows)
    assert_legible(figure)
    written = [
        text.get_text() for text in figure.findobj(lambda artist: hasattr(artist, "get_text"))
    ]
    for row in rows:
        assert written.count(row["name"]) == 1
        assert row["reference"] in written
        assert pictures.KINDS[row["kind"]][0] in written
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
