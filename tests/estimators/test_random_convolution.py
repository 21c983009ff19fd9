"""RandomConvolutionClassifier: what it learns, any data, weights, times, saving."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import tsformer
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


def test_it_learns(waves):
    X, y = waves
    classifier = fitted(X[::2], y[::2])
    assert classifier.score(X[1::2], y[1::2]) > 0.9
    proba = classifier.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[proba.argmax(axis=1)])
    assert classifier.decision_function(X).shape == (45, 3)
    assert classifier.transform(X).shape == (45, len(classifier.get_feature_names_out()))


def test_scaling_is_chosen_by_what_tells_classes_apart():
    """Levels are lost where each series is standardised."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    levels = rng.normal(size=(40, 1, 30)) + 3 * y[:, None, None]
    assert fitted(levels, y).preprocessor_.scaling == "channel"
    noise = rng.normal(size=(40, 1, 30))
    standard = (noise - noise.mean(-1, keepdims=True)) / noise.std(-1, keepdims=True)
    assert fitted(standard, y).preprocessor_.scaling == "series"
    for scaling in ("channel", None):
        assert fitted(levels, y, scaling=scaling).preprocessor_.scaling == scaling


def test_unequal_lengths_and_gaps(waves):
    X, y = waves
    rng = np.random.default_rng(1)
    X = X.copy()
    X[rng.random(X.shape) < 0.1] = np.nan
    cut = [x[:, : rng.integers(12, 41)] for x in X]
    classifier = fitted(cut[::2], y[::2])
    assert classifier.score(cut[1::2], y[1::2]) > 0.7
    padded = [np.pad(x, ((0, 0), (0, 7)), constant_values=np.nan) for x in cut]
    np.testing.assert_allclose(
        classifier.predict_proba(padded), classifier.predict_proba(cut), atol=1e-5
    )


def test_containers_agree(waves):
    X, y = waves
    frames = [pd.DataFrame(x.T, columns=["sin", "cos"]) for x in X]
    wanted = fitted(X, y).predict_proba(X)
    for container in (list(X), frames, torch.from_numpy(X)):
        np.testing.assert_array_equal(fitted(container, y).predict_proba(container), wanted)


@pytest.mark.parametrize("length", [1, 2, 8, 9])
def test_short_series(length):
    y = np.arange(24) % 2
    X = np.random.default_rng(0).normal(size=(24, 1, length)) + 4 * y[:, None, None]
    assert fitted(X[::3], y[::3]).score(X, y) > 0.9


def test_two_series_a_class_constant_channels_and_one_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3, 20))
    X[:, 0] = 1.0
    y = np.array([0, 0, 1, 1, 2, 2])
    assert np.isfinite(fitted(X, y).predict_proba(X)).all()
    np.testing.assert_array_equal(fitted(X, np.zeros(6)).predict_proba(X), np.ones((6, 1)))
    flat = np.ones((6, 1, 20))
    np.testing.assert_allclose(fitted(flat, y).predict_proba(flat), 1 / 3, atol=1e-6)


@pytest.mark.slow
def test_300_classes():
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(300), 3)
    X = rng.normal(size=(300, 1, 30))[y] + 0.1 * rng.normal(size=(900, 1, 30))
    classifier = fitted(X[:600], y[:600])
    assert classifier.score(X[600:], y[600:]) > 0.8


def test_weights(waves):
    X, y = waves
    X, y = X[:, :1, :6] + np.random.default_rng(0).normal(size=(45, 1, 6)), y
    plain = fitted(X, y).predict_proba(X)[:, 0].mean()
    heavy = {"fast": 20, "medium": 1, "slow": 1}
    by_class = fitted(X, y, class_weight=heavy).predict_proba(X)
    assert by_class[:, 0].mean() > plain + 0.1
    sample_weight = np.where(y == "fast", 20.0, 1.0)
    by_series = RandomConvolutionClassifier(**SMALL).fit(X, y, sample_weight=sample_weight)
    np.testing.assert_array_equal(by_series.predict_proba(X), by_class)


