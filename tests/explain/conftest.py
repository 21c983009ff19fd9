"""Small series of every shape, and classifiers that train on them in a moment."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tsformer import TSTransformerClassifier

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 2, "max_epochs": 3, "learning_rate": 0.01}
FITTED: dict[tuple[str, str], TSTransformerClassifier] = {}


@dataclass
class Series:
    """Series, their labels and times, and which values there are ``(n, C, L)``."""

    kind: str
    X: Any
    y: list[str]
    times: Any
    observed: np.ndarray

    @property
    def options(self) -> dict[str, Any]:
        return {} if self.times is None else {"times": self.times}


def make_series(kind: str) -> Series:
    """Return 12 series of 2 channels and at most 24 steps in three classes.

    They are "plain", or "all at once": with gaps, times, and of unequal length.
    """
    rng = np.random.default_rng(0)
    X = 3 + 2 * rng.normal(size=(12, 2, 24))
    y = ["a", "b", "c"] * 4
    X[::3, 0, 5:10] += 3
    observed = np.ones(X.shape, dtype=bool)
    if kind == "plain":
        return Series(kind, X, y, None, observed)
    observed &= rng.random(X.shape) > 0.3
    observed[0, :, 7:14] = False
    observed[1, 1] = False
    lengths = rng.integers(9, 25, size=12)
    lengths[5] = 24
    for i, length in enumerate(lengths):
        observed[i, :, length:] = False
        observed[i, 0, [0, length - 1]] = True  # each series begins and ends with a value
    times = [np.cumsum(rng.integers(0, 4, 24))[:n] * 0.75 for n in lengths]
    gaps = np.where(observed, X, np.nan)
    X = [x[:, :n] for x, n in zip(gaps, lengths, strict=True)]
    return Series(kind, X, y, times, observed)


@pytest.fixture
def plain() -> Series:
    return make_series("plain")


@pytest.fixture
def everything() -> Series:
    return make_series("all at once")


@pytest.fixture
def fit():
    """Return a function that fits a small classifier to series, once for all tests."""

    def fitted(data: Series, **options: Any) -> TSTransformerClassifier:
        key = (data.kind, repr(sorted(options.items())))
        if key not in FITTED:
            alike = {"scaling": "channel", "random_state": 0}  # so that a baseline has the means
            made = TSTransformerClassifier(**{**SMALL, **alike, **options})
            FITTED[key] = made.fit(data.X, data.y, **data.options)
        return FITTED[key]

    return fitted


@pytest.fixture
def codes() -> Series:
    rng = np.random.default_rng(0)
    X = [rng.choice([1, 5, 9], size=n).astype(float) for n in (20, 13, 20, 9, 17, 20)]
    X[0][4] = np.nan
    observed = np.zeros((6, 1, 20), dtype=bool)
    for i, x in enumerate(X):
        observed[i, 0, : len(x)] = ~np.isnan(x)
    return Series("codes", [x[None] for x in X], ["a", "b"] * 3, None, observed)
