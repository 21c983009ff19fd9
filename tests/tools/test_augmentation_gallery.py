"""The gallery of augmentations: a row for each, with what changes and what stays."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason='needs the extra "plots"')
from tools import augmentation_gallery
from tools.catalogue_pages import augmentations


def test_every_augmentation_is_drawn_on_every_series_that_it_can_change():
    figure = augmentation_gallery.gallery()
    rows = augmentations()
    panels = np.reshape(figure.axes, (len(rows), len(augmentation_gallery.COLUMNS)))
    assert [ax.get_title() for ax in panels[0]] == list(augmentation_gallery.COLUMNS)
    assert [ax.get_ylabel() for ax in panels[:, 0]] == [row["name"] for row in rows]
    for row, line in zip(rows, panels, strict=True):
        for ax, kind in zip(line, augmentation_gallery.COLUMNS, strict=True):
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


def test_the_picture_is_written_where_asked(tmp_path):
    augmentation_gallery.main(["--out", str(tmp_path / "new")])
    assert (tmp_path / "new/augmentation_gallery.png").read_bytes()[1:4] == b"PNG"
