"""Novelty scores: calibrated on training series, blind to nothing simple, the same everywhere."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from small_estimators import MAKERS, RAGGED, TIMES, X, Y, convolutions

from tsformer import load
from tsformer.data.containers import to_source
from tsformer.estimators.novelty import Leverage, Novelty

STEPS = np.arange(40)


def sensors(n: int, seed: int) -> np.ndarray:
    """Return series of three unlike channels, ``(n, 3, 40)``."""
    rng = np.random.default_rng(seed)
    wave = np.sin(STEPS / 3 + rng.uniform(0, 6, size=(n, 1)))
    walk = 10 + rng.normal(size=(n, 40)).cumsum(axis=1) / 5
    return np.stack([wave, walk, 1000 + 50 * rng.normal(size=(n, 40))], axis=1)


@pytest.fixture(scope="module")
def novelty() -> Novelty:
    return Novelty(3, None).fit(to_source(sensors(400, 0)))


def changed(channel: int, function: Any) -> np.ndarray:
    series = sensors(100, 1)
    series[:, channel] = function(series[:, channel])
    return series


def test_score_above_one_rate(novelty):
    shares = [(novelty.score(to_source(sensors(500, seed))) > 1).mean() for seed in (2, 3)]
    assert 0.001 <= np.mean(shares) <= 0.03


@pytest.mark.parametrize(
    "series",
    [
        changed(1, lambda x: 1000 * x),
        changed(2, lambda x: x + 500),
        changed(2, lambda x: np.broadcast_to(x[:, :1], x.shape)),
        changed(0, lambda x: np.where(STEPS < 20, x, x[:, 20:21])),
        changed(0, lambda x: np.where(STEPS % 3, x, np.nan)),
        changed(0, lambda x: np.where(STEPS == 7, x + 8, x)),
        changed(0, lambda x: x + np.random.default_rng(0).normal(size=x.shape) / 2),
        sensors(100, 1)[:, [1, 0, 2]],
        changed(0, lambda x: np.sign(x)),
    ],
    ids=["unit", "offset", "stuck", "late", "gaps", "spike", "noise", "swapped", "square"],
)
def test_score_of_corrupted_sensors(series, novelty):
    assert (novelty.score(to_source(series)) > 1).mean() > 0.95


@pytest.mark.parametrize("sizes", [[1] * 12, [3, 3, 1, 3, 1, 1]])
def test_distances_equal_refits_without_each_group(sizes):
    rng = np.random.default_rng(0)
    features, moved = (torch.from_numpy(rng.normal(size=(n, 5))) for n in (12, 7))
    groups = torch.arange(12).split(sizes)
    parts = [torch.stack([g for g in groups if len(g) == size]) for size in set(sizes)]
    leverage = Leverage()
    scores = leverage.fit(features, moved[None], parts).square()
    every = torch.stack([features, torch.cat([moved, torch.zeros(5, 5)])])
    every = torch.cat([every, torch.ones(2, 12, 1)], dim=2)  # the intercept has no penalty
    penalty = torch.diag(torch.cat([leverage.penalty.repeat(5), torch.zeros(1)]))
    for group in groups:
        rest = every[0, np.delete(np.arange(12), group)]
        inverse = torch.linalg.inv(rest.T @ rest + penalty)
        squared = ((every[:, group] @ inverse) * every[:, group]).sum(dim=2)
        torch.testing.assert_close(scores[0, group], squared[0], rtol=1e-5, atol=1e-6)
        some = group < 7
        torch.testing.assert_close(scores[1, group[some]], squared[1, some], rtol=1e-5, atol=1e-6)


def processes(n: int, length: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    noise, phase = rng.normal(size=(n, length)), rng.uniform(0, 6, size=(n, 1))
    smooth = np.stack([np.convolve(row, 0.7 ** np.arange(9), "same") for row in noise])
    wave = np.sin(np.arange(length) / 5 + phase) + 0.3 * noise
    whole = np.sin(np.arange(length) * np.pi / 12.5 + phase) + 0.2 * noise  # 4 periods of 100 steps
    values = {"noise": noise, "smooth": smooth, "wave": wave, "whole periods": whole}
    return {name: series[:, None] for name, series in values.items()}


@pytest.mark.parametrize("name", ["noise", "smooth", "wave", "whole periods"])
def test_score_of_other_lengths(name):
    learned = Novelty(1, None).fit(to_source(processes(200, 100, 0)[name]))
    for length in (20, 30, 40, 60, 80, 250):
        scores = learned.score(to_source(processes(200, length, 1)[name]))
        assert (scores > 1).mean() <= (0.04 if length > 25 else 0.1), length
    broken = np.where(np.arange(60) < 30, processes(50, 60, 2)[name], 0.0)
    assert (learned.score(to_source(broken)) > 1).mean() > 0.9


@pytest.mark.parametrize("name", ["noise", "smooth", "wave"])
@pytest.mark.parametrize("n", [6, 25])
def test_score_few_training_series(n, name):
    shares = [
        (Novelty(1, None).fit(to_source(processes(n, 100, seed)[name])).score(new) > 1).mean()
        for seed in range(6)
        for new in [to_source(processes(60, 100, 100 + seed)[name])]
    ]
    assert np.mean(shares) <= 1.5 * 2 / n


def test_score_of_new_groups():
    rng = np.random.default_rng(0)
    persons = sensors(40, 0).repeat(5, axis=0)
    persons += 0.01 * rng.normal(size=persons.shape) * persons.std(axis=(0, 2), keepdims=True)
    series, groups = to_source(persons), np.arange(200) // 5
    shares = [
        (Novelty(3, None).fit(series, g).score(to_source(sensors(100, 1))) > 1).mean()
        for g in (groups, None)
    ]
    assert shares[0] < 0.1
    assert shares[1] > 0.5


@pytest.mark.parametrize("name", MAKERS)
def test_novelty_score_of_each_estimator(name, fitted, tmp_path):
    estimator = fitted[name]
    scores = estimator.novelty_score(RAGGED, TIMES)
    assert (scores.shape, scores.dtype) == ((16,), np.float64)
    np.testing.assert_array_equal(scores, fitted["convolutions"].novelty_score(RAGGED, TIMES))
    assert (estimator.novelty_score([1000 * x for x in RAGGED], TIMES) > 1).all()
    assert (estimator.novelty_score(RAGGED, [2 * t for t in TIMES]) != scores).any()
    estimator.save(tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").novelty_score(RAGGED, TIMES), scores)
    gone = [RAGGED[0], np.full((2, 5), np.nan)]
    with pytest.raises(ValueError, match="series 1 "):
        estimator.novelty_score(gone, [np.arange(x.shape[1]) for x in gone])


@pytest.mark.parametrize("series", [np.zeros((6, 2, 24)), np.full((6, 2, 24), 3.0)])
def test_score_constant_training_series(series):
    clf = convolutions(scaling="series").fit(series, np.arange(6) % 2)
    assert (clf.novelty_score(series) <= 1).all()
    assert (clf.novelty_score(series + 1) > 1).all()
    with pytest.raises(ValueError):
        clf.fit(X[:1], Y[:1]).novelty_score(X)


def test_fit_series_with_leading_gaps():
    rng = np.random.default_rng(0)
    series = rng.normal(size=(12, 1, 40))
    series[::2, :, :36] = np.nan
    times = rng.uniform(0.5, 2, size=(12, 40)).cumsum(axis=1)
    clf = convolutions().fit(series, np.arange(12) % 2, times=times)
    assert np.isfinite(clf.novelty_score(series, times=times)).all()


def test_distances_are_learned_from_a_copy_and_no_series_is_pickled():
    training, new = sensors(30, 0)[:, :1], sensors(10, 1)[:, :1]
    clf = convolutions().fit(training, np.arange(30) % 2)
    row, pickled = training[3, 0].tobytes(), pickle.dumps(clf)
    training[:] = 0
    order = np.random.default_rng(0).permutation(30)
    expected = Novelty(1, None).fit(to_source(sensors(30, 0)[order, :1]))
    scores = clf.novelty_score(new)
    np.testing.assert_array_equal(scores, expected.score(to_source(new)))
    np.testing.assert_array_equal(scores, pickle.loads(pickled).novelty_score(new))
    assert row not in pickled


def test_score_of_largest_numbers():
    series = np.array([[1.7e308] * 10, [-0.13] * 10, [-1.7e308] * 10, [0.1] * 10])[:, None]
    novelty = Novelty(1, None).fit(to_source(series))
    assert np.isfinite(novelty.score(to_source(series))).all()
