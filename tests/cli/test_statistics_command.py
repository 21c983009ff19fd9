"""`tsformer statistics`: what it prints and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from made_up_scores import results, twelve


@pytest.fixture
def scores(tmp_path):
    results(twelve()).to_csv(tmp_path / "scores.csv", index=False)


@pytest.mark.usefixtures("scores")
def test_command_prints_and_writes(run):
    printed, _ = run("statistics", "scores.csv", "--out", "page")
    assert "data sets   12" in printed
    assert "pairs differ: 2 of 3" in printed
    assert {path.name for path in Path("page").iterdir()} == {
        "pairs.csv", "pairs.png", "critical_difference.png",
    }  # fmt: skip
    assert len(pd.read_csv("page/pairs.csv")) == 3
    (found,) = json.loads(run("statistics", "scores.csv", "--json")[0])
    assert len(found["datasets"]) == 12
    assert found["methods"][-1]["method"] == "worst"
    assert len(found["pairs"]) == 3
    assert found["friedman_p"] < 0.001


def test_a_variant_that_cannot_be_compared_is_named_after_the_others(run):
    rows = pd.concat([results(twelve()).assign(stem=stem) for stem in ("conv", "linear")])
    rows = rows[(rows["stem"] == "conv") | (rows["dataset"] == "d1")]
    rows.to_csv("scores.csv", index=False)
    out, err = run("statistics", "scores.csv", "--vary", "stem", exits=2)
    assert "pairs differ: 2 of 3" in out
    assert "stem=linear: a comparison needs two methods and two data sets" in err


@pytest.mark.usefixtures("scores")
def test_published_results_are_further_methods(run):
    for name, n in (("HC2", 12), ("old", 3)):
        rows = [f"d{d},{name},default split,0.99,a paper" for d in range(n)]
        head = "dataset,method,protocol,accuracy,source"
        Path(f"{name}.csv").write_text("\n".join([head, *rows]), encoding="utf-8")
    printed, _ = run("statistics", "scores.csv", "--published", "HC2.csv", "--published", "old.csv")
    assert "HC2 (published)" in printed
    assert "pairs differ: 5 of 6" in printed
    assert "data sets: old (published)." in printed
