"""TSTransformerRegressor: a number from a series."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer import TSTransformerRegressor

SMALL = {"d_model": 16, "n_heads": 2, "n_layers": 1, "random_state": 0}


@pytest.fixture
def evening(italy) -> tuple[np.ndarray, np.ndarray]:
    """Days until six, and the most power used after that, in a unit of its own."""
    X, _ = italy
    return X[..., :18], 5000 + 100 * X[:, 0, 18:].max(axis=1)


@pytest.mark.slow
def test_learns_a_number(evening):
    X, y = evening
    reg = TSTransformerRegressor(**SMALL, max_epochs=30, learning_rate=1e-2).fit(X[::2], y[::2])
    predicted = reg.predict(X[1::2])
    assert reg.score(X[1::2], y[1::2]) > 0.6
    residual = np.square(y[1::2] - predicted).sum() / np.square(y[1::2] - y[1::2].mean()).sum()
    assert reg.score(X[1::2], y[1::2]) == pytest.approx(1 - residual)
    assert reg.target_mean_ == pytest.approx(y[::2].mean())


def test_validation_data_stop_and_are_scored(evening):
    X, y = evening
    # Without batch norms, whose averages are settled after the last epoch was judged.
    reg = TSTransformerRegressor(**SMALL, max_epochs=4, early_stopping=False, stem="linear")
    reg.fit(X, y, X_val=X[::2], y_val=y[::2])
    assert reg.history_[-1]["val_score"] == pytest.approx(reg.score(X[::2], y[::2]), abs=1e-4)
    held = TSTransformerRegressor(**SMALL, max_epochs=4, early_stopping=True).fit(X, y)
    assert held.history_.best_epoch is not None


def test_constant_targets_and_one_series():
    X = np.random.default_rng(0).normal(size=(6, 10))
    reg = TSTransformerRegressor(**SMALL, max_epochs=2).fit(X, np.full(6, 7.5))
    np.testing.assert_allclose(reg.predict(X), 7.5)
    assert np.isfinite(reg.fit(X[:1], [3.0]).predict(X)).all()


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["a"] * 67, "y must hold numbers.*For class labels use TSTransformerClassifier"),
        ([np.nan] * 67, "y contains NaN"),
        ([np.inf] * 67, "y contains infinity"),
    ],
)
def test_wrong_targets(y, message, evening):
    with pytest.raises(ValueError, match=message):
        TSTransformerRegressor(**SMALL, max_epochs=2).fit(evening[0], y)


def test_targets_whose_spread_overflows_are_refused(evening):
    X, y = evening
    with pytest.raises(ValueError, match=r"targets are from -1e\+308 to 1e\+308; divide y by"):
        TSTransformerRegressor(**SMALL, max_epochs=2).fit(X, np.where(y > y.mean(), 1e308, -1e308))


def test_validation_targets_far_beyond_those_of_training_are_refused(evening):
    X, y = evening
    reg, too_large = TSTransformerRegressor(**SMALL, max_epochs=2), np.full(len(y), 1e300)
    with pytest.raises(ValueError, match=r"y_val is too large for float32 after .* at series 0"):
        reg.fit(X, y, X_val=X, y_val=too_large)


@pytest.mark.parametrize("power", [-600, 40, 600])
def test_the_unit_of_the_targets_is_that_of_the_predictions(power, evening):
    X, y = evening
    for targets in (y, np.full(len(y), 7.5)):
        plain, scaled = (
            TSTransformerRegressor(**SMALL, max_epochs=1).fit(X, factor * targets).predict(X)
            for factor in (1.0, 2.0**power)
        )
        np.testing.assert_array_equal(scaled, plain * 2.0**power)
