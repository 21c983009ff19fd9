"""Seeds of one configuration, fitted at once as each would be alone."""

from __future__ import annotations

import numpy as np
import pytest

import tsformer.training.ensemble.train as members
from tsformer import TSTransformerRegressor
from tsformer.estimators.vectorized import fit_vectorized
from tsformer.training import Callback


class Counts(Callback):
    def __init__(self):
        self.epochs = 0

    def on_epoch_end(self, state):
        self.epochs += 1


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"early_stopping": True}, {"n_estimators": 2}])
def test_each_is_what_it_is_alone(make, italy, options):
    X, y = italy
    alone = [make(random_state=seed, **options).fit(X, y) for seed in (0, 5)]
    counts = [Counts(), Counts()]
    at_once = [
        make(random_state=seed, callbacks=[count], **options)
        for seed, count in zip((0, 5), counts, strict=True)
    ]
    fit_vectorized(at_once, X, y)
    for one, other, count in zip(alone, at_once, counts, strict=True):
        assert np.array_equal(one.predict_proba(X), other.predict_proba(X))
        assert count.epochs == sum(map(len, other.histories_))


@pytest.mark.slow
def test_as_one_they_end_alike(make, italy, monkeypatch):
    """What a GPU does, here on the CPU: without random draws the same to rounding."""
    X, y = italy
    options = {"dropout": 0.0, "encoding": "tape"}
    alone = [make(random_state=seed, **options).fit(X, y) for seed in range(3)]
    at_once = [make(random_state=seed, callbacks=[Counts()], **options) for seed in range(3)]
    train, asked = members.train_ensemble, []

    def as_one(*args, **kwargs):
        asked.append(len(args[0]))
        return train(*args, **kwargs, vectorized=True)

    monkeypatch.setattr("tsformer.estimators.vectorized.train_ensemble", as_one)
    fit_vectorized(at_once, X, y)
    assert asked == [3]
    for one, other in zip(alone, at_once, strict=True):
        np.testing.assert_allclose(other.predict_proba(X), one.predict_proba(X), atol=1e-3)
        assert other.callbacks[0].epochs == one.n_iter_


def test_what_differs_is_refused(make, italy):
    with pytest.raises(ValueError, match=r"random_state and callbacks only; .* in n_layers, pool"):
        fit_vectorized([make(), make(pooling="max", n_layers=0)], *italy)
    with pytest.raises(ValueError, match="differ in their class"):
        fit_vectorized([make(), TSTransformerRegressor()], *italy)
    with pytest.raises(ValueError, match="no estimator"):
        fit_vectorized([], *italy)
