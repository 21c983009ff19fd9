"""scikit-learn's own checks of what an estimator must do."""

from __future__ import annotations

import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks as checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from tsformer import TSTransformerClassifier

SMALL = TSTransformerClassifier(
    d_model=16,
    n_layers=1,
    n_heads=2,
    d_ff=16,
    learning_rate=5e-3,
    batch_size=16,
    max_epochs=15,
)

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight of two is not a repetition: the repeated series are drawn into other batches"
    )
}


@parametrize_with_checks([SMALL], expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        checks.check_dict_unchanged,
        checks.check_estimators_pickle,
        checks.check_fit_idempotent,
        checks.check_methods_sample_order_invariance,
        checks.check_methods_subset_invariance,
    ],
    ids=lambda check: check.__name__,
)
def test_those_that_an_encoding_could_break(check):
    check("TSTransformerClassifier", clone(SMALL).set_params(encoding="tape+erpe"))
