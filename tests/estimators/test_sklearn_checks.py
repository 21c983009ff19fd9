"""scikit-learn's own checks of what an estimator must do, over encodings and settings."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from tsformer import TSTransformerClassifier, TSTransformerRegressor

SMALL = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16, "learning_rate": 5e-3}
ESTIMATORS = [
    TSTransformerClassifier(**SMALL, max_epochs=15),
    TSTransformerClassifier(
        "tape+erpe", **SMALL, stem="patch", pooling="attention", norm_first=False, max_epochs=25
    ),
    TSTransformerClassifier(
        "rope", **SMALL, stem="linear", pooling="max", early_stopping=True, max_epochs=25
    ),
    TSTransformerRegressor(**SMALL, max_epochs=25),
    TSTransformerRegressor("fixed", **SMALL, stem="linear", dropout=0.0, max_epochs=25),
]

EXPECTED = {
    "check_sample_weight_equivalence_on_dense_data": (
        "a weight of two is not a repetition: the repeated series are drawn into other batches"
    )
}


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
