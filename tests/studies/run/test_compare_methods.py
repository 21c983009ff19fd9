"""compare() with methods: any classifier is fitted, recorded, resumed and reported."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from run_once import Done

from tsformer.baselines import BASELINES, Baseline
from tsformer.data.tsfile import write_ts
from tsformer.studies import Study, compare
from tsformer.studies.run import problem, worker
from tsformer.tracking import prepare_store

# The study that most of them look at takes ten seconds.
pytestmark = pytest.mark.slow

# A module in this folder, which pytest makes importable.
FOREIGN = "foreign_classifiers"
METHODS: dict[str, dict[str, Any]] = {
    "small": {"estimator": "tsformer", "d_model": 8, "n_layers": 1, "n_heads": 2, "max_epochs": 1},
    "majority": {},
    "near": {"estimator": f"{FOREIGN}.Nearest", "power": 1.5},
    "ignores": {"estimator": f"{FOREIGN}.Ignores"},
    "raises": {"estimator": f"{FOREIGN}.Raises"},
    "narrow": {"estimator": f"{FOREIGN}.OneChannel"},
}
STUDY = Study(("ItalyPowerDemand", "Ragged", "Gaps"), methods=METHODS, seeds=2)


@pytest.fixture(scope="module", autouse=True)
def problems(tmp_path_factory):
    """Two problems in the folder `data`: missing values, and channels of unequal length."""
    home = tmp_path_factory.mktemp("problems")
    for name in ("Gaps", "Ragged"):
        (home / "data" / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    y = np.array(["a", "b"] * 6)
    for part, longest in (("TRAIN", 10), ("TEST", 12)):
        X = rng.normal(size=(12, 12, longest)) + 3 * (y == "a")[:, None, None]
        ragged = [x[:, : longest - i % 4] for i, x in enumerate(X)]
        write_ts(home / f"data/Ragged/Ragged_{part}.ts", ragged, y)
        X = X[:, :1, :10]
        X[::3, :, 4] = np.nan
        write_ts(home / f"data/Gaps/Gaps_{part}.ts", X, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        yield


@pytest.fixture(scope="module")
def done(uri, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        from tsformer.tracking import TrackedRun

        patch.setattr(TrackedRun, "figure", lambda *args, **options: None)
        return Done(STUDY, uri, "methods", tmp_path_factory.mktemp("methods"))


def rows(done: Done, method: str, dataset: str = "ItalyPowerDemand") -> pd.DataFrame:
    found = done.comparison.results
    return found[(found.method == method) & (found.dataset == dataset)].reset_index(drop=True)


def test_a_row_a_fit_with_the_method_in_place_of_the_encoding(done):
    found = done.comparison.results
    assert "encoding" not in found
    assert list(dict.fromkeys(found.method)) == ["small", "majority", "near", "ignores", "narrow"]
    assert len(found) == 2 * (3 * 4 + 2)
    failures = done.comparison.failures.set_index("method")["error"]
    assert failures["raises"].tolist() == ["ArithmeticError: no such luck"] * 6
    assert failures["narrow"].tolist() == ["UnreadableSeries: these series have 12 channels"] * 2
    seconds, memory = ["fit_seconds", "predict_seconds"], ["peak_memory_mb", "predict_memory_mb"]
    assert (found[seconds] > 0).all(axis=None)
    assert (found[memory] > 50).all(axis=None)
    assert found.fit_cpu_seconds.notna().all()
    small = found.method == "small"
    assert found.loc[small, "fit_cpu_seconds"].between(0.01, 60).all()
    assert found.loc[small, "n_parameters"].gt(100).all()
    assert found.loc[~small, "n_parameters"].isna().all()
    assert rows(done, "ignores").accuracy.nunique() == 2, "global generators are seeded"
    assert rows(done, "near").accuracy.nunique() == 1


def test_what_was_done_to_series_is_in_results_summary_and_report(done):
    assert set(rows(done, "near").helped) == {""}
    summary = (done.folder / "summary.md").read_text()
    report = (done.folder / "report/report.md").read_text()
    for dataset, helped in {"Ragged": "padded, cut", "Gaps": "interpolated"}.items():
        assert set(rows(done, "near", dataset).helped) == {helped}
        assert set(rows(done, "small", dataset).helped) == {""}
        (line,) = (each for each in summary.splitlines() if f"{dataset} | near" in each)
        assert line.endswith(f"| – | {helped} |")
        assert f"Series were {helped} for `near`: {dataset}." in report
    assert report.startswith("# Which method scores higher: ")
    assert "28 of 36 fits are available, 6 failed, 2 skipped." in report


def test_each_fit_is_a_run_with_the_parameters_of_its_class(done):
    runs = {run.info.run_id: run for run in done.store.runs("FINISHED", {"tsformer.kind": "fit"})}
    row = rows(done, "near").iloc[1]
    near = runs[row.run_id].data
    expected = {"method": "near", "estimator": f"{FOREIGN}.Nearest", "power": "1.5"}
    assert near.params.items() >= expected.items()
    assert near.params["library"].startswith(FOREIGN)
    assert near.metrics["predict_seconds"] == row.predict_seconds
    assert near.tags["tsformer.key"] == STUDY.key("ItalyPowerDemand", "near", 1)
    small = runs[rows(done, "small").run_id[0]].data
    assert small.params.items() >= {"method": "small", "encoding": "lspe", "d_model": "8"}.items()
    folder = Path(done.store.client().download_artifacts(row.run_id, ""))
    assert json.loads((folder / "configuration.json").read_text())["parameters"] == {"power": 1.5}
    assert list(pd.read_csv(folder / "predictions.csv")) == ["case", "true", "predicted"]


@pytest.mark.usefixtures("no_figures")
def test_what_compiles_does_so_before_its_first_fit_and_on_a_few_series(
    uri, experiment, monkeypatch
):
    for name in ("Counts", "NeedsMany"):
        entry = Baseline(f"{FOREIGN}.{name}", compiled=True)
        monkeypatch.setitem(BASELINES, name.lower(), entry)
    compiled: list[int] = importlib.import_module(FOREIGN).Counts.fitted
    store = prepare_store(uri, experiment)
    begun: list[list[int]] = []

    def run(name: str) -> list[Any]:
        compiled.clear()
        study = Study(("ItalyPowerDemand",), methods={name: {}}, seeds=2)
        tasks = [worker.Task(trial, study, store, "") for trial in study.trials()]
        begin = lambda: begun.append(list(compiled))  # noqa: E731
        return [worker.run_task(task, on_begin=begin).row for task in tasks]

    run("counts")
    assert compiled == [6, 67, 67]
    assert begun == [[6], [6, 67]], "compilation is outside of the time limit"
    with pytest.warns(UserWarning, match="needsmany includes the time of compiling it.*too few"):
        assert None not in run("needsmany"), "a failed compilation is no failed fit"
    assert compiled == [67, 67]


@pytest.mark.usefixtures("no_report", "no_workers")
def test_fits_of_other_series_do_not_pass_for_those_of_these(
    uri, experiment, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    where: dict[str, Any] = {"out": tmp_path, "tracking_uri": uri, "experiment": experiment}
    study = Study(("Changes",), methods={"majority": {}, "summary-ridge": {}}, seeds=1)

    def write(seed: int) -> None:
        (tmp_path / "data/Changes").mkdir(parents=True, exist_ok=True)
        for part in ("TRAIN", "TEST"):
            X = np.random.default_rng(seed).normal(size=(12, 1, 10))
            write_ts(tmp_path / f"data/Changes/Changes_{part}.ts", X, np.array(["a", "b"] * 6))
        problem._official.cache_clear()
        problem.series_digest.cache_clear()

    write(0)
    compare(study, **where)
    write(1)
    changed = r"Changes has changed since run .* in another --experiment"
    with pytest.raises(ValueError, match=changed):
        compare(study, **where)
    # A driver on another machine may have made the fit since this one began.
    task = worker.Task(study.trials()[0], study, prepare_store(uri, experiment), "")
    result = worker.run_task(task)
    assert result.row is None
    assert re.search(changed, result.error)
