"""The tools of scikit-learn over series of several channels, and of unequal length."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

FOLDS = StratifiedKFold(2, shuffle=True, random_state=0)


def test_search_over_encodings_and_their_options(make, motions):
    X, y = motions
    pipeline = make_pipeline(FunctionTransformer(lambda X: np.diff(X, axis=2)), make(max_epochs=1))
    assert pipeline.fit(X, y).predict_proba(X).shape == (20, 4)
    own, its = "tstransformerclassifier__encoding", "tstransformerclassifier__encoding_params"
    grid = [{own: ["tape+erpe"]}, {own: ["lspe"], its: [None, {"d_hidden": 8}]}]
    search = GridSearchCV(pipeline, grid, cv=FOLDS, error_score="raise").fit(X, y)
    assert len(search.cv_results_["params"]) == 3
    assert search.best_params_ in search.cv_results_["params"]
    assert search.predict(X).shape == y.shape


def test_calibration_voting_and_stacking(make, motions):
    X, y = motions
    members = [("lspe", make(max_epochs=1)), ("rope", make("rope", max_epochs=1))]
    for tool in (
        CalibratedClassifierCV(make(max_epochs=1), cv=FOLDS),
        VotingClassifier(members, voting="soft"),
        StackingClassifier(members, LogisticRegression(), cv=FOLDS),
    ):
        np.testing.assert_allclose(tool.fit(X, y).predict_proba(X).sum(1), 1)


@pytest.mark.slow
def test_metadata_are_routed(make, italy):
    X, y = italy
    weight = np.where(y == "1", 1e3, 1e-3)
    times = np.tile(np.arange(24.0), (len(X), 1))
    with sklearn.config_context(enable_metadata_routing=True):
        clf = make(head_norm=None, max_epochs=8)
        clf.set_fit_request(sample_weight=True, times=True)
        clf.set_predict_request(times=True).set_score_request(sample_weight=False, times=True)
        options = {"cv": FOLDS, "return_estimator": True, "error_score": "raise"}
        params = {"sample_weight": weight, "times": times}
        results = cross_validate(clf, X, y, params=params, **options)
        assert all((e.predict(X, times) == "1").all() for e in results["estimator"])
        pipeline = make_pipeline(FunctionTransformer(), clf)
        pipeline.fit(X, y, sample_weight=weight, times=times)
        assert (pipeline.predict(X, times=times) == "1").all()
