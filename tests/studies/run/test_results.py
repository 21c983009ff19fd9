"""Results: which of earlier calls are replaced, and what a comparison prints."""

from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from tsformer.encodings import names
from tsformer.studies import Comparison, Study
from tsformer.studies.run.results import ResultStore
from tsformer.studies.run.trial import row_of

STUDY = Study(("ItalyPowerDemand",), ("none",), seeds=1)


def results_of(path: Path, *known: str) -> ResultStore:
    """Return the results of a store that knows these runs, none of them of this study."""
    empty = {"uri": "sqlite:///mlflow.db", "finished": lambda *_: {}, "runs": lambda *_: []}
    store: Any = SimpleNamespace(**empty, has=known.__contains__)
    return ResultStore(STUDY, store, path)


def earlier(folder: Path, *run_ids: str) -> Path:
    path = folder / "results.csv"
    path.write_text("accuracy,run_id\n" + "".join(f"0.9,{run_id}\n" for run_id in run_ids))
    return path


@pytest.mark.parametrize("known", ["", "a", "b", "ab"])
def test_results_are_replaced_only_if_the_store_knows_all_of_them(known, tmp_path):
    path = earlier(tmp_path, "a", "b")
    there = path.read_text()
    results = results_of(path, *known)
    if set(known) == {"a", "b"}:
        results.open()
        assert path.read_text().count("\n") == 1, "a header; the fits are those of another study"
        return
    with pytest.raises(FileExistsError):
        results.open()
    assert path.read_text() == there


@pytest.mark.parametrize("content", [b"\x89PNG\x00\xff", b"a,b\n1,2\n"])
def test_a_file_that_is_no_table_of_ours_is_not_overwritten(content, tmp_path):
    path = tmp_path / "results.csv"
    path.write_bytes(content)
    with pytest.raises(FileExistsError):
        results_of(path).open()
    assert path.read_bytes() == content


def test_fits_that_were_not_recorded_are_no_loss(tmp_path):
    path = earlier(tmp_path, "", "b")
    with path.open("a") as file:
        file.write("0.")  # of a row that was cut
    results_of(path, "b").open()
    assert path.read_text().count("\n") == 1


@pytest.mark.parametrize(("earlier", "is_warned"), [("new", False), ("old", True), ("", True)])
def test_fits_of_another_commit_are_warned_of(earlier, is_warned, tmp_path, monkeypatch):
    monkeypatch.setattr("tsformer.studies.run.results.commit", lambda: "new")
    results = results_of(tmp_path / "results.csv")
    results.rows = {trial: {"commit": earlier, "run_id": "a"} for trial in STUDY.trials()}
    with pytest.warns(UserWarning) if is_warned else nullcontext():
        results.open()


def test_a_comparison_prints_counts_20_ranks_verdict_and_paths():
    """Ranks are over the data sets that every encoding has."""
    study = Study(
        ("ArrowHead", "ECG200"), tuple(names()), seeds=1, vary={"stem": ["conv", "patch"]}
    )
    rows = [
        row_of(trial, study, "", {"test/accuracy": i / 200}, {"tsformer.version": ""})
        for i, trial in enumerate(study.trials())
        if trial != study.trials()[-1]
    ]
    best = max((row for row in rows if row["dataset"] == "ArrowHead"), key=lambda r: r["accuracy"])
    results, none = pd.DataFrame(rows), pd.DataFrame(columns=["error"])
    paths = Path("o/results.csv"), None, Path("o/report.html")
    shown = repr(Comparison(study, results, none, none, *paths, "tsformer ui", None, "So it is."))
    head, _, _, _, first, *lines = shown.splitlines()
    assert head == f"{study.label}: {len(rows)} fits"
    assert [first.split()[0], *first.split()[-2:]] == [
        f"{best['encoding']},", "1.000", f"{best['accuracy']:.3f}"
    ]  # fmt: skip
    assert len(lines) < 30
    assert lines[-5:] == [
        "So it is.", "", "table   o/results.csv", "report  o/report.html", "runs    tsformer ui"
    ]  # fmt: skip
