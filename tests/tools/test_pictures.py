"""The picture of all encodings."""

import pytest
from picture_checks import assert_legible

pytest.importorskip("matplotlib", reason='needs the extra "plots"')
from tools import pictures
from tsformer import encodings


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
