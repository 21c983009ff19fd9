"""The scores that are tracked are those of scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, log_loss

from tsformer import TSTransformerRegressor
from tsformer.tracking.scores import classification_scores, scored


def test_a_class_that_is_not_there_gives_no_warning() -> None:
    random = np.random.default_rng(0)
    classes = np.array(["a", "b", "c"])
    p = random.dirichlet(np.ones(3), size=40)
    y = random.choice(classes, size=40)
    scores = classification_scores(y, p, classes)
    predicted = classes[p.argmax(axis=1)]
    assert scores["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted))
    assert scores["log_loss"] == pytest.approx(log_loss(y, p, labels=classes))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        alone = classification_scores(np.full(40, "a"), p, classes)
    assert alone["balanced_accuracy"] == pytest.approx((predicted == "a").mean())


def test_a_regressor() -> None:
    X = np.random.default_rng(0).normal(size=(10, 1, 12))
    y = X.mean(axis=(1, 2))
    small = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1}
    regressor = TSTransformerRegressor(**small).fit(X, y)
    scores, predicted, probabilities = scored(regressor, X, y)
    assert probabilities is None
    assert scores["r2"] == pytest.approx(regressor.score(X, y))
    assert scores["rmse"] == pytest.approx(np.sqrt(((predicted - y) ** 2).mean()))
    assert scores["mae"] == pytest.approx(np.abs(predicted - y).mean())
