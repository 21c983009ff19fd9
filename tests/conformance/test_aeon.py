"""aeon's own checks of a classifier."""

import pytest

pytest.importorskip("aeon", reason='needs the extra "aeon"')
from aeon.testing.estimator_checking import parametrize_with_checks

from tsformer.estimators.frameworks import (
    AeonRandomConvolutionClassifier,
    AeonTSEnsembleClassifier,
    AeonTSTransformerClassifier,
)

EVERY = [AeonRandomConvolutionClassifier, AeonTSEnsembleClassifier, AeonTSTransformerClassifier]


@pytest.mark.slow
@parametrize_with_checks(EVERY[2:], use_first_parameter_set=True)
def test_aeons_checks(check):
    check()


@pytest.mark.exhaustive
@parametrize_with_checks(EVERY)
def test_aeons_checks_of_all_configurations(check):
    check()
