"""What a search or cross-validation of scikit-learn leaves in MLflow after `tsformer.autolog`."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
    validation_curve,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tsformer
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier
from tsformer.tracking import RunStore, prepare_store
from tsformer.tracking.register import load_registered
from tsformer.tracking.server import find_experiment, pages_of
from tsformer.training import Callback, TrainingState

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "random_state": 0, "max_epochs": 1}
TINY = {"n_features": 168, "n_groups": 0, "random_state": 0, "scaling": "channel"}


@pytest.fixture(autouse=True)
def told(
    uri: str, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[None]:
    """An experiment of its own for each test, and nothing tracked at its end."""
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_ID", raising=False)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", request.node.name)
    yield
    tsformer.autolog(disable=True)
    while mlflow.active_run() is not None:
        mlflow.end_run()


@pytest.fixture
def quick() -> None:
    tsformer.autolog(log_models=False, pictures=False, log_datasets=False)


@pytest.fixture
def few(italy: tuple[Any, Any]) -> tuple[Any, Any]:
    return italy[0][:24], italy[1][:24]


def runs(name: str | None = None, **tags: str) -> list[Any]:
    """The runs of this test, the oldest first, with these tags of ours."""
    wanted = " and ".join(f"tags.`tsformer.{tag}` = '{value}'" for tag, value in tags.items())
    found: list[Any] = mlflow.search_runs(
        experiment_names=[name or os.environ["MLFLOW_EXPERIMENT_NAME"]],
        filter_string=wanted,
        output_format="list",
    )
    return found[::-1]


def parent_of(run: Any) -> str:
    parent: str = run.data.tags.get("mlflow.parentRunId", "")
    return parent


@pytest.mark.slow
def test_a_grid_search(few: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = few
    grid = {"encoding": ["none", "tape"], "d_model": [8, 16]}
    plain = GridSearchCV(TSTransformerClassifier(**SMALL), grid, cv=2).fit(X, y)
    monkeypatch.setattr("tsformer.tracking.tracker._LONG_ENOUGH_SECONDS", 0.0)
    tsformer.autolog()
    search = GridSearchCV(TSTransformerClassifier(**SMALL), grid, cv=2).fit(X, y)
    results = search.cv_results_
    assert np.array_equal(results["mean_test_score"], plain.cv_results_["mean_test_score"])

    (parent,) = runs(kind="search")
    assert parent.info.status == "FINISHED"
    assert parent.info.run_name == "GridSearchCV over encoding, d_model"
    assert parent.data.metrics["best_score"] == search.best_score_
    assert parent.data.params["best.encoding"] == search.best_params_["encoding"]
    assert parent_of(parent) == ""
    files = {each.path for each in mlflow.MlflowClient().list_artifacts(parent.info.run_id)}
    assert "cv_results.csv" in files

    fits = runs(kind="fit")
    assert len(fits) == 8
    for run in fits:
        assert run.info.status == "FINISHED"
        assert parent_of(run) == parent.info.run_id
        index = results["params"].index(
            {"encoding": run.data.params["encoding"], "d_model": int(run.data.params["d_model"])}
        )
        fold = int(run.data.params["fold"])
        assert run.data.metrics["test/accuracy"] == results[f"split{fold}_test_score"][index]
        assert run.data.metrics["n_epochs"] == 1
        files = {each.path for each in mlflow.MlflowClient().list_artifacts(run.info.run_id)}
        assert ("encoding.png" in files) == (fold == 0), "one picture for each candidate"
        assert "model" not in files

    summaries = {run.info.run_name: run for run in runs(kind="encoding")}
    assert set(summaries) == {
        f"{encoding}, d_model={width}" for encoding in ("none", "tape") for width in (8, 16)
    }
    for index, params in enumerate(results["params"]):
        run = summaries[f"{params['encoding']}, d_model={params['d_model']}"]
        scores = [results[f"split{fold}_test_score"][index] for fold in range(2)]
        assert run.data.metrics["test/accuracy"] == pytest.approx(np.mean(scores))
        assert run.data.metrics["test/accuracy_spread"] == pytest.approx(np.std(scores, ddof=1))
        assert run.data.params["d_model"] == str(params["d_model"])
        assert parent_of(run) == parent.info.run_id
        files = {each.path for each in mlflow.MlflowClient().list_artifacts(run.info.run_id)}
        assert "encoding.png" in files

    values = {run.info.run_name: run for run in runs(kind="value")}
    assert set(values) == {"encoding=none", "encoding=tape", "d_model=8", "d_model=16"}
    for name in ("encoding", "d_model"):
        for value in grid[name]:
            run = values[f"{name}={value}"]
            own = [i for i, params in enumerate(results["params"]) if params[name] == value]
            folds = [np.mean(results[f"split{fold}_test_score"][own]) for fold in range(2)]
            assert run.data.params[name] == str(value)
            assert run.data.metrics["test/accuracy"] == pytest.approx(np.mean(folds))
            assert run.data.metrics["test/accuracy_spread"] == pytest.approx(np.std(folds, ddof=1))
            assert run.data.metrics["fits/finished"] == 4
            assert parent_of(run) == parent.info.run_id

    (refit,) = runs(kind="refit")
    assert parent_of(refit) == parent.info.run_id
    assert refit.info.run_name == f"refit of {search.best_params_['encoding']}"
    folder = mlflow.artifacts.download_artifacts(run_id=refit.info.run_id, artifact_path="model")
    assert np.array_equal(load_registered(folder).predict(X), search.predict(X))

    store = find_experiment(None, os.environ["MLFLOW_EXPERIMENT_NAME"])
    assert "encodings side by side" in pages_of(store, "http://127.0.0.1:5000")
    assert mlflow.last_active_run().info.run_id == parent.info.run_id
    assert len(runs()) == 1 + 8 + 4 + 4 + 1


def test_a_cross_validation(few: tuple[Any, Any], quick: None) -> None:
    scores = cross_val_score(RandomConvolutionClassifier(**TINY), *few, cv=3)
    (parent,) = runs(kind="search")
    assert parent.info.run_name == "cross-validation of RandomConvolutionClassifier"
    assert [run.data.metrics["test/accuracy"] for run in runs(kind="fit")] == scores.tolist()
    assert parent.data.metrics["test/accuracy"] == pytest.approx(scores.mean())
    assert parent.data.metrics["test/accuracy_spread"] == pytest.approx(scores.std(ddof=1))
    (summary,) = runs(kind="encoding")
    assert summary.data.metrics["fits/finished"] == 3
    assert not runs(kind="refit")


@pytest.mark.slow
def test_scores_of_other_names(few: tuple[Any, Any], quick: None) -> None:
    classifier = RandomConvolutionClassifier(**TINY)
    found = cross_validate(
        classifier, *few, cv=2, scoring=["f1_macro", "neg_log_loss"], return_train_score=True
    )
    for run in runs(kind="fit"):
        fold = int(run.data.params["fold"])
        for name in ("f1_macro", "neg_log_loss"):
            assert run.data.metrics[f"test/{name}"] == found[f"test_{name}"][fold]
            assert run.data.metrics[f"train/{name}"] == pytest.approx(found[f"train_{name}"][fold])
    cross_val_score(classifier, *few, cv=2, scoring="neg_log_loss")
    assert "test/neg_log_loss" in runs(kind="fit")[-1].data.metrics


@pytest.mark.slow
def test_pipelines_in_pipelines(few: tuple[Any, Any], quick: None) -> None:
    def same(values: Any) -> Any:
        return values

    inner = make_pipeline(FunctionTransformer(same), TSTransformerClassifier(**SMALL))
    pipeline = Pipeline([("scale", FunctionTransformer(same)), ("pipeline", inner)])
    grid = {
        "pipeline__tstransformerclassifier__encoding": ["none", "lspe"],
        "scale__validate": [False],
    }
    search = GridSearchCV(pipeline, grid, cv=2, refit=False).fit(*few)
    assert {run.info.run_name for run in runs(kind="encoding")} == {
        "none, validate=False",
        "lspe, validate=False",
    }
    for run in runs(kind="fit"):
        index = ["none", "lspe"].index(run.data.params["encoding"])
        fold = int(run.data.params["fold"])
        score = search.cv_results_[f"split{fold}_test_score"][index]
        assert run.data.metrics["test/accuracy"] == score
        assert "train/loss" in run.data.metrics


@pytest.mark.slow
def test_estimators_that_are_searched(few: tuple[Any, Any], quick: None) -> None:
    steps = [TSTransformerClassifier("tape", **SMALL), TSTransformerClassifier("none", **SMALL)]
    pipeline = Pipeline([("classifier", RidgeClassifier())])
    GridSearchCV(pipeline, {"classifier": steps}, cv=2, refit=False).fit(*few)
    assert sorted(run.data.params["encoding"] for run in runs(kind="encoding")) == ["none", "tape"]
    assert [run.data.metrics["fits/finished"] for run in runs(kind="encoding")] == [2, 2]


@pytest.mark.slow
def test_a_randomized_search(few: tuple[Any, Any], quick: None) -> None:
    RandomizedSearchCV(
        TSTransformerClassifier(**SMALL),
        {"learning_rate": [0.001, 0.002, 0.003]},
        n_iter=2,
        cv=2,
        random_state=0,
        refit=False,
    ).fit(*few)
    assert len(runs(kind="fit")) == 4
    assert all(run.info.run_name.startswith("learning_rate=") for run in runs(kind="encoding"))


def test_a_validation_curve(few: tuple[Any, Any], quick: None) -> None:
    _, scores = validation_curve(
        RandomConvolutionClassifier(**TINY),
        *few,
        param_name="n_features",
        param_range=[168, 336],
        cv=2,
    )
    summaries = {run.data.params["n_features"]: run for run in runs(kind="encoding")}
    for value, own in zip(("168", "336"), scores, strict=True):
        assert summaries[value].data.metrics["test/accuracy"] == pytest.approx(own.mean())


@pytest.mark.slow
def test_a_halving_search(italy: tuple[Any, Any], quick: None) -> None:
    grid = {"n_features": [168, 336, 504]}
    search = HalvingGridSearchCV(
        RandomConvolutionClassifier(**TINY), grid, cv=2, factor=3, min_resources=20, refit=False
    ).fit(*italy)
    assert search.n_iterations_ == 2
    (parent,) = runs(kind="search")
    fits = runs(kind="fit")
    assert len(fits) == 2 * 3 + 2 * 1
    assert {parent_of(run) for run in fits} == {parent.info.run_id}
    assert sorted(run.data.params["iteration"] for run in fits) == ["0"] * 6 + ["1"] * 2
    best = search.best_params_["n_features"]
    (summary,) = [r for r in runs(kind="encoding") if r.info.run_name == f"n_features={best}"]
    assert summary.data.metrics["test/accuracy"] == pytest.approx(search.best_score_)
    assert len(runs(kind="encoding")) == 3


@pytest.mark.slow
def test_a_search_in_a_cross_validation(few: tuple[Any, Any], quick: None) -> None:
    inner = GridSearchCV(RandomConvolutionClassifier(**TINY), {"n_features": [168, 336]}, cv=2)
    cross_val_score(inner, *few, cv=2)
    (outer,) = [run for run in runs(kind="search") if parent_of(run) == ""]
    folds = [
        run for run in runs() if parent_of(run) == outer.info.run_id and "fold" in run.data.params
    ]
    assert len(folds) == 2
    assert all("test/accuracy" in run.data.metrics for run in folds)
    for fold in folds:
        nested = [run for run in runs(kind="fit") if parent_of(run) == fold.info.run_id]
        assert len(nested) == 4
    assert {run.info.status for run in runs()} == {"FINISHED"}


class ScoresItself(RandomConvolutionClassifier):
    """Runs a cross-validation of its own in each fit."""

    def fit(self, X: Any, y: Any) -> Any:  # type: ignore[override]
        self.inner_ = cross_val_score(RandomConvolutionClassifier(**TINY), X, y, cv=2)
        return super().fit(X, y)


@pytest.mark.slow
def test_a_cross_validation_in_the_fits_of_a_search(few: tuple[Any, Any], quick: None) -> None:
    GridSearchCV(ScoresItself(**TINY), {"n_features": [168]}, cv=2).fit(*few)
    (outer,) = [run for run in runs(kind="search") if parent_of(run) == ""]
    (summary,) = [r for r in runs(kind="encoding") if parent_of(r) == outer.info.run_id]
    assert summary.data.metrics["fits/finished"] == 2
    folds = [run for run in runs(kind="fit") if parent_of(run) == outer.info.run_id]
    assert len(folds) == 2
    for fold in folds:
        nested = [run for run in runs(kind="fit") if parent_of(run) == fold.info.run_id]
        # Those of the cross-validation, and that of the fold itself.
        assert sorted("fold" in run.data.params for run in nested) == [False, True, True]


@pytest.mark.slow
def test_a_search_in_an_active_run(few: tuple[Any, Any], quick: None) -> None:
    def search() -> None:
        GridSearchCV(
            RandomConvolutionClassifier(**TINY), {"n_features": [168, 336]}, cv=2, refit=False
        ).fit(*few)

    with mlflow.start_run() as mine:
        search()
        assert mlflow.get_run(mine.info.run_id).data.tags["tsformer.kind"] == "search"
        search()
    first, second = runs(kind="search")
    assert first.info.run_id == mine.info.run_id
    assert parent_of(second) == mine.info.run_id
    assert len([run for run in runs(kind="fit") if parent_of(run) == mine.info.run_id]) == 4


@pytest.mark.slow
def test_exclusive_leaves_the_searches_of_active_runs_alone(few: tuple[Any, Any]) -> None:
    tsformer.autolog(log_models=False, pictures=False, exclusive=True)
    with mlflow.start_run():
        cross_val_score(RandomConvolutionClassifier(**TINY), *few, cv=2)
    assert len(runs()) == 1
    cross_val_score(RandomConvolutionClassifier(**TINY), *few, cv=2)
    assert len(runs(kind="fit")) == 2


def test_what_is_not_ours_is_not_tracked(few: tuple[Any, Any], quick: None) -> None:
    X, y = few
    GridSearchCV(RidgeClassifier(), {"alpha": [1.0, 2.0]}, cv=2).fit(X[:, 0], y)
    tsformer.autolog(disable=True)
    cross_val_score(RandomConvolutionClassifier(**TINY), X, y, cv=2)
    assert mlflow.get_experiment_by_name(os.environ["MLFLOW_EXPERIMENT_NAME"]) is None


class FailsWith(Callback):
    def __init__(self, message: str):
        self.message = message

    def on_epoch_end(self, state: TrainingState) -> None:
        raise RuntimeError(self.message)


@pytest.mark.slow
def test_fits_that_fail(few: tuple[Any, Any], quick: None) -> None:
    grid = {"callbacks": [None, [FailsWith("no more")]]}
    classifier = TSTransformerClassifier("none", **SMALL)
    with pytest.warns(Warning, match="fits failed"):
        GridSearchCV(classifier, grid, cv=2, refit=False).fit(*few)
    assert sorted(run.info.status for run in runs(kind="fit")) == ["FAILED"] * 2 + ["FINISHED"] * 2
    failed = next(run for run in runs(kind="fit") if run.info.status == "FAILED")
    assert failed.data.tags["tsformer.error"] == "RuntimeError: no more"
    assert [run.info.status for run in runs(kind="search")] == ["FINISHED"]
    with pytest.raises(RuntimeError, match="no more"):
        GridSearchCV(classifier, grid, cv=2, refit=False, error_score="raise").fit(*few)
    assert runs(kind="search")[-1].info.status == "FAILED"
    with pytest.raises(ValueError, match="All the 2 fits failed"):
        cross_val_score(TSTransformerClassifier(max_epochs=-1), *few, cv=2)
    (run,) = [each for each in runs(kind="search") if "cross" in each.info.run_name]
    assert run.info.status == "FAILED"
    assert "max_epochs" in run.data.tags["tsformer.error"]
    assert not [run for run in runs() if run.info.status == "RUNNING"]


def test_a_search_that_is_interrupted_leaves_nothing_running(
    few: tuple[Any, Any], quick: None
) -> None:
    def scorer(estimator: Any, X: Any, y: Any) -> float:
        raise KeyboardInterrupt

    grid = {"n_features": [168, 336]}
    search = GridSearchCV(RandomConvolutionClassifier(**TINY), grid, cv=2, scoring=scorer)
    with pytest.raises(KeyboardInterrupt):
        search.fit(*few)
    assert [run.info.status for run in runs()] == ["KILLED", "KILLED"]
    assert mlflow.active_run() is None


def test_a_dead_server_costs_one_warning(
    few: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    tsformer.autolog()
    search = GridSearchCV(TSTransformerClassifier(**SMALL), {"encoding": ["none", "tape"]}, cv=2)
    with pytest.warns(UserWarning, match=r"tracking of this search stopped.*127\.0\.0\.1") as got:
        search.fit(*few)
    assert len(got) == 1
    tsformer.autolog(silent=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        search.fit(*few)


@pytest.mark.slow
@pytest.mark.parametrize("ours_first", [True, False])
def test_beside_the_autologging_of_scikit_learn_each_fit_has_one_run(
    few: tuple[Any, Any], quick: None, ours_first: bool
) -> None:
    if not ours_first:
        tsformer.autolog(disable=True)
    mlflow.sklearn.autolog(log_models=False, silent=True)
    if not ours_first:
        tsformer.autolog(log_models=False, pictures=False)
    try:
        pipeline = make_pipeline(TSTransformerClassifier(**SMALL))
        grid = {"tstransformerclassifier__encoding": ["none", "tape"]}
        GridSearchCV(pipeline, grid, cv=2).fit(*few)
    finally:
        mlflow.sklearn.autolog(disable=True)
    (parent,) = [run for run in runs() if parent_of(run) == ""]
    assert parent.data.tags["tsformer.kind"] == "search"
    assert "best_cv_score" in parent.data.metrics, "what MLflow's own autologging writes"
    assert len(runs(kind="fit")) == 4
    assert len(runs(kind="refit")) == 1
    assert {run.info.status for run in runs()} == {"FINISHED"}


@pytest.mark.processes
def test_fits_in_other_processes(italy: tuple[Any, Any], quick: None) -> None:
    grid = {"tstransformerclassifier__encoding": ["none", "tape"]}
    pipeline = make_pipeline(TSTransformerClassifier(**SMALL))
    search = GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(*italy)
    (parent,) = runs(kind="search")
    fits = runs(kind="fit")
    assert len(fits) == 4
    for run in fits:
        assert parent_of(run) == parent.info.run_id
        index = ["none", "tape"].index(run.data.params["encoding"])
        fold = int(run.data.params["fold"])
        score = search.cv_results_[f"split{fold}_test_score"][index]
        assert run.data.metrics["test/accuracy"] == score
        assert "train/loss" in run.data.metrics
    assert len(runs(kind="encoding")) == 2
    # The same workers, after tracking has ended.
    tsformer.autolog(disable=True)
    before = len(runs())
    GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(*italy)
    assert len(runs()) == before


SCRIPT = """
from sklearn.model_selection import GridSearchCV
import tsformer

