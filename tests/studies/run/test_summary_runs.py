"""Summary runs and the pictures of a study, of results made up so that every number is known."""

import itertools
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tsformer.plots import encoding_color
from tsformer.plots.figures import new_figure
from tsformer.studies import Study
from tsformer.studies.analysis.study_scores import read_study
from tsformer.studies.run.finalize import summary_runs
from tsformer.tracking import RunStore, prepare_store

STUDY = Study(("A", "B"), ("none", "lspe"), seeds=2, vary={"stem": ["conv", "linear"]})


def results() -> pd.DataFrame:
    """With the stem "conv" `lspe` is 0.1 better on A and 0.2 on B; seeds differ by 0.02 or 0.04."""
    stems, datasets = (
        (("conv", 1.0), ("linear", -1.0)),
        (("A", 0.5, 0.1, 0.02), ("B", 0.7, 0.2, 0.04)),
    )
    rows = [
        (dataset, encoding, stem, seed, base + step * seed + sign * gain * (encoding == "lspe"))
        for (stem, sign), (dataset, base, gain, step) in itertools.product(stems, datasets)
        for seed, encoding in itertools.product((0, 1), ("none", "lspe"))
    ]
    table = pd.DataFrame(rows, columns=["dataset", "encoding", "stem", "seed", "accuracy"])
    return table.assign(fit_seconds=2.0 + table["seed"], run_id="")


@pytest.fixture
def store(uri, experiment):
    return prepare_store(uri, experiment)


def summarise(store: RunStore, table: pd.DataFrame, folder: Path) -> dict[str, Any]:
    table.to_csv(folder / "results.csv", index=False)
    (folder / "study.json").write_text(json.dumps(STUDY.as_dict()))
    with store.start("study", kind="study", key="study", again=True) as parent:
        made = summary_runs(STUDY, read_study(folder), store, parent, new_figure(1, 1))
    runs = {run.info.run_id: run for run in store.runs("FINISHED", {"tsformer.kind": "encoding"})}
    return {runs[run_id].info.run_name: runs[run_id] for run_id in made}


def test_a_run_for_each_encoding_and_variant(store, tmp_path):
    runs = summarise(store, results(), tmp_path)
    assert list(runs) == [
        "lspe, stem=conv", "none, stem=conv", "none, stem=linear", "lspe, stem=linear",
    ]  # fmt: skip
    best, tags = runs["lspe, stem=conv"].data, runs["lspe, stem=conv"].data.tags
    assert best.params == {"encoding": "lspe", "study": STUDY.name, "stem": "conv"}
    assert (tags["tsformer.study"], tags["tsformer.place"]) == (STUDY.name, "001")
    assert runs["none, stem=conv"].data.tags["tsformer.place"] == "002"
    variant = tags["tsformer.variant"]
    assert variant != runs["lspe, stem=linear"].data.tags["tsformer.variant"]
    assert tags["mlflow.runColor"] == encoding_color("lspe")
    expected = {"test/accuracy": (0.61 + 0.92) / 2, "test/accuracy/A": 0.61, "test/mean_rank": 1}
    expected |= {"test/accuracy_spread": 0.03 / 2**0.5, "fit_seconds": 2.5}
    assert {name: best.metrics[name] for name in expected} == pytest.approx(expected)
    pictured = [n for n, run in runs.items() if store.client().list_artifacts(run.info.run_id)]
    assert pictured == ["lspe, stem=conv", "none, stem=linear"], "one picture in each view"
    note = tags["mlflow.note.content"]
    assert "Means over 4 fits on 2 data sets." in note
    assert f"Part of [this study]({store.page_of(tags['mlflow.parentRunId'])})" in note


def test_a_summary_run_has_the_picture_of_its_encoding(store, tmp_path):
    with store.start("a fit", kind="fit", key="fit") as fit:
        fit.figure(lambda: new_figure(1, 1), "encoding.png")
    for _ in range(2):  # a comparison that goes on adds no second one
        runs = summarise(store, results().assign(run_id=fit.run_id), tmp_path)
    folder = Path(runs["lspe, stem=conv"].info.artifact_uri.removeprefix("file://"))
    assert (folder / "encoding.png").is_file()
    assert len(list(folder.glob("images/encoding*.png"))) == 1


def test_costs_are_medians_over_fits_and_means_over_data_sets(store, tmp_path):
    table = pd.concat([results(), results().query("seed == 1").assign(seed=2)])
    table["fit_seconds"] = table["seed"].map({0: 1.0, 1: 3.0, 2: 98.0}) + (table["dataset"] == "B")
    runs = summarise(store, table, tmp_path)
    assert runs["lspe, stem=conv"].data.metrics["fit_seconds"] == 3.5


def test_a_fit_that_is_the_row_of_every_seed_is_one(store, tmp_path):
    table = results()
    drawn = table["seed"].where(table["encoding"] == "lspe", 0)
    table["run_id"] = table["encoding"] + table["stem"] + table["dataset"] + drawn.map(str)
    same = table["encoding"] == "none"
    table.loc[same, "accuracy"] = 0.5
    runs = summarise(store, table, tmp_path)
    one, several = (runs[f"{name}, stem=conv"].data.metrics for name in ("none", "lspe"))
    assert (one["fits/finished"], several["fits/finished"]) == (2, 4)
    assert one.get("test/accuracy_spread") != 0, "one fit has no spread"
    assert several["test/accuracy_spread"] == pytest.approx(0.03 / 2**0.5)
