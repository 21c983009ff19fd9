"""RandomConvolutionClassifier: accuracy, scaling, short series and times."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer import RandomConvolutionClassifier

SMALL = {"n_features": 336, "n_groups": 4, "random_state": 0}


@pytest.fixture(scope="module")
def waves() -> tuple[np.ndarray, np.ndarray]:
    """45 series of 40 steps and two channels in three classes, told apart by a frequency."""
    rng = np.random.default_rng(0)
    y = np.repeat(["fast", "medium", "slow"], 15)
    speed = {"fast": 1.2, "medium": 0.6, "slow": 0.2}
    phase = rng.uniform(0, 6, size=len(y))
    angle = np.arange(40) * np.array([speed[label] for label in y])[:, None] + phase[:, None]
    X = np.stack([np.sin(angle), np.cos(angle)], axis=1)
    return X + rng.normal(scale=0.3, size=X.shape), y


def fitted(X, y, **options) -> RandomConvolutionClassifier:
    return RandomConvolutionClassifier(**SMALL | options).fit(X, y)


def test_scaling_is_chosen_by_what_tells_classes_apart():
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    levels = rng.normal(size=(40, 1, 30)) + 3 * y[:, None, None]
    assert fitted(levels, y).preprocessor_.scaling == "channel"
    standard = (levels - levels.mean(-1, keepdims=True)) / levels.std(-1, keepdims=True)
    assert fitted(standard, y).preprocessor_.scaling == "series"


@pytest.mark.parametrize("length", [1, 2, 8, 9])
def test_short_series(length):
    y = np.arange(24) % 2
    X = np.random.default_rng(0).normal(size=(24, 1, length)) + 4 * y[:, None, None]
    assert fitted(X[::3], y[::3]).score(X, y) > 0.9
