"""Runs of searches and cross-validations of scikit-learn after `tsformer.autolog`."""

from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    cross_val_score,
    cross_validate,
)
from small_estimators import Raises, classifier, convolutions
from tracked_runs import experiment, files_of, parent_of, runs

import tsformer
from tsformer.encodings.embed.fixed import FixedEncoding
from tsformer.plots import encoding_color
from tsformer.tracking.views import find_experiment, pages_of

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')

pytestmark = pytest.mark.usefixtures("experiment")


def test_a_grid_search(few):
    X, y = few
    grid = {"encoding": ["none", "tape"], "d_model": [8, 16]}
    tsformer.autolog(pictures=True)
    search = GridSearchCV(classifier(max_epochs=1), grid, cv=2).fit(X, y)
    results = search.cv_results_

    (parent,) = runs(kind="search")
    assert parent.info.status == "FINISHED"
    assert parent.info.run_name == "GridSearchCV over encoding, d_model"
    assert parent.data.metrics["best_score"] == search.best_score_
    assert parent.data.params["best.encoding"] == search.best_params_["encoding"]
    assert "cv_results.csv" in files_of(parent)

    candidates = {run.info.run_name: run for run in runs(kind="encoding")}
    assert len(candidates) == 4
    for index, params in enumerate(results["params"]):
        run = candidates[f"{params['encoding']}, d_model={params['d_model']}"]
        for suffix, kind in {"": "mean", "_spread": "std", "_rank": "rank"}.items():
            expected = results[f"{kind}_test_score"][index]
            assert run.data.metrics[f"test/accuracy{suffix}"] == expected
        assert run.data.params["d_model"] == str(params["d_model"])

    (refit,) = runs(kind="refit")
    parents = [parent_of(run) for run in (parent, refit, *candidates.values())]
    assert parents == ["", *[parent.info.run_id] * 5]
    assert refit.info.run_name == f"refit of {search.best_params_['encoding']}"
    assert "train/loss" in refit.data.metrics
    assert {"training.png", "encoding.png"} <= files_of(refit)
    folder = mlflow.artifacts.download_artifacts(run_id=refit.info.run_id, artifact_path="model")
    assert np.array_equal(tsformer.load(f"{folder}/estimator").predict(X), search.predict(X))

    store = find_experiment(None, experiment())
    assert "Candidates side by side" in pages_of(store, "http://127.0.0.1:5000")
    assert len(runs()) == 1 + 4 + 1, "fits of folds have no runs"


def test_cross_validations_and_scores_of_other_names(few, quick):
    """Both functions were imported before `autolog` was called."""
    ours, scoring = convolutions(n_groups=0), ["f1_macro", "neg_log_loss"]
    scores = cross_val_score(ours, *few, cv=3)
    folds = cross_validate(ours, *few, cv=2, scoring=scoring, return_train_score=True)
    first, second = runs()
    assert first.info.run_name == "cross-validation of RandomConvolutionClassifier"
    assert first.data.metrics["test/accuracy"] == pytest.approx(scores.mean())
    assert first.data.metrics["test/accuracy_spread"] == pytest.approx(scores.std())
    for key in ("train_f1_macro", "test_f1_macro", "train_neg_log_loss", "test_neg_log_loss"):
        assert second.data.metrics[key.replace("_", "/", 1)] == pytest.approx(folds[key].mean())
    GridSearchCV(ours, {"n_groups": [0]}, cv=2, scoring=scoring, refit=False).fit(*few)
    assert {f"test/{name}" for name in scoring} <= set(runs(kind="encoding")[-1].data.metrics)


def test_a_halving_search_has_the_last_round_of_each_candidate(italy, quick):
    grid = {"n_features": [168, 336, 504]}
    options = {"cv": 2, "factor": 3, "min_resources": 20, "refit": False}
    search = HalvingGridSearchCV(convolutions(n_groups=0), grid, **options).fit(*italy)
    assert search.n_iterations_ == 2
    best = search.best_params_["n_features"]
    (run,) = [run for run in runs(kind="encoding") if run.data.params["n_features"] == str(best)]
    assert run.data.metrics["test/accuracy"] == pytest.approx(search.best_score_)
    assert len(runs()) == 1 + 3


def test_own_encodings_of_a_search_have_colours_of_their_own(few, quick):
    encodings = [type(name, (FixedEncoding,), {}) for name in ("own0", "own14")]
    assert len({encoding_color(kind.__name__) for kind in encodings}) == 1, "of each alone"
    search = GridSearchCV(classifier(max_epochs=1), {"encoding": encodings}, cv=2, refit=False)
    search.fit(*few)
    assert len({run.data.tags["mlflow.runColor"] for run in runs(kind="encoding")}) == 2


def test_a_search_in_a_cross_validation_is_a_part_of_it(few, quick):
    search = GridSearchCV(convolutions(n_groups=0), {"n_features": [168, 336]}, cv=2)
    cross_val_score(search, *few, cv=2)
    assert [run.data.tags["tsformer.kind"] for run in runs()] == ["search"]


def test_what_is_not_ours_is_not_tracked(few, quick):
    X, y = few
    GridSearchCV(RidgeClassifier(), {"alpha": [1.0, 2.0]}, cv=2).fit(X[:, 0], y)
    tsformer.autolog(disable=True)
    cross_val_score(convolutions(n_groups=0), X, y, cv=2)
    assert mlflow.get_experiment_by_name(experiment()) is None


def test_fits_that_fail(few, quick):
    grid = {"callbacks": [None, [Raises(RuntimeError("no more"))]]}
    estimator = classifier("none", max_epochs=1)
    with pytest.warns(FitFailedWarning):
        GridSearchCV(estimator, grid, cv=2, refit=False).fit(*few)
    assert sorted(run.info.status for run in runs(kind="encoding")) == ["FAILED", "FINISHED"]
    assert [run.info.status for run in runs(kind="search")] == ["FINISHED"]
    with pytest.raises(ValueError, match="fits"):
        GridSearchCV(classifier(), {"max_epochs": [-1]}, cv=2).fit(*few)
    run = runs(kind="search")[-1]
    assert run.info.status == "FAILED"
    assert "max_epochs" in run.data.tags["tsformer.error"]


def test_a_search_that_is_interrupted_leaves_nothing_running(few, quick):
    scorer = Mock(side_effect=KeyboardInterrupt, spec=[])
    with pytest.raises(KeyboardInterrupt):
        GridSearchCV(convolutions(), {"n_groups": [0]}, cv=2, scoring=scorer).fit(*few)
    assert [run.info.status for run in runs()] == ["KILLED"]
    assert mlflow.active_run() is None
