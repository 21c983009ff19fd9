"""The picture of the default against the field, from rows that are easy to check."""

from pathlib import Path

import pytest

from tools import field

pytest.importorskip("matplotlib", reason='needs the extra "plots"')

ROWS = """dataset,method,seed,accuracy
Coffee,tsformer,0,0.90
Coffee,tsformer,1,0.80
Wine,tsformer,0,0.60
ACSF1,tsformer,0,0.10
Coffee,minirocket,0,0.95
Wine,minirocket,0,0.60
ACSF1,minirocket,0,1.00
Coffee,quant,0,0.80
Coffee,majority,0,0.50
Wine,majority,0,0.50
"""
SECONDS = """dataset,method,cpu_seconds
Trace,tsformer,20
Trace,minirocket,1
Trace,quant,100
Coffee,tsformer,22
Coffee,minirocket,3
Coffee,quant,200
"""


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path, seconds = tmp_path / "results.csv", tmp_path / "fit_seconds.csv"
    path.write_text(ROWS, encoding="utf-8")
    seconds.write_text(SECONDS, encoding="utf-8")
    monkeypatch.setattr(field, "SECONDS", seconds)
    return path


def test_the_picture_has_the_problems_that_all_methods_have(results: Path) -> None:
    points = field.costs_and_scores([results])
    assert points["problems"].unique().tolist() == [1]
    assert points["accuracy"].to_dict() == pytest.approx(
        {"minirocket": 0.95, "quant": 0.8, "tsformer": 0.85}
    )
    assert points["seconds"].to_dict() == {"minirocket": 2, "quant": 150, "tsformer": 21}
    (ax,) = field.picture([results]).axes
    assert ax.get_title() == "1 held-out data sets"
    assert {text.get_text() for text in ax.texts} == {
        "MiniRocket",
        "QUANT",
        "TSTransformerClassifier()",
    }
