"""What a search or cross-validation of scikit-learn leaves in MLflow after `tsformer.autolog`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer

import tsformer
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier
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


def runs(**tags: str) -> list[Any]:
    """The runs of this test, the oldest first, with these tags of ours."""
    wanted = " and ".join(f"tags.`tsformer.{tag}` = '{value}'" for tag, value in tags.items())
    found: list[Any] = mlflow.search_runs(
        experiment_names=[os.environ["MLFLOW_EXPERIMENT_NAME"]],
        filter_string=wanted,
        output_format="list",
    )
    return found[::-1]


def parent_of(run: Any) -> str:
    parent: str = run.data.tags.get("mlflow.parentRunId", "")
    return parent


def test_a_grid_search(few: tuple[Any, Any]) -> None:
    X, y = few
    grid = {"encoding": ["none", "tape"], "d_model": [8, 16]}
    plain = GridSearchCV(TSTransformerClassifier(**SMALL), grid, cv=2).fit(X, y)
    tsformer.autolog(pictures=True)
    search = GridSearchCV(TSTransformerClassifier(**SMALL), grid, cv=2).fit(X, y)
    results = search.cv_results_
    assert np.array_equal(results["mean_test_score"], plain.cv_results_["mean_test_score"])

    (parent,) = runs(kind="search")
    assert parent.info.status == "FINISHED"
    assert parent.info.run_name == "GridSearchCV over encoding, d_model"
    assert parent.data.metrics["best_score"] == search.best_score_
    assert parent.data.params["best.encoding"] == search.best_params_["encoding"]
    assert parent_of(parent) == ""
    assert "cv_results.csv" in files_of(parent)

    candidates = {run.info.run_name: run for run in runs(kind="encoding")}
    assert len(candidates) == 4
    for index, params in enumerate(results["params"]):
        run = candidates[f"{params['encoding']}, d_model={params['d_model']}"]
        scores = [results[f"split{fold}_test_score"][index] for fold in range(2)]
        assert run.data.metrics["test/accuracy"] == pytest.approx(np.mean(scores))
        assert run.data.metrics["test/accuracy_spread"] == pytest.approx(np.std(scores, ddof=1))
        assert 1 <= run.data.metrics["test/mean_rank"] <= 4
        folds = mlflow.MlflowClient().get_metric_history(run.info.run_id, "fold/accuracy")
        assert [(point.step, point.value) for point in folds] == [*enumerate(scores, start=1)]
        assert run.data.params["d_model"] == str(params["d_model"])
        assert parent_of(run) == parent.info.run_id

    (refit,) = runs(kind="refit")
    assert parent_of(refit) == parent.info.run_id
    assert refit.info.run_name == f"refit of {search.best_params_['encoding']}"
    assert "train/loss" in refit.data.metrics
    assert {"training.png", "encoding.png"} <= files_of(refit)
    folder = mlflow.artifacts.download_artifacts(run_id=refit.info.run_id, artifact_path="model")
    assert np.array_equal(load_registered(folder).predict(X), search.predict(X))

    store = find_experiment(None, os.environ["MLFLOW_EXPERIMENT_NAME"])
    assert "candidates side by side" in pages_of(store, "http://127.0.0.1:5000")
    assert mlflow.last_active_run().info.run_id == parent.info.run_id
    assert len(runs()) == 1 + 4 + 1, "fits of folds have no runs"


def files_of(run: Any) -> set[str]:
    return {each.path for each in mlflow.MlflowClient().list_artifacts(run.info.run_id)}


def test_a_search_that_is_fitted_again_has_one_refit_a_fit(
    few: tuple[Any, Any], quick: None
) -> None:
    grid = {"n_features": [168, 336]}
    search = GridSearchCV(RandomConvolutionClassifier(**TINY), grid, cv=2)
    search.fit(*few)
    search.fit(*few)
    assert len(runs(kind="search")) == len(runs(kind="refit")) == 2
    assert len(runs(kind="fit")) == 0


@pytest.mark.parametrize("name", ["cross_val_score", "cross_validate"])
def test_a_cross_validation(name: str, few: tuple[Any, Any], quick: None) -> None:
    """Both names were imported before `autolog` was called."""
    scores = globals()[name](RandomConvolutionClassifier(**TINY), *few, cv=3)
    scores = scores["test_score"] if isinstance(scores, dict) else scores
    (parent,) = runs(kind="search")
    assert parent.info.run_name == "cross-validation of RandomConvolutionClassifier"
    (candidate,) = runs(kind="encoding")
    for run in (parent, candidate):
        assert run.data.metrics["test/accuracy"] == pytest.approx(scores.mean())
        assert run.data.metrics["test/accuracy_spread"] == pytest.approx(scores.std(ddof=1))
        assert run.data.metrics["fits/finished"] == 3
    assert len(runs()) == 2


def test_scores_of_other_names(few: tuple[Any, Any], quick: None) -> None:
    classifier = RandomConvolutionClassifier(**TINY)
    scoring = ["f1_macro", "neg_log_loss"]
    found = cross_validate(classifier, *few, cv=2, scoring=scoring, return_train_score=True)
    (run,) = runs(kind="encoding")
    for name in scoring:
        for part in ("train", "test"):
            mean = found[f"{part}_{name}"].mean()
            assert run.data.metrics[f"{part}/{name}"] == pytest.approx(mean)
    cross_val_score(classifier, *few, cv=2, scoring="neg_log_loss")
    assert "test/neg_log_loss" in runs(kind="encoding")[-1].data.metrics
    GridSearchCV(classifier, {"n_groups": [0]}, cv=2, scoring=scoring, refit=False).fit(*few)
    assert {f"test/{name}" for name in scoring} <= set(runs(kind="encoding")[-1].data.metrics)


def test_pipelines_in_pipelines(few: tuple[Any, Any], quick: None) -> None:
    def same(values: Any) -> Any:
        return values

    inner = make_pipeline(FunctionTransformer(same), TSTransformerClassifier(**SMALL))
    pipeline = Pipeline([("scale", FunctionTransformer(same)), ("pipeline", inner)])
    grid = {
        "pipeline__tstransformerclassifier__encoding": ["none", "lspe"],
        "scale__validate": [False],
    }
    GridSearchCV(pipeline, grid, cv=2, refit=False).fit(*few)
    names = {run.info.run_name for run in runs(kind="encoding")}
    assert names == {"none, validate=False", "lspe, validate=False"}


def test_estimators_that_are_searched(few: tuple[Any, Any], quick: None) -> None:
    steps = [TSTransformerClassifier("tape", **SMALL), TSTransformerClassifier("none", **SMALL)]
    pipeline = Pipeline([("classifier", RidgeClassifier())])
    GridSearchCV(pipeline, {"classifier": steps}, cv=2, refit=False).fit(*few)
    assert sorted(run.data.params["encoding"] for run in runs(kind="encoding")) == ["none", "tape"]


def test_candidates_of_one_name_are_two(few: tuple[Any, Any], quick: None) -> None:
    grid = [{"n_features": [168]}, {"n_features": [168]}]
    GridSearchCV(RandomConvolutionClassifier(**TINY), grid, cv=2, refit=False).fit(*few)
    assert [run.info.run_name for run in runs(kind="encoding")] == ["n_features=168"] * 2


def test_a_halving_search_has_the_last_round_of_each_candidate(
    italy: tuple[Any, Any], quick: None
) -> None:
    grid = {"n_features": [168, 336, 504]}
    search = HalvingGridSearchCV(
        RandomConvolutionClassifier(**TINY), grid, cv=2, factor=3, min_resources=20, refit=False
    ).fit(*italy)
    assert search.n_iterations_ == 2
    assert len(runs(kind="search")) == 1
    best = search.best_params_["n_features"]
    (run,) = [each for each in runs(kind="encoding") if each.data.params["n_features"] == str(best)]
    assert run.data.metrics["test/accuracy"] == pytest.approx(search.best_score_)
    assert len(runs(kind="encoding")) == 3


def test_a_search_in_a_cross_validation_is_a_part_of_it(few: tuple[Any, Any], quick: None) -> None:
    search = GridSearchCV(RandomConvolutionClassifier(**TINY), {"n_features": [168, 336]}, cv=2)
    cross_val_score(search, *few, cv=2)
    assert {run.data.tags["tsformer.kind"] for run in runs()} == {"search", "encoding"}
    assert len(runs()) == 2


def test_in_an_active_run(few: tuple[Any, Any], quick: None) -> None:
    with mlflow.start_run() as mine:
        for _ in range(2):
            cross_val_score(RandomConvolutionClassifier(**TINY), *few, cv=2)
    parents = runs(kind="search")
    assert [parent_of(run) for run in parents] == ["", mine.info.run_id]
    assert parents[0].info.run_id == mine.info.run_id
    tsformer.autolog(exclusive=True)
    before = len(runs())
    with mlflow.start_run():
        cross_val_score(RandomConvolutionClassifier(**TINY), *few, cv=2)
    assert len(runs()) == before + 1


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


def test_fits_that_fail(few: tuple[Any, Any], quick: None) -> None:
    grid = {"callbacks": [None, [FailsWith("no more")]]}
    classifier = TSTransformerClassifier("none", **SMALL)
    with pytest.warns(Warning, match="fits failed"):
        GridSearchCV(classifier, grid, cv=2, refit=False).fit(*few)
    assert sorted(run.info.status for run in runs(kind="encoding")) == ["FAILED", "FINISHED"]
    assert [run.info.status for run in runs(kind="search")] == ["FINISHED"]
    with pytest.raises(RuntimeError, match="no more"):
        GridSearchCV(classifier, grid, cv=2, refit=False, error_score="raise").fit(*few)
    assert runs(kind="search")[-1].info.status == "FAILED"
    for fit in (
        lambda: cross_val_score(TSTransformerClassifier(max_epochs=-1), *few, cv=2),
        lambda: GridSearchCV(TSTransformerClassifier(), {"max_epochs": [-1]}, cv=2).fit(*few),
    ):
        with pytest.raises(ValueError, match="All the 2 fits failed"):
            fit()
        run = runs(kind="search")[-1]
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
    assert [run.info.status for run in runs()] == ["KILLED"]
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
    assert len(runs(kind="refit")) == 1
    assert {run.info.status for run in runs()} == {"FINISHED"}


@pytest.mark.processes
def test_fits_in_other_processes(italy: tuple[Any, Any], quick: None) -> None:
    grid = {"tstransformerclassifier__encoding": ["none", "tape"]}
    pipeline = make_pipeline(TSTransformerClassifier(**SMALL))
    GridSearchCV(pipeline, grid, cv=2, n_jobs=2).fit(*italy)
    kinds = sorted(run.data.tags["tsformer.kind"] for run in runs())
    assert kinds == ["encoding", "encoding", "refit", "search"]
