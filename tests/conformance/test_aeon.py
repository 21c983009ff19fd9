"""aeon's own checks of a classifier, and its clones of ours."""

import numpy as np
import pytest
from sklearn.base import clone

from tsformer import TSTransformerEncoder

pytest.importorskip("aeon", reason='needs the extra "aeon"')
from aeon.classification.compose import ClassifierPipeline
from aeon.testing.estimator_checking import parametrize_with_checks
from aeon.transformations.collection.unequal_length import Padder

from tsformer.estimators.frameworks import (
    AeonRandomConvolutionClassifier,
    AeonTSEnsembleClassifier,
    AeonTSTransformerClassifier,
)

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2, "random_state": 0}


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


def test_a_fitted_source_stays_fitted_in_every_clone(panel):
    X, y = panel
    source = TSTransformerEncoder(**SMALL).fit(X)
    clf = AeonTSTransformerClassifier(**SMALL, init_from=source, freeze="backbone")
    expected = source.transform(X)
    pipeline = ClassifierPipeline(Padder(), clf)
    for each in (clf, clone(clf), clf.clone(random_state=1)):
        np.testing.assert_array_equal(each.fit(X, y).classifier_.transform(X), expected)
    fitted = clone(pipeline).fit(X, y).steps_[-1][1].classifier_
    np.testing.assert_array_equal(fitted.transform(X), expected)