def test_a_series_of_weight_0_is_left_out(waves):
    X, y = waves
    kept = np.arange(45) % 3 > 0
    weighted = RandomConvolutionClassifier(**SMALL).fit(X, y, sample_weight=kept.astype(float))
    np.testing.assert_array_equal(
        weighted.predict_proba(X), fitted(X[kept], y[kept]).predict_proba(X)
    )


def test_times_are_seen():
    """The same values tell nothing: only their times say how fast a wave is."""
    rng = np.random.default_rng(0)
    y = np.arange(40) // 2 % 2
    times = rng.uniform(0.5, 1.5, size=(40, 30)).cumsum(axis=1) * np.where(y, 1.0, 2.0)[:, None]
    X = np.sin(0.8 * np.arange(30) + rng.uniform(0, 6, size=(40, 1)))[:, None]
    with_times = RandomConvolutionClassifier(**SMALL).fit(X[::2], y[::2], times=times[::2])
    assert with_times.score(X[1::2], y[1::2], times=times[1::2]) > 0.9
    assert fitted(X[::2], y[::2]).score(X[1::2], y[1::2]) < 0.8
    with pytest.raises(ValueError, match="times of the same kind"):
        with_times.predict(X)


def test_saved_pickled_and_cloned_it_predicts_the_same(waves, tmp_path):
    X, y = waves
    original = fitted(X, y, class_weight={"fast": 2.0, "medium": 1.0, "slow": 1.0})
    original.save(tmp_path / "model")
    wanted = original.predict_proba(X)
    loaded = tsformer.load(tmp_path / "model")
    assert isinstance(loaded, RandomConvolutionClassifier)
    assert loaded.get_params() == original.get_params()
    for again in (loaded, pickle.loads(pickle.dumps(original)), clone(original).fit(X, y)):
        np.testing.assert_array_equal(again.predict_proba(X), wanted)
    np.testing.assert_array_equal(loaded.transform(X), original.transform(X))


def test_parameters_changed_after_fit_are_not_those_of_the_saved_model(waves, tmp_path):
    X, y = waves
    original = fitted(X, y)
    wanted = original.predict_proba(X)
    original.set_params(n_features=168, n_groups=2).save(tmp_path / "model")
    np.testing.assert_array_equal(tsformer.load(tmp_path / "model").predict_proba(X), wanted)


def test_a_file_of_another_transform_is_refused(waves, tmp_path):
    fitted(*waves).save(tmp_path / "model")
    described = tmp_path / "model" / "estimator.json"
    described.write_text(described.read_text().replace('"n_groups": 4', '"n_groups": 0'))
    with pytest.raises(ValueError, match="corrupted"):
        tsformer.load(tmp_path / "model")


def test_one_seed_one_classifier(waves):
    X, y = waves
    first, again, other = (fitted(X, y, random_state=seed).predict_proba(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_global_generators_are_not_touched(waves):
    state = torch.get_rng_state()
    fitted(*waves, random_state=None)
    assert torch.equal(torch.get_rng_state(), state)


def test_cross_validation(waves):
    X, y = waves
    assert cross_val_score(RandomConvolutionClassifier(**SMALL), X, y, cv=3).mean() > 0.9


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"n_features": 100}, ValueError, "n_features must be an int >= 168, or 0; got 100"),
        ({"n_features": 1e4}, TypeError, "n_features must be an int"),
        ({"n_groups": 3}, ValueError, "n_groups must be even; got 3"),
        ({"n_features": 0, "n_groups": 0}, ValueError, "leaves no features"),
        ({"scaling": "serie"}, ValueError, "did you mean 'series'"),
        ({"timestamps": "indx"}, ValueError, "did you mean 'index'"),
        ({"device": "gpu"}, ValueError, "device 'gpu' cannot be used"),
    ],
)
def test_wrong_parameters(options, error, message, waves):
    with pytest.raises(error, match=message):
        fitted(*waves, **options)


@pytest.mark.parametrize("codes", [np.array([list("ACGT")] * 4), [list("ACGT"), list("AC")] * 2])
def test_text_is_refused(codes):
    with pytest.raises((TypeError, ValueError), match="X holds text, such as 'A'; for symbols"):
        fitted(codes, [0, 1, 0, 1])
