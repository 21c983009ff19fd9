"""Old names of the estimators' parts go on working, with a warning that says the new one."""

from __future__ import annotations

import numpy as np
import pytest

import tsformer
from tsformer import persistence


def test_scaler_is_the_preprocessor(make, italy):
    classifier = make().fit(*italy)
    with pytest.warns(FutureWarning, match=r"scaler_ was renamed to preprocessor_.* version 0\.3"):
        assert classifier.scaler_ is classifier.preprocessor_


def test_persistence_saves_and_loads(make, italy, tmp_path):
    X, y = italy
    classifier = make().fit(X, y)
    with pytest.warns(FutureWarning, match=r"save\(estimator, path\) was renamed to estimator.sav"):
        persistence.save(classifier, tmp_path)
    with pytest.warns(FutureWarning, match=r"persistence\.load was renamed to tsformer\.load"):
        loaded = persistence.load(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(X), classifier.predict_proba(X))
    assert persistence.load is tsformer.load
    with pytest.raises(AttributeError, match=r"'tsformer\.persistence' has no attribute 'dump'"):
        _ = persistence.dump
