"""aeon's own checks of a classifier, and its tools around ours."""

import numpy as np
import pytest
from sklearn.base import clone

from tsformer import TSTransformerEncoder

pytest.importorskip("aeon", reason='needs the extra "aeon"')
from aeon.classification.compose import ClassifierEnsemble, ClassifierPipeline
from aeon.datasets import load_basic_motions, load_japanese_vowels
from aeon.testing.estimator_checking import parametrize_with_checks
from aeon.transformations.collection import Normalizer
from aeon.transformations.collection.unequal_length import Padder

from tsformer.estimators.frameworks import (
    AeonRandomConvolutionClassifier,
    AeonTSEnsembleClassifier,
    AeonTSTransformerClassifier,
)

SMALL = {"d_model": 16, "n_heads": 2, "n_layers": 1, "batch_size": 8, "random_state": 0}
SMALL["max_epochs"] = 10


def make(**parameters) -> AeonTSTransformerClassifier:
    return AeonTSTransformerClassifier(**SMALL | parameters)


@pytest.fixture(scope="module")
def motions() -> tuple[np.ndarray, np.ndarray]:
    """40 series of 100 steps and 6 channels in four classes."""
    return load_basic_motions(split="train")


@pytest.fixture(scope="module")
def vowels() -> tuple[list[np.ndarray], np.ndarray]:
    """270 series of 7 to 29 steps and 12 channels in nine classes."""
    return load_japanese_vowels(split="train")


@pytest.mark.slow
@parametrize_with_checks([AeonTSTransformerClassifier], use_first_parameter_set=True)
def test_aeons_checks(check):
    check()


@pytest.mark.exhaustive
@parametrize_with_checks(
    [AeonTSTransformerClassifier, AeonRandomConvolutionClassifier, AeonTSEnsembleClassifier]
)
def test_aeons_checks_of_all_configurations(check):
    check()


@pytest.mark.slow
def test_pipelines_and_ensembles(motions, vowels):
    X, y = motions[0][::2], motions[1][::2]
    X_test, y_test = motions[0][1::2], motions[1][1::2]
    normalised = ClassifierPipeline(Normalizer(), make())
    voting = ClassifierEnsemble([("a", make()), ("b", make(encoding="tape+erpe"))])
    for classifier in (normalised, voting):
        assert classifier.fit(X, y).score(X_test, y_test) > 0.5
    padded = ClassifierPipeline(Padder(padded_length=29), make(max_epochs=1))
    X, y = vowels[0][::10], vowels[1][::10]
    assert padded.fit(X, y).predict(X).shape == y.shape


def test_a_fitted_source_stays_fitted_in_every_clone(motions):
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