if __name__ == "__main__":
    tsformer.autolog(log_models=False, pictures=False)
    X, y = tsformer.load_dataset("ItalyPowerDemand", "train")
    classifier = tsformer.TSTransformerClassifier(max_epochs=100_000)
    grid = {"encoding": ["none", "tape", "lspe"]}
    GridSearchCV(classifier, grid, cv=2, n_jobs=2).fit(X, y)
"""


def wait_until(done: Any, seconds: float = 200) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.5)


@pytest.mark.processes
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_search_that_is_killed_leaves_nothing_running(
    how: signal.Signals, uri: str, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    prepare_store(uri)  # or the script and the polls below would make its tables at once
    process = subprocess.Popen(
        [sys.executable, str(script)], cwd=tmp_path, start_new_session=True,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        exists = mlflow.get_experiment_by_name
        name = os.environ["MLFLOW_EXPERIMENT_NAME"]
        wait_until(lambda: exists(name) and len(runs(kind="fit")) == 2)
        if how == signal.SIGINT:
            os.killpg(process.pid, how)  # as Ctrl-C in a terminal
        else:
            process.send_signal(how)
        process.wait(60)
        wait_until(lambda: not [run for run in runs() if run.info.status == "RUNNING"])
    finally:
        with contextlib.suppress(ProcessLookupError):  # workers outlive what has started them
            os.killpg(process.pid, signal.SIGKILL)
    assert {run.info.status for run in runs()} == {"KILLED"}
    assert len(runs(kind="search")) == 1
    store = RunStore(uri, mlflow.get_experiment_by_name(name).experiment_id)
    assert store.runs("RUNNING") == []
