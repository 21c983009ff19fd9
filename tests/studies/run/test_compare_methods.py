"""compare() with methods: any classifier is fitted, recorded, resumed and reported."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import pandas as pd
import pytest
from run_once import Done

from tsformer import TSEnsembleClassifier, load_dataset
from tsformer.baselines import BASELINES, Baseline
from tsformer.data.tsfile import write_ts
from tsformer.studies import Progress, Study, compare
from tsformer.studies.run import problem, worker
from tsformer.tracking import prepare_store

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')

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
    "ridge": {"estimator": "flat-ridge"},
}
STUDY = Study(("ItalyPowerDemand", "JapaneseVowels", "Gaps"), methods=METHODS, seeds=2)


@pytest.fixture(scope="module", autouse=True)
def gaps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A problem with missing values, in the folder `data` of the working folder."""
    home = tmp_path_factory.mktemp("gaps")
    (home / "data/Gaps").mkdir(parents=True)
    rng = np.random.default_rng(0)
    y = np.array(["a", "b"] * 6)
    for part in ("TRAIN", "TEST"):
        X = rng.normal(size=(12, 1, 10)) + 3 * (y == "a")[:, None, None]
        X[::3, :, 4] = np.nan
        write_ts(home / f"data/Gaps/Gaps_{part}.ts", X, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        yield


@pytest.fixture(scope="module")
def done(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    with pytest.MonkeyPatch.context() as patch:
        from tsformer.tracking import TrackedRun

        patch.setattr(TrackedRun, "figure", lambda *args, **options: None)
        return Done(STUDY, uri, "methods", tmp_path_factory.mktemp("methods"))


@pytest.fixture
def without_report(monkeypatch: pytest.MonkeyPatch, no_figures: None) -> None:
    """Write no report, whose figures take longer than small fits."""
    monkeypatch.setattr("tsformer.studies.run.finalize._report", lambda *args: None)


class Where(TypedDict):
    """The options of `compare` that say where results go."""

    out: Path
    tracking_uri: str
    experiment: str


@pytest.fixture
def where(uri: str, experiment: str, tmp_path: Path) -> Where:
    return {"out": tmp_path, "tracking_uri": uri, "experiment": experiment}


def rows(done: Done, method: str, dataset: str = "ItalyPowerDemand") -> pd.DataFrame:
    found = done.comparison.results
    return found[(found.method == method) & (found.dataset == dataset)].reset_index(drop=True)


def test_a_row_a_fit_with_the_method_in_place_of_the_encoding(done: Done) -> None:
    found = done.comparison.results
    assert "encoding" not in found
    assert list(dict.fromkeys(found.method)) == ["small", "majority", "near", "ignores", "ridge"]
    assert len(found) == 3 * 5 * 2
    assert (found.predict_seconds > 0).all()
    assert (found.fit_seconds > 0).all()
    assert found.loc[found.method == "small", "fit_cpu_seconds"].between(0.01, 60).all()
    assert found.fit_cpu_seconds.notna().all()
    assert found.peak_memory_mb.gt(50).all()
    assert found.predict_memory_mb.gt(50).all()
    assert found.loc[found.method == "small", "n_parameters"].gt(100).all()
    assert found.loc[found.method != "small", "n_parameters"].isna().all()


def test_what_draws_from_the_global_generators_is_another_with_every_seed(done: Done) -> None:
    drawn = rows(done, "ignores").accuracy
    assert drawn[0] != drawn[1]
    assert rows(done, "near").accuracy.nunique() == 1


def test_a_foreign_class_that_raises_is_a_failure_like_any(done: Done) -> None:
    failures = done.comparison.failures
    assert failures.method.tolist() == ["raises"] * 6
    assert set(failures.error) == {"ArithmeticError: no such luck"}
    (first, *_) = done.store.runs("FAILED")
    assert first.data.tags["tsformer.error"] == "ArithmeticError: no such luck"


def test_what_was_done_to_series_is_in_results_summary_and_report(done: Done) -> None:
    assert set(rows(done, "near").helped) == {""}
    assert set(rows(done, "near", "JapaneseVowels").helped) == {"padded, cut"}
    assert set(rows(done, "near", "Gaps").helped) == {"interpolated"}
    for dataset in ("JapaneseVowels", "Gaps"):
        assert set(rows(done, "small", dataset).helped) == {""}
    summary = (done.folder / "summary.md").read_text()
    assert "| data set | method |" in summary
    report = (done.folder / "report/report.md").read_text()
    for dataset, helped in {"JapaneseVowels": "padded, cut", "Gaps": "interpolated"}.items():
        (line,) = (each for each in summary.splitlines() if f"{dataset} | near" in each)
        assert line.endswith(f"| – | {helped} |")
        assert f"Series were {helped} for `near`: {dataset}." in report
    assert report.startswith("# Which method scores higher: ")
    assert "30 of 36 fits are available, 6 failed." in report
    assert "tsformer compare --study study.json" in report
    assert "Methods had the same splits and seeds" in report


def test_each_fit_is_a_run_with_the_parameters_of_its_class(done: Done) -> None:
    runs = {run.info.run_id: run for run in done.store.runs("FINISHED", {"tsformer.kind": "fit"})}
    near = runs[rows(done, "near").run_id[1]].data
    assert near.params["method"] == "near"
    assert near.params["estimator"] == f"{FOREIGN}.Nearest"
    assert near.params["power"] == "1.5"
    assert near.params["library"].startswith(FOREIGN)
    assert near.metrics["predict_seconds"] == rows(done, "near").predict_seconds[1]
    assert near.tags["tsformer.key"] == STUDY.key("ItalyPowerDemand", "near", 1)
    small = runs[rows(done, "small").run_id[0]].data
    assert (small.params["method"], small.params["encoding"]) == ("small", "lspe")
    assert small.params["d_model"] == "8"
    client = done.store.client()
    file = client.download_artifacts(rows(done, "near").run_id[0], "configuration.json")
    said = json.loads(Path(file).read_text())
    assert said["parameters"] == {"power": 1.5}
    predicted = pd.read_csv(
        client.download_artifacts(rows(done, "near").run_id[0], "predictions.csv")
    )
    assert list(predicted) == ["case", "true", "predicted"]


def test_what_is_finished_is_read_back(done: Done, without_report: None) -> None:
    events: list[Progress] = []
    again = done.again(events)
    pd.testing.assert_frame_equal(again.results, done.comparison.results)
    fits = [e.trial.method for e in events if e.event == "fit-end" and e.trial]
    assert fits == ["raises"] * 6, "what failed is tried again"


def test_an_encoding_gives_its_fit_to_a_method(
    done: Done, tmp_path: Path, without_report: None
) -> None:
    parameters = {k: v for k, v in METHODS["small"].items() if k != "estimator"}
    same = Study(("ItalyPowerDemand",), ("lspe",), seeds=1, parameters=parameters)
    found = compare(same, out=tmp_path, tracking_uri=done.uri, experiment="methods").results
    assert found.run_id.tolist() == [rows(done, "small").run_id[0]]
    assert found.predict_seconds[0] > 0
    assert "method" not in found


def test_what_reads_one_channel_is_skipped_with_the_reason(
    uri: str, experiment: str, tmp_path: Path, no_figures: None
) -> None:
    pytest.importorskip("sktime", reason='needs the extra "data"')
    forest = "sktime.classification.interval_based.TimeSeriesForestClassifier"
    methods = {"forest": {"estimator": forest, "n_estimators": 2}, "majority": {}}
    study = Study(("BasicMotions",), methods=methods, seeds=1)
    found = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment)
    assert found.results.method.tolist() == ["majority"]
    assert "reads one channel; these series have 6" in found.failures.error[0]
    summary = (tmp_path / "summary.md").read_text()
    (line,) = (each for each in summary.splitlines() if "BasicMotions | forest" in each)
    assert line.startswith("| BasicMotions | forest | – | 0 | – | – | – | – | skipped: sktime.")
    assert line.endswith("reads one channel; these series have 6 |")
    assert "not in the table" not in summary
    report = (tmp_path / "report/report.md").read_text()
    assert "Skipped: forest on BasicMotions: sktime.classification.interval" in report
    assert "1 of 2 fits are available, 1 skipped." in report


def test_the_report_has_each_part_of_an_ensemble_beside_the_whole(
    uri: str, experiment: str, tmp_path: Path, no_figures: None
) -> None:
    transformer = {"d_model": 8, "n_layers": 1, "n_heads": 2, "max_epochs": 1}
    parameters = {
        "quality": "fast",
        "transformer_params": transformer,
        "convolution_params": {"n_features": 168},
    }
    study = Study(
        ("ItalyPowerDemand", "Gaps"),
        methods={"ensemble": parameters, "majority": {}},
        seeds=2,
    )
    comparison = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment)
    found = comparison.results.set_index("method")
    assert set(found.loc["majority", "parts"]) == {""}
    fits = found.loc[["ensemble"]]
    parts = pd.DataFrame([json.loads(each) for each in fits.parts])
    assert list(parts) == ["random_convolutions", "transformer"]
    # As `TSEnsembleClassifier.score_parts` has them.
    X, y = load_dataset("Gaps", "train")
    alone = TSEnsembleClassifier(**parameters, random_state=1).fit(X, y)
    scores = alone.score_parts(*load_dataset("Gaps", "test"))
    (row,) = fits[(fits.dataset == "Gaps") & (fits.seed == 1)].itertuples()
    assert row.accuracy == scores.pop("ensemble")
    assert json.loads(row.parts) == scores

    report = (tmp_path / "report/report.md").read_text()
    means = [fits.accuracy.mean(), *parts.mean()]
    table = "| method | mean score | random convolutions | transformer |"
    line = "| `ensemble` | " + " | ".join(f"{mean:.3f}" for mean in means) + " |"
    assert table in report
    assert line in report
    assert report.count(table) == 1

    store = prepare_store(uri, experiment)
    metrics = {run.info.run_id: run.data.metrics for run in store.runs("FINISHED")}
    assert metrics[row.run_id]["test/part_accuracy/transformer"] == scores["transformer"]
    again = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment)
    pd.testing.assert_frame_equal(again.results, comparison.results)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Two names whose classes compile something in their first fit."""
    for name in ("Counts", "NeedsMany"):
        entry = Baseline(f"{FOREIGN}.{name}", compiled=True)
        monkeypatch.setitem(BASELINES, name.lower(), entry)  # type: ignore[arg-type]
    fitted: list[int] = importlib.import_module(FOREIGN).Counts.fitted
    fitted.clear()
    return fitted


def test_what_compiles_does_so_before_its_first_fit_and_on_a_few_series(
    uri: str, experiment: str, compiled: list[int], no_figures: None
) -> None:
    store = prepare_store(uri, experiment)
    study = Study(("ItalyPowerDemand",), methods={"counts": {}}, seeds=2)
    begun: list[list[int]] = []
    for trial in study.trials():
        task = worker.Task(trial, study, store, "")
        worker.run_task(task, on_begin=lambda: begun.append(list(compiled)))
    assert compiled == [6, 67, 67]
    assert begun == [[6], [6, 67]], "compilation is outside of the time limit"


def test_fits_of_other_series_do_not_pass_for_those_of_these(
    where: Where, monkeypatch: pytest.MonkeyPatch, without_report: None
) -> None:
    folder = where["out"]
    monkeypatch.chdir(folder)
    study = Study(("Changes",), methods={"majority": {}, "summary-ridge": {}}, seeds=1)

    def write(seed: int) -> None:
        (folder / "data/Changes").mkdir(parents=True, exist_ok=True)
        for part in ("TRAIN", "TEST"):
            X = np.random.default_rng(seed).normal(size=(12, 1, 10))
            write_ts(folder / f"data/Changes/Changes_{part}.ts", X, np.array(["a", "b"] * 6))
        problem._official.cache_clear()
        problem.series_digest.cache_clear()

    write(0)
    first = compare(study, **where).results
    write(0)
    again = compare(study, **where).results
    assert again["run_id"].tolist() == first["run_id"].tolist()
    write(1)
    changed = r"Changes has changed since run .* in another --experiment"
    with pytest.raises(ValueError, match=changed):
        compare(study, **where)
    # A driver on another machine may have made the fit since this one began.
    store = prepare_store(where["tracking_uri"], where["experiment"])
    for trial in study.trials():
        result = worker.run_task(worker.Task(trial, study, store, ""))
        assert result.row is None
        assert re.search(changed, result.error)


def test_a_compilation_that_fails_is_no_failure_of_the_fit(
    uri: str, experiment: str, compiled: list[int], no_figures: None
) -> None:
    study = Study(("ItalyPowerDemand",), methods={"needsmany": {}}, seeds=1)
    task = worker.Task(study.trials()[0], study, prepare_store(uri, experiment), "")
    with pytest.warns(UserWarning, match="needsmany includes the time of compiling it.*too few"):
        result = worker.run_task(task)
    assert compiled == [67]
    assert result.row is not None
