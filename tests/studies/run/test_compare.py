"""compare(): real fits of encodings and methods, and everything that it says about them."""

import importlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import image
from pandas.testing import assert_frame_equal
from run_once import Done, NoWorker, statuses

from tsformer import TSTransformerClassifier
from tsformer.baselines import BASELINES, Baseline
from tsformer.data import load_dataset
from tsformer.data.tsfile import write_ts
from tsformer.plots import encoding_color
from tsformer.studies import Progress, Study, compare
from tsformer.studies.run import problem
from tsformer.studies.run.fits import Fits
from tsformer.studies.run.trial import Task, run_task
from tsformer.tracking import TrackedRun, prepare_store

# The study that most of them look at takes twenty seconds.
pytestmark = pytest.mark.slow

# A module in this folder, which pytest makes importable.
FOREIGN = "foreign_classifiers"
METHODS: dict[str, dict[str, Any]] = {
    "small": {"estimator": "tsformer"},
    "majority": {},
    "near": {"estimator": f"{FOREIGN}.Nearest", "power": 1.5},
    "ignores": {"estimator": f"{FOREIGN}.Ignores"},
    "raises": {"estimator": f"{FOREIGN}.Raises"},
    "narrow": {"estimator": f"{FOREIGN}.OneChannel"},
}
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2}
ITALY = "ItalyPowerDemand"
STUDY = Study((ITALY, "Ragged", "Gaps"), ("none",), 2, SMALL, methods=METHODS)


@pytest.fixture(scope="module", autouse=True)
def problems(tmp_path_factory):
    """Two problems in the folder `data`: missing values, and channels of unequal length."""
    home = tmp_path_factory.mktemp("problems")
    for name in ("Gaps", "Ragged"):
        (home / "data" / name).mkdir(parents=True)
    rng = np.random.default_rng(0)
    y = np.array(["a", "b"] * 6)
    for split, longest in (("TRAIN", 10), ("TEST", 12)):
        X = rng.normal(size=(12, 12, longest)) + 3 * (y == "a")[:, None, None]
        ragged = [x[:, : longest - i % 4] for i, x in enumerate(X)]
        write_ts(home / f"data/Ragged/Ragged_{split}.ts", ragged, y)
        X = X[:, :1, :10]
        X[::3, :, 4] = np.nan
        write_ts(home / f"data/Gaps/Gaps_{split}.ts", X, y)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        yield


@pytest.fixture(scope="module")
def done(uri, tmp_path_factory):
    """The study in this process, with pictures of its first fit and of the whole alone."""
    sizes: list[int] = []
    drawn: list[str] = []
    predict_proba, figure = TSTransformerClassifier.predict_proba, TrackedRun.figure

    def spy(self: TSTransformerClassifier, X: Any) -> Any:
        sizes.append(len(X))
        return predict_proba(self, X)

    def first(run: TrackedRun, *args: Any, **options: Any) -> None:
        drawn.append(run.run_id)
        if run.run_id == drawn[0]:
            figure(run, *args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TSTransformerClassifier, "predict_proba", spy)
        patch.setattr(TrackedRun, "figure", first)
        patch.setattr("tsformer.studies.report.write.as_png", lambda figure: b"")
        # Here: a worker imports for ten seconds, and would draw all pictures.
        patch.setattr(Fits, "new_pool", lambda self: NoWorker())
        study = Done(STUDY, uri, "done", tmp_path_factory.mktemp("done"))
    assert Counter(sizes) == {1029: 4, 12: 8}, "each fit predicts the test split once"
    return study


def rows(done: Done, method: str, dataset: str = ITALY) -> pd.DataFrame:
    fits = done.comparison.results
    return fits[(fits.method == method) & (fits.dataset == dataset)].reset_index(drop=True)


def files_of(done: Done, run_id: str) -> Path:
    return Path(done.store.client().download_artifacts(run_id, ""))


def test_a_row_a_fit_with_the_numbers_of_that_fit(done):
    fits = done.comparison.results
    assert "encoding" not in fits
    fitted = [name for name in STUDY.names if name != "raises"]
    assert list(dict.fromkeys(fits.method)) == fitted
    assert len(fits) == 2 * (3 * 5 + 2)
    failures = done.comparison.failures.set_index("method")["error"]
    assert failures["raises"].tolist() == ["ArithmeticError: no such luck"] * 6
    assert failures["narrow"].tolist() == ["UnreadableSeries: these series have 12 channels"] * 2
    assert (fits[["fit_seconds", "predict_seconds"]] > 0).all(axis=None)
    assert (fits[["peak_memory_mb", "predict_memory_mb"]] > 50).all(axis=None)
    ours = fits[fits.method.isin(["none", "small"])]
    assert fits.fit_cpu_seconds.notna().all()
    assert ours.fit_cpu_seconds.between(0.01, 2 * ours.fit_seconds + 1).all()
    assert ours.n_parameters.gt(100).all()
    assert fits.n_parameters.count() == len(ours), "of ours alone"
    assert rows(done, "ignores").accuracy.nunique() == 2, "global generators are seeded"
    assert rows(done, "near").accuracy.nunique() == 1
    row = rows(done, "small").iloc[1]
    by_hand = TSTransformerClassifier(random_state=1, **SMALL).fit(*load_dataset(ITALY, "train"))
    X, y = load_dataset(ITALY, "test")
    assert row.accuracy == by_hand.score(X, y)
    right = by_hand.predict_proba(X)[np.arange(len(y)), np.searchsorted(["1", "2"], y)]
    assert row.log_loss == pytest.approx(-np.log(right).mean(), rel=1e-5)
    assert row.n_parameters == sum(p.numel() for p in by_hand.model_.parameters())
    assert row.n_epochs == 2


