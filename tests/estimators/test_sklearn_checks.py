"""scikit-learn's own checks of what an estimator must do, over encodings and settings."""

import re
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from small_estimators import convolutions, encoder, ensemble

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerRegressor,
)

SMALL = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16, "learning_rate": 5e-3}
DEFAULT = TSTransformerClassifier(**SMALL | {"learning_rate": 2e-2}, max_epochs=8)
EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight of two is not a repetition: the repeated series are drawn into other batches"
    ),
    "check_methods_subset_invariance": (
        "it asks for 1e-7, to which float32 rounds, and a matrix product rounds one row alone "
        "otherwise than among others; test_answers_do_not_depend_on_company asks for 1e-5"
    ),
}

#: Eight epochs are enough for what these expect of predictions.
NEED_ACCURACY = ("check_classifiers_train", "check_class_weight_classifiers")
REST = [
    TSTransformerClassifier(
        "tape+erpe", **SMALL, n_estimators=2, stem="patch", pooling="attention", max_epochs=25
    ),
    TSTransformerRegressor("fixed", **SMALL, dropout=0.0, max_epochs=25),
    convolutions(random_state=None, scaling="channel"),
    ensemble(transformer={"stem": "linear", "max_epochs": 15, "learning_rate": 5e-3}),
    encoder(random_state=None),
    encoder(random_state=None, objective="contrastive"),
]


def expected(estimator: Any) -> dict[str, str]:
    """Return the checks that fail, with the reasons."""
    invariant = isinstance(estimator, RandomConvolutionClassifier | TSEnsembleClassifier)
    return {name: why for name, why in EXPECTED.items() if not (invariant and "invar" in name)}


@parametrize_with_checks([DEFAULT], expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learns_checks(estimator, check, request):
    if not any(name in request.node.name for name in NEED_ACCURACY):
        estimator = clone(estimator).set_params(max_epochs=1)
    check(estimator)


@pytest.mark.exhaustive
@parametrize_with_checks(REST, expected_failed_checks=expected)
def test_scikit_learns_checks_of_the_rest(estimator, check):
    check(estimator)


@pytest.mark.parametrize(("make", "shown"), [(convolutions, False), (encoder, True)])
def test_a_diagram_ends_in_the_prediction_of_a_final_classifier(make, shown):
    """It lists the features of an encoder, which is a transformer only."""
    X = np.random.default_rng(0).normal(size=(8, 1, 20))
    fitted = make_pipeline(make()).fit(X, [0, 1] * 4)
    assert bool(re.search(r"\d features<", fitted._repr_html_())) == shown
    assert len(fitted[-1].get_feature_names_out()) == fitted[-1].transform(X).shape[1]
