"""The table and picture of the default against the field, from rows that are easy to check."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import field

pytest.importorskip("matplotlib", reason='needs the extra "plots"')

ROWS = """dataset,method,seed,accuracy,fit_cpu_seconds,predict_seconds,peak_memory_mb
Coffee,tsformer,0,0.90,10,1,1000
Coffee,tsformer,1,0.80,30,3,900
Wine,tsformer,0,0.60,40,5,1200
ACSF1,tsformer,0,0.10,999,999,9999
Coffee,minirocket,0,0.95,1,0.2,800
Wine,minirocket,0,0.60,3,0.4,800
ACSF1,minirocket,0,1.00,999,999,9999
Coffee,resnet,0,0.80,100,8,3000
Coffee,majority,0,0.50,0,0,700
Wine,majority,0,0.50,0,0,700
"""


@pytest.fixture
def results(tmp_path: Path) -> Path:
    path = tmp_path / "results.csv"
    path.write_text(ROWS, encoding="utf-8")
    (tmp_path / "published").mkdir()
    (tmp_path / "published/ROCKET.csv").write_text(
        "dataset,method,protocol,accuracy,source\nWine,ROCKET,default split,0.8,a paper\n"
        "Beef,ROCKET,default split,0.1,a paper\n",
        encoding="utf-8",
    )
    return path


def test_each_method_is_compared_where_it_was_fitted_and_nothing_was_chosen(results: Path) -> None:
    lines = field.table(results, results.with_name("published")).splitlines()[2:]
    assert lines == [
        "| ROCKET (published) | 1 | 0.800 | +20.0 ± nan | 1 / 0 / 0 | – | – | – |",
        "| MiniRocket (aeon) | 2 | 0.775 | +5.0 ± 5.0 | 1 / 1 / 0 | 2.0 / 3 | 0.3 / 0 | 0.8 |",
        "| `TSTransformerClassifier()` | 2 | 0.725 | – | – | 30.0 / 40 | 3.5 / 5 | 1.2 |",
        "| ResNet (sktime) | 1 | 0.800 | -5.0 ± nan | 0 / 0 / 1 | 100.0 / 100 | 8.0 / 8 | 3.0 |",
        "| the most frequent class | 2 | 0.500 | -22.5 ± 12.5 | 0 / 0 / 2 | 0.0 / 0 | 0.0 / 0 "
        "| 0.7 |",
    ]


def test_the_picture_has_the_problems_that_all_methods_have(results: Path) -> None:
    points = field.costs_and_scores(results)
    assert points["problems"].unique().tolist() == [1]
    assert points["accuracy"].to_dict() == pytest.approx(
        {"minirocket": 0.95, "resnet": 0.8, "tsformer": 0.85}
    )
    assert points["seconds"].to_dict() == {"minirocket": 1.0, "resnet": 100.0, "tsformer": 20.0}
    (ax,) = field.picture(results).axes
    assert ax.get_title() == "1 held-out data sets"
    assert {text.get_text() for text in ax.texts} == {
        "MiniRocket",
        "ResNet",
        "TSTransformerClassifier()",
    }
