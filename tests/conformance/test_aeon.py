"""aeon's own checks of a classifier, and its tools around ours."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
)

pytest.importorskip("aeon", reason='needs the extra "aeon"')
from aeon.classification.compose import ClassifierEnsemble, ClassifierPipeline
from aeon.datasets import load_basic_motions, load_italy_power_demand, load_japanese_vowels
from aeon.testing.estimator_checking import parametrize_with_checks
from aeon.transformations.collection import Normalizer
from aeon.transformations.collection.unequal_length import Padder

from tsformer.estimators.frameworks import (
    AeonRandomConvolutionClassifier,
    AeonTSEnsembleClassifier,
    AeonTSTransformerClassifier,
)

SMALL = {"d_model": 16, "n_heads": 2, "n_layers": 1, "batch_size": 8, "random_state": 0}
SMALL["max_epochs"] = 15


@pytest.fixture
def make():
    """A small classifier that learns, seeded, with other parameters as asked."""

    def make_classifier(**parameters) -> AeonTSTransformerClassifier:
        return AeonTSTransformerClassifier(**SMALL | parameters)

    return make_classifier


@pytest.fixture(scope="module")
def motions() -> tuple[np.ndarray, np.ndarray]:
    """40 series of 100 steps and 6 channels in four classes."""
    return load_basic_motions(split="train")


@pytest.fixture(scope="module")
def italy() -> tuple[np.ndarray, np.ndarray]:
    """67 series of 24 steps and one channel in two classes."""
    return load_italy_power_demand(split="train")


@pytest.fixture(scope="module")
def vowels() -> tuple[list[np.ndarray], np.ndarray]:
    """270 series of 7 to 29 steps and 12 channels in nine classes."""
    return load_japanese_vowels(split="train")


def own(X, y, **parameters) -> TSTransformerClassifier:
    return TSTransformerClassifier(**SMALL | parameters).fit(X, y)


@pytest.mark.slow
@parametrize_with_checks([AeonTSTransformerClassifier])
def test_aeons_checks(check):
    check()


@pytest.mark.exhaustive
@parametrize_with_checks([AeonRandomConvolutionClassifier, AeonTSEnsembleClassifier])
def test_aeons_checks_of_others(check):
    check()


def test_sktime_is_not_loaded(tmp_path):
    code = (
        "import sys; from tsformer.estimators.frameworks import AeonTSTransformerClassifier\n"
        "print('sktime' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


@pytest.mark.parametrize("members", [1, 2])
def test_it_is_the_classifier_in_another_coat(members, make, italy):
    X, y = italy
    options = {"n_estimators": members}
    native, expected = make(**options).fit(X, y), own(X, y, **options)
    assert inspect.signature(type(native)) == inspect.signature(type(expected))
    assert native.get_params() == expected.get_params()
    np.testing.assert_array_equal(native.predict_proba(X), expected.predict_proba(X))
    np.testing.assert_array_equal(native.predict(X), expected.predict(X))


def test_random_convolutions_predict_what_the_classifier_predicts(vowels):
    X, y = vowels[0][::3], vowels[1][::3]
    small = {"n_features": 168, "n_groups": 2, "class_weight": "balanced", "random_state": 0}
    own = RandomConvolutionClassifier(**small).fit(X, y)
    native = AeonRandomConvolutionClassifier(**small).fit(X, y)
    assert inspect.signature(type(native)) == inspect.signature(type(own))
    np.testing.assert_array_equal(native.predict_proba(X), own.predict_proba(X))
    again = pickle.loads(pickle.dumps(native))
    np.testing.assert_array_equal(again.predict(X), own.predict(X))


def test_an_ensemble_predicts_what_the_classifier_predicts(vowels):
    X, y = vowels[0][::3], vowels[1][::3]
    small = AeonTSEnsembleClassifier.get_test_params()[1] | {
        "class_weight": "balanced",
        "random_state": 0,
    }
    own = TSEnsembleClassifier(**small).fit(X, y)
    native = AeonTSEnsembleClassifier(**small).fit(X, y)
    assert inspect.signature(type(native)) == inspect.signature(type(own))
    np.testing.assert_array_equal(native.predict_proba(X), own.predict_proba(X))
    again = pickle.loads(pickle.dumps(native))
    np.testing.assert_array_equal(again.predict(X), own.predict(X))


def test_warm_start_is_refused_and_not_ignored(make, italy):
    with pytest.raises(ValueError, match="use TSTransformerClassifier instead"):
        make(warm_start=True).fit(*italy)


def test_times_are_refused_for_there_are_none(make, italy):
    with pytest.raises(ValueError, match="timestamps='index'"):
        make(timestamps="index").fit(*italy)


@pytest.mark.slow
def test_unequal_length(make, vowels):
    X, y = vowels[0][::3], vowels[1][::3]
    native = make().fit(X, y)
    np.testing.assert_array_equal(native.predict_proba(X), own(X, y).predict_proba(X))
    rest = [x for i, x in enumerate(vowels[0]) if i % 3]
    assert native.score(rest, np.delete(vowels[1], np.s_[::3])) > 0.5  # of nine classes


@pytest.mark.slow
def test_missing_values(make, motions):
    X, y = motions[0].copy(), motions[1]
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    native = make().fit(X[::2], y[::2])
    expected = own(X[::2], y[::2]).predict_proba(X)
    np.testing.assert_array_equal(native.predict_proba(X), expected)
    assert native.score(X[1::2], y[1::2]) > 0.5  # of four classes


@pytest.mark.slow
def test_pipelines_and_ensembles(make, motions, vowels):
    X, y = motions[0][::2], motions[1][::2]
    X_test, y_test = motions[0][1::2], motions[1][1::2]
    normalised = ClassifierPipeline(Normalizer(), make())
    voting = ClassifierEnsemble([("a", make()), ("b", make(encoding="tape+erpe"))])
    for classifier in (normalised, voting):
        assert classifier.fit(X, y).score(X_test, y_test) > 0.5
    padded = ClassifierPipeline(Padder(padded_length=29), make())
    X, y = vowels[0][::3], vowels[1][::3]
    assert padded.fit(X, y).score(X, y) > 0.5


def test_a_fitted_source_stays_fitted_in_every_clone(motions, make):
    X, y = motions
    small = {"max_epochs": 2, "d_model": 8}
    source = TSTransformerEncoder(**SMALL | small).fit(X)
    clf = make(**small, init_from=source, freeze="backbone")
    expected = source.transform(X)
    pipeline = ClassifierPipeline(Padder(), clf)
    for each in (clf, clone(clf), clf.clone(random_state=1)):
        np.testing.assert_array_equal(each.fit(X, y).classifier_.transform(X), expected)
    fitted = clone(pipeline).fit(X, y).steps_[-1][1].classifier_
    np.testing.assert_array_equal(fitted.transform(X), expected)
