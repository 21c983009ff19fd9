"""Few series, many classes, rare classes, constant channels."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tsformer import RandomConvolutionClassifier, TSEnsembleClassifier, TSTransformerClassifier

SMALL = {"d_model": 16, "n_heads": 2, "n_layers": 1, "max_epochs": 30}
CLASSIFIERS = {
    "transformer": partial(TSTransformerClassifier, **SMALL),
    "random convolutions": partial(RandomConvolutionClassifier, 840),
    "ensemble": partial(
        TSEnsembleClassifier,
        "fast",
        transformer_params=SMALL,
        convolution_params={"n_features": 840},
    ),
}


def waves(periods: np.ndarray, n_steps: int = 60, *, seed: int = 0) -> np.ndarray:
    """Return sine waves of these periods with noise and random phases, ``[n, 1, n_steps]``."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, (len(periods), 1))
    angle = 2 * np.pi * np.arange(n_steps) / np.asarray(periods)[:, None] + phase
    return (np.sin(angle) + 0.1 * rng.normal(size=angle.shape))[:, None]


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_two_series_of_each_class(name):
    labels = np.array([0, 0, 1, 1, 2, 2])
    periods = np.array([20.0, 10.0, 5.0])
    clf = CLASSIFIERS[name](random_state=0).fit(waves(periods[labels]), labels)
    asked = np.tile([0, 1, 2], 20)
    assert clf.score(waves(periods[asked], seed=1), asked) >= 0.9


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_one_series_of_a_class(name):
    labels = np.array([0] * 9 + [1])
    clf = CLASSIFIERS[name](random_state=0).fit(waves(np.where(labels, 5.0, 20.0)), labels)
    proba = clf.predict_proba(waves(np.array([20.0, 5.0]), seed=1))
    assert proba[1, 1] > proba[0, 1]


@pytest.mark.parametrize(
    "name", ["random convolutions", pytest.param("transformer", marks=pytest.mark.slow)]
)
def test_three_hundred_classes(name):
    labels = np.repeat(np.arange(300), 2)
    short = {"max_epochs": 4} if name == "transformer" else {}
    X = waves(np.geomspace(3, 200, 300)[labels])
    clf = CLASSIFIERS[name](random_state=0, **short).fit(X, labels)
    proba = clf.predict_proba(X)
    assert proba.shape == (600, 300)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-5)
    # By chance one of the seven nearest periods would be found in 2 % of all cases.
    near = np.abs(proba.argmax(axis=1) - labels) <= 3
    assert near.mean() > 0.1


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_channel_without_any_change(name):
    labels = np.tile([0, 1], 15)
    X = waves(np.where(labels, 5.0, 20.0))
    constant = np.full_like(X, 1e9)
    clf = CLASSIFIERS[name](random_state=0).fit(np.concatenate([constant, X], axis=1), labels)
    new = waves(np.where(labels, 5.0, 20.0), seed=1)
    assert clf.score(np.concatenate([constant, new], axis=1), labels) >= 0.9


@pytest.mark.parametrize("name", ["transformer", "random convolutions"])
def test_class_weights_find_more_of_a_rare_class(name):
    """Three of 40 series, which differ from the others by less than their noise."""
    rng = np.random.default_rng(0)
    y, truth = np.arange(40) < 3, np.arange(40) < 20
    X, asked = (rng.normal(size=(40, 1, 30)) + 0.35 * each[:, None, None] for each in (y, truth))
    short = {"max_epochs": 15} if name == "transformer" else {}
    plain = CLASSIFIERS[name](random_state=0, **short).fit(X, y)
    balanced = CLASSIFIERS[name](random_state=0, class_weight="balanced", **short).fit(X, y)
    found = [clf.predict_proba(asked)[truth, 1].mean() for clf in (plain, balanced)]
    assert found[1] > found[0]