def test_files(done):
    names = ["comparison.png", "failures.csv", "report", "results.csv", "study.json", "summary.md"]
    assert sorted(p.name for p in done.folder.iterdir()) == names
    assert image.imread(done.comparison.figure_path).std() > 0.05


def test_each_fit_is_a_run_that_says_what_it_was(done):
    """That a run has every number of its row is seen in test_carried_results.py."""
    finished = {key for key, status in statuses(done.store) if status == "FINISHED"}
    fitted = done.comparison.results[["dataset", "method", "seed"]].itertuples(index=False)
    assert finished == {STUDY.key(*row) for row in fitted}
    runs = {run.info.run_id: run for run in done.store.runs()}
    (study,) = (run for run in runs.values() if run.data.tags["tsformer.kind"] == "study")
    row = rows(done, "none").iloc[0]
    run = runs[row.run_id]
    same = {"dataset": ITALY, "encoding": "none", "seed": "0", "d_model": "8"}
    assert run.data.params.items() >= same.items()
    assert run.data.tags["mlflow.runColor"] == encoding_color("none")
    assert run.data.tags["mlflow.parentRunId"] == study.info.run_id
    assert {entry.tags[0].value for entry in run.inputs.dataset_inputs} == {"train", "test"}
    folder = files_of(done, row.run_id)
    assert {file.name for file in folder.glob("*.png")} >= {"encoding.png", "training.png"}
    answers = pd.read_csv(folder / "predictions.csv", dtype=str)
    assert (answers.true == answers.predicted).mean() == pytest.approx(row.accuracy)

    row = rows(done, "near").iloc[1]
    near = runs[row.run_id].data
    expected = {"method": "near", "estimator": f"{FOREIGN}.Nearest", "power": "1.5"}
    assert near.params.items() >= expected.items()
    assert near.params["library"].startswith(FOREIGN)
    folder = files_of(done, row.run_id)
    assert json.loads((folder / "configuration.json").read_text())["parameters"] == {"power": 1.5}
    assert list(pd.read_csv(folder / "predictions.csv")) == ["case", "true", "predicted"]


def test_events_tell_how_far_it_is(done):
    fit = ["fit-start", "epoch", "epoch", "fit-end"]
    assert [e.event for e in done.events[:5]] == ["start", *fit]
    fractions = [e.fraction for e in done.events]
    assert fractions == sorted(fractions)
    assert (fractions[0], fractions[-1]) == (0.0, 1.0)
    assert fractions[2] == pytest.approx(0.5 / 42)
    accuracies = [e.accuracy for e in done.events if e.event == "fit-end" and not e.error]
    assert sorted(accuracies) == sorted(done.comparison.results.accuracy)


@pytest.mark.usefixtures("no_report", "no_workers")
def test_what_is_finished_is_not_done_again(done, tmp_path):
    finished = {key: n for key, n in statuses(done.store).items() if key[1] == "FINISHED"}
    events: list[Progress] = []
    again = done.again(events)
    assert {e.trial.method for e in events if e.trial} == {"raises", "narrow"}
    assert events[0].skipped == events[0].done == 34
    assert_frame_equal(again.results, done.comparison.results)
    assert statuses(done.store).items() >= finished.items()
    assert len(done.store.runs(tags={"tsformer.kind": "study"})) == 1
    assert len(done.store.runs(tags={"tsformer.kind": "encoding"})) == 6

    larger = Study((ITALY,), ("none", "rope"), seeds=1, parameters=SMALL)
    events.clear()
    options: dict[str, Any] = {"tracking_uri": done.uri, "experiment": "done"}
    compare(larger, out=tmp_path, on_progress=events.append, **options)
    assert [e.trial.method for e in events if e.event == "fit-end" and e.trial] == ["rope"]


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
        study = Study((ITALY,), methods={name: {}}, seeds=2)
        tasks = [Task(trial, study, store, "") for trial in study.trials()]
        begin = lambda: begun.append(list(compiled))  # noqa: E731
        return [run_task(task, on_begin=begin).row for task in tasks]

    run("counts")
    assert compiled == [6, 67, 67]
    assert begun == [[6], [6, 67]], "compilation is outside of the time limit"
    with pytest.warns(UserWarning, match="too few"):
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
        for split in ("TRAIN", "TEST"):
            X = np.random.default_rng(seed).normal(size=(12, 1, 10))
            write_ts(tmp_path / f"data/Changes/Changes_{split}.ts", X, np.array(["a", "b"] * 6))
        problem.official_split.cache_clear()
        problem.series_digest.cache_clear()

    write(0)
    compare(study, **where)
    write(1)
    with pytest.raises(ValueError):
        compare(study, **where)
    # A driver on another machine may have made the fit since this one began.
    task = Task(study.trials()[0], study, prepare_store(uri, experiment), "")
    result = run_task(task)
    assert result.row is None
    assert "Changes has changed" in result.error
