"""What commands print: a line for each fit, tables that a file has whole, and statistics."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
import typer
from made_up_scores import results, twelve

from tsformer.baselines import BASELINES
from tsformer.cli.printing import markdown, study_bar, table
from tsformer.cli.studies import finish
from tsformer.studies import Progress

ERROR = f"ValueError: no such\nvalue of {'a long option ' * 12}"
LINE = " ".join(ERROR.split())


def test_a_fit_that_raises_or_is_skipped_has_one_line(capsys):
    fit: Any = "Coffee  rocket  0"
    with study_bar() as show:
        show(Progress("fit-end", 1, 1, 0, 1, trial=fit, error=ERROR))
    assert capsys.readouterr().err.splitlines() == [f"{fit}  {LINE}"]
    row = {"dataset": "Coffee", "method": "rocket", "seed": 0, "error": ERROR}
    comparison: Any = SimpleNamespace(
        failures=pd.DataFrame([row]), unrecorded=pd.DataFrame(), results=pd.DataFrame()
    )
    with pytest.raises(typer.Exit) as stopped:
        finish(comparison)
    assert stopped.value.exit_code == 2
    assert capsys.readouterr().out.splitlines() == [f"failed: Coffee  rocket  0  {LINE}"]
    row = {"dataset": "Wide", "method": "forest", "seed": 0, "resample": 0}
    comparison: Any = SimpleNamespace(
        failures=pd.DataFrame([{**row, "error": "UnreadableSeries: it reads one channel"}]),
        unrecorded=pd.DataFrame(),
        results=pd.DataFrame([row]),
    )
    finish(comparison)
    said = "skipped: Wide  forest  0  UnreadableSeries: it reads one channel\n"
    assert capsys.readouterr().out == said


def test_methods_are_listed_with_what_is_missing(run, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *_: None if name == "numba" else found(name)
    )
    lines = run("methods")[0].splitlines()
    rows = {words[0]: words for line in lines if (words := line.split())}
    assert set(rows) >= set(BASELINES)
    assert (rows["arsenal"][-1], rows["majority"][-1]) == ("no", "yes")
    (line,) = [line for line in lines if ": needs numba: " in line]
    names, _, command = line.partition(": needs numba: ")
    assert "arsenal" in names.split(", ")
    assert "pip install" in command


def test_a_file_has_long_names_whole_and_json_has_numbers(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    names = [f"A{'x' * 30}{i}" for i in range(4)]
    table(["a", "b", "c", "d"], [names])
    markdown(f"| a | b | c | d |\n|---|---|---|---|\n| {' | '.join(names)} |")
    printed = capsys.readouterr().out
    assert all(printed.count(name) == 2 for name in names)
    monkeypatch.setenv("COLUMNS", "60")
    table(["a", "b", "c", "d"], [names])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60, "as the variable says"
    table(["name", " peak MB", "", "random"], [["1nn-dtw", "1,234", "a b", "no"]], as_json=True)
    expected = [{"name": "1nn-dtw", "peak_MB": 1234, "note": "a b", "random": False}]
    assert json.loads(capsys.readouterr().out) == expected


# --- `tsformer statistics`: what it prints and writes ---------------------------------------------


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
