"""TSTransformerRegressor: a number from a series."""

import numpy as np
import pandas as pd
import pytest
from small_estimators import X, regressor

#: In a unit of its own.
Y = 5000 + 100 * X[:, 0].max(axis=1)


@pytest.mark.slow
def test_learns_a_number(italy):
    """From the power used until six in the evening, the most that is used after that."""
    X, y = italy[0][..., :18], 5000 + 100 * italy[0][:, 0, 18:].max(axis=1)
    reg = regressor(d_model=16, max_epochs=30, learning_rate=1e-2).fit(X[::2], y[::2])
    assert reg.score(X[1::2], y[1::2]) > 0.6


def test_weights_shape_the_mean_and_deviation_of_the_targets():
    weights = np.r_[0.0, 0.0, np.arange(1.0, 15.0)]
    targets = np.where(weights, Y, 1e6)
    reg = regressor(max_epochs=1).fit(X, targets, sample_weight=weights)
    mean = np.average(Y, weights=weights)
    assert reg.target_mean_ == pytest.approx(mean)
    assert reg.target_std_ == pytest.approx(np.sqrt(np.average((Y - mean) ** 2, weights=weights)))
    both = regressor(max_epochs=1).fit(X, np.c_[targets, X[:, 0, 0]], sample_weight=weights)
    assert both.target_mean_ == pytest.approx([mean, np.average(X[:, 0, 0], weights=weights)])


def test_constant_targets_and_one_series():
    reg = regressor().fit(X, np.full(16, 7.5))
    np.testing.assert_allclose(reg.predict(X), 7.5)
    assert np.isfinite(reg.fit(X[:1], [3.0]).predict(X)).all()
    constant = regressor(max_epochs=1).fit(X, Y, X_val=X[:3], y_val=np.full(3, 5000))
    assert constant.history_[-1]["val_score"] == 0, "as scikit-learn has it"


def test_wrong_targets():
    dates = pd.date_range("2024", periods=16)
    for y in (["a"] * 16, [], dates, [np.inf] * 16, [1e308, -1e308] * 8):
        with pytest.raises(ValueError):
            regressor().fit(X, y)
    with pytest.raises(ValueError):
        regressor().fit(X, Y, X_val=X, y_val=np.full(16, 1e300))


@pytest.mark.parametrize("power", [-600, 40, 600])
def test_the_unit_of_the_targets_is_that_of_the_predictions(power):
    for targets in (Y, np.full(16, 7.5)):
        plain, scaled = (
            regressor(max_epochs=1).fit(X, factor * targets).predict(X)
            for factor in (1.0, 2.0**power)
        )
        np.testing.assert_array_equal(scaled, plain * 2.0**power)
