"""scikit-learn's own checks of what an estimator must do, over encodings and settings."""

from __future__ import annotations

from sklearn.utils.estimator_checks import parametrize_with_checks

from tsformer import TSTransformerClassifier, TSTransformerRegressor

SMALL = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16, "learning_rate": 5e-3}
ESTIMATORS = [
    # One check compares a series alone with the same among others to 1e-7, which is what float32
    # rounds to: with 15 epochs in place of 18, one probability of 60 misses it by a quarter, and so
    # does a regression after 25 in place of 28.
    TSTransformerClassifier(**SMALL, max_epochs=18),
    TSTransformerClassifier(
        "tape+erpe", **SMALL, stem="patch", pooling="attention", norm_first=False, max_epochs=25
    ),
    TSTransformerClassifier(
        "rope", **SMALL, stem="linear", pooling="max", early_stopping=True, max_epochs=25
    ),
    TSTransformerClassifier(**SMALL, n_estimators=2, stem="patch", max_epochs=25),
    TSTransformerRegressor(**SMALL, max_epochs=28),
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
