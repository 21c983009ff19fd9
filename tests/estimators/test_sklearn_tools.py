"""The tools of scikit-learn over series of several channels, and of unequal length."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.svm import SVC

FOLDS = StratifiedKFold(2, shuffle=True, random_state=0)


@pytest.mark.slow
def test_cross_validation_takes_three_dimensions(make, motions):
    X, y = motions
    clf = make(max_epochs=15, learning_rate=5e-3)
    assert cross_val_score(clf, X, y, cv=FOLDS).mean() > 0.5  # chance is 0.25
    proba = cross_val_predict(clf, X, y, cv=FOLDS, method="predict_proba")
    assert proba.shape == (20, 4)


def test_search_over_encodings_and_their_options(make, motions):
    X, y = motions
    grid = [
        {"encoding": ["tape+erpe", "none"]},
        {"encoding": ["lspe"], "encoding_params": [None, {"d_hidden": 8, "apply_to": "sum"}]},
    ]
    search = GridSearchCV(make(), grid, cv=FOLDS, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    assert search.best_params_ in search.cv_results_["params"]
    assert search.predict(X).shape == y.shape


def test_pipeline_and_search_through_it(make, motions):
    X, y = motions
    pipeline = make_pipeline(FunctionTransformer(lambda X: np.diff(X, axis=2)), make())
    assert pipeline.fit(X, y).predict_proba(X).shape == (20, 4)
    grid = {"tstransformerclassifier__encoding": ["rope", "fixed"]}
    search = GridSearchCV(pipeline, grid, cv=FOLDS, error_score="raise").fit(X, y)
    assert search.best_estimator_[-1].n_channels_ == 6


def test_calibration(make, motions):
    X, y = motions
    calibrated = CalibratedClassifierCV(make(), cv=FOLDS).fit(X, y)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(1), 1)


def test_voting_and_stacking(make, motions):
    X, y = motions
    members = [("lspe", make()), ("rope", make("rope"))]
    voted = VotingClassifier(members, voting="soft").fit(X, y)
    each = [member.predict_proba(X) for member in voted.estimators_]
    np.testing.assert_allclose(voted.predict_proba(X), np.mean(each, axis=0))
    stacked = StackingClassifier(members, LogisticRegression(), cv=FOLDS).fit(X, y)
    assert stacked.predict_proba(X).shape == (20, 4)


@pytest.mark.slow
def test_several_processes_give_what_one_gives(make, motions):
    X, y = motions
    alone = cross_val_predict(make(), X, y, cv=FOLDS, method="predict_proba")
    spread = cross_val_predict(make(), X, y, cv=FOLDS, method="predict_proba", n_jobs=2)
    np.testing.assert_allclose(spread, alone, atol=1e-6)


@pytest.mark.slow
def test_metadata_are_routed(make, italy):
    X, y = italy
    weight = np.where(y == "1", 1e3, 1e-3)
    times = np.tile(np.arange(24.0), (len(X), 1))
    with sklearn.config_context(enable_metadata_routing=True):
        clf = make(head_norm=None, max_epochs=8)
        clf.set_fit_request(sample_weight=True, times=True)
        clf.set_predict_request(times=True).set_score_request(sample_weight=False, times=True)
        results = cross_validate(
            clf,
            X,
            y,
            cv=FOLDS,
            params={"sample_weight": weight, "times": times},
            return_estimator=True,
            error_score="raise",
        )
        assert all((e.predict(X, times) == "1").all() for e in results["estimator"])
        pipeline = make_pipeline(FunctionTransformer(), clf)
        pipeline.fit(X, y, sample_weight=weight, times=times)
        assert (pipeline.predict(X, times=times) == "1").all()


def test_embedding_feeds_another_estimator(make, motions):
    X, y = motions
    embedding = make().set_output(transform="pandas").fit_transform(X, y)
    assert embedding.shape == (20, 16)
    assert embedding.columns[0] == "tstransformerclassifier0"
    chained = make_pipeline(make(max_epochs=15), SVC()).fit(X, y)
    assert chained.score(X, y) > 0.5
