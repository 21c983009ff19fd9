"""`tsformer statistics`: what it prints and writes."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from made_up_scores import results, twelve

pytest.importorskip("baycomp", reason='needs the extra "statistics"')
pytest.importorskip("scikit_posthocs", reason='needs the extra "statistics"')
pytest.importorskip("typer", reason='needs the extra "cli"')


def test_command_prints_and_writes(tmp_path, capsys):
    from tsformer.cli import main

    results(twelve()).to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["statistics", str(tmp_path / "scores.csv"), "--out", str(tmp_path)])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "data sets   12" in printed
    assert "pairs differ: 2 of 3" in printed
    assert {"pairs.csv", "pairs.png", "critical_difference.png"} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert len(pd.read_csv(tmp_path / "pairs.csv")) == 3


def test_json_has_the_same_numbers(tmp_path, capsys):
    from tsformer.cli import main

    results(twelve()).to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(SystemExit):
        main(["statistics", str(tmp_path / "scores.csv"), "--json"])
    (found,) = json.loads(capsys.readouterr().out)
    assert len(found["datasets"]) == 12
    assert found["methods"][-1]["method"] == "worst"
    assert len(found["pairs"]) == 3
    assert found["friedman_p"] < 0.001


def test_a_variant_that_cannot_be_compared_is_named_after_the_others(tmp_path, capsys):
    from tsformer.cli import main

    rows = pd.concat([results(twelve()).assign(stem=stem) for stem in ("conv", "linear")])
    rows = rows[(rows["stem"] == "conv") | (rows["dataset"] == "d1")]
    rows.to_csv(tmp_path / "scores.csv", index=False)
    with pytest.raises(SystemExit) as end:
        main(["statistics", str(tmp_path / "scores.csv"), "--vary", "stem"])
    assert end.value.code == 2
    said = capsys.readouterr()
    assert "pairs differ: 2 of 3" in said.out
    assert "stem=linear: a comparison needs two methods and two data sets" in said.err


def test_published_results_are_further_methods(tmp_path, capsys):
    from tsformer.cli import main

    results(twelve()).to_csv(tmp_path / "scores.csv", index=False)
    head = "dataset,method,protocol,accuracy,source"
    for name, n in (("HC2", 12), ("old", 3)):
        rows = [f"d{d},{name},default split,0.99,a paper" for d in range(n)]
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *rows]), encoding="utf-8")
    command = ["statistics", str(tmp_path / "scores.csv")]
    for name in ("HC2", "old"):
        command += ["--published", str(tmp_path / f"{name}.csv")]
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 0
    printed = capsys.readouterr().out
    assert "HC2 (published)" in printed
    assert "pairs differ: 5 of 6" in printed
    assert "data sets   12" in printed
    assert "data sets: old (published)." in printed
    (tmp_path / "old.csv").write_text(f"{head}\nd1,old,default split,99,a paper", encoding="utf-8")
    with pytest.raises(SystemExit) as end:
        main(command)
    assert end.value.code == 2
    assert "between 0 and 1; got '99'; divide percentages by 100" in capsys.readouterr().err
