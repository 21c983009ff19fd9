"""Prediction sets: exact coverage of exchangeable series, and the same contract everywhere."""

import copy
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
import pytest
from small_estimators import MAKERS, RAGGED, TIMES, X, Y, ensemble

from tsformer import load
from tsformer.estimators.prediction_sets import Conformal

CLASSIFIERS = ("classifier", "convolutions", "ensemble")
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)


def probabilities(n: int, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n)
    return rng.dirichlet(np.ones(n_classes), size=n), np.arange(n) % n_classes


@pytest.mark.parametrize("coverage", ["0.5", "0.55", "0.57", "0.9", "0.95"])
@pytest.mark.parametrize("n", [1, 8, 9, 19, 99])
def test_sets_coverage_exact(n, coverage):
    """Each of n + 1 series in turn is new, the others are for calibration."""
    proba, targets = probabilities(n + 1)
    covered = 0
    for new in range(n + 1):
        known = np.arange(n + 1) != new
        conformal = Conformal.fit(proba[known], targets[known])
        covered += conformal.sets(proba[[new]], float(coverage))[0, targets[new]]
    assert covered == ceil((n + 1) * Fraction(coverage))


@pytest.fixture(scope="module")
def calibrated(fitted) -> dict[str, Any]:
    """Every classifier, calibrated on the series of its fit; not to be changed."""
    return {
        name: copy.deepcopy(fitted[name]).calibrate_sets(RAGGED, Y, by_class=True, times=TIMES)
        for name in CLASSIFIERS
    }


@every_classifier
def test_predict_set_of_each_classifier(name, calibrated, tmp_path):
    clf = calibrated[name]
    sets = clf.predict_set(RAGGED, TIMES, coverage=0.75)
    proba = clf.predict_proba(RAGGED, TIMES)
    np.testing.assert_array_equal(
        sets, Conformal.fit(proba, Y, by_class=True).sets(proba, coverage=0.75)
    )
    assert (sets.shape, sets.dtype) == ((16, 2), np.bool_)
    assert [sets[label == Y, label].sum() for label in (0, 1)] == [7, 7]
    wider = clf.predict_set(RAGGED, TIMES, coverage=0.85)
    assert wider.all(where=sets)
    clf.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_set(RAGGED, TIMES, coverage=0.75), sets)
    with pytest.raises(ValueError):
        loaded.fit(X, Y).predict_set(X)


def test_refused_arguments(calibrated):
    clf = calibrated["convolutions"]
    for coverage in (1, np.nan):
        with pytest.raises((ValueError, TypeError)):
            clf.predict_set(RAGGED, TIMES, coverage=coverage)
    for y in (Y + 1, None, Y[:15]):
        with pytest.raises(ValueError):
            clf.calibrate_sets(RAGGED, y, times=TIMES)


def test_predict_set_few_calibration_series():
    clf = MAKERS["convolutions"]().fit(X, Y)
    some = np.r_[np.flatnonzero(Y == 0)[:3], np.flatnonzero(Y == 1)]
    clf.calibrate_sets(X[some], Y[some], by_class=True)
    with pytest.warns(UserWarning, match="needs 4"):
        assert clf.predict_set(X, coverage=0.8)[:, 0].all()
    clf.calibrate_sets(X[:5], Y[:5])
    with pytest.warns(UserWarning, match="needs 9"):
        assert clf.predict_set(X).all()


def test_calibrate_sets_leave_one_out(calibrated, tmp_path):
    clf = MAKERS["convolutions"]().fit(X, Y).calibrate_sets()
    proba, targets = clf.model_.ridge.left_out
    np.testing.assert_array_equal(targets, Y)
    assert clf.conformal_.scores[0].tolist() == sorted(1 - proba.numpy()[np.arange(16), Y])
    clf.save(tmp_path / "model")
    for clf in (load(tmp_path / "model"), calibrated["classifier"], calibrated["ensemble"]):
        with pytest.raises(ValueError):
            clf.calibrate_sets()
    gated = ensemble(gate=0.99).fit(X, Y)
    assert gated.transformer_ is None
    assert len(gated.calibrate_sets().conformal_.scores[0]) == 16


def test_predict_set_refuses_changed_temperatures(calibrated):
    clf = copy.deepcopy(calibrated["classifier"])
    with pytest.raises(ValueError):
        clf.estimators_[0].predict_set(RAGGED, TIMES, coverage=0.75)
    both = copy.deepcopy(calibrated["ensemble"])
    for estimator, model in ((clf, clf), (both, both.transformer_)):
        model.temperatures_ = [1.1 * t for t in model.temperatures_]  # as `calibrate` does
        with pytest.raises(ValueError):
            estimator.predict_set(RAGGED, TIMES, coverage=0.75)
        estimator.calibrate_sets(RAGGED, Y, times=TIMES).predict_set(RAGGED, TIMES)
