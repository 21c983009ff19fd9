"""Whether an augmentation leaves classes recognisable, and what "auto" makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_estimators import classifier

from tsformer import TSTransformerClassifier
from tsformer.augmentation import Augmentation, CutMix, Sum, Warp
from tsformer.data.series import Padded
from tsformer.estimators.recipe import LEAST_KEPT, agreement_kept

RNG = np.random.default_rng(0)
N, LENGTH = 60, 160
Y = np.arange(N) % 2
TIME = np.arange(LENGTH) / LENGTH


def by_frequency() -> np.ndarray:
    """Sines of 40 or of 41 periods: another speed is another class."""
    phases = RNG.uniform(0, 2 * np.pi, (N, 1))
    return np.sin(2 * np.pi * (40 + Y[:, None]) * TIME + phases)[:, None]


def by_shape() -> np.ndarray:
    """Steps up or down, wherever they are: a warp moves them and no more."""
    steps = np.where(RNG.uniform(0.3, 0.7, (N, 1)) < TIME, 1.0, -1.0) * (2 * Y[:, None] - 1)
    return (steps + 0.1 * RNG.normal(size=(N, LENGTH)))[:, None]


FREQUENCY, SHAPE = by_frequency(), by_shape()


def padded(X: np.ndarray, **options) -> Padded:
    return Padded(X.transpose(0, 2, 1), np.full(len(X), X.shape[2]), **options)


def kept(X: np.ndarray, y: np.ndarray = Y, augmentation=None, **options) -> float:
    augmentation = Warp(p=1.0) if augmentation is None else augmentation
    return agreement_kept(augmentation, padded(X, **options), y, scaling="channel")


class Nothing(Augmentation):
    def __call__(self, batch):
        return batch


class Noise(Augmentation):
    def __call__(self, batch):
        return replace(batch, values=torch.randn_like(batch.values))


class HalfNoise(Augmentation):
    def __call__(self, batch):
        values = batch.values.clone()
        values[::2] = torch.randn_like(values[::2])
        return replace(batch, values=values)


@pytest.mark.slow
def test_between_all_and_nothing():
    assert kept(SHAPE, augmentation=Nothing()) == 1.0
    assert kept(SHAPE, augmentation=Noise()) < 0.3
    assert kept(SHAPE) > 0.8
    assert kept(FREQUENCY) < LEAST_KEPT


def test_it_is_the_ratio_of_two_kappas(monkeypatch):
    seen, kappas = [], [0.8, 0.2]

    def kappa(labels, answers):
        seen.append((labels.copy(), answers.copy()))
        return kappas[len(seen) - 1]

    monkeypatch.setattr("sklearn.metrics.cohen_kappa_score", kappa)
    assert kept(SHAPE, augmentation=HalfNoise()) == pytest.approx(0.25)
    for labels, _ in seen:
        np.testing.assert_array_equal(labels, Y)
    (_, before), (_, after) = seen
    assert (before == Y).mean() > (after == Y).mean() > 0.5


def test_series_it_does_not_recognise_say_nothing():
    labels = np.arange(N) // 2 % 2  # independent of the classes
    assert kept(SHAPE, labels, Noise()) == 1.0
    assert kept(SHAPE, np.zeros(N, dtype=int), Noise()) == 1.0
    assert kept(SHAPE[:39], Y[:39], Noise()) == 1.0
    assert kept(SHAPE[:40], Y[:40], Noise()) < 1.0


def test_a_class_of_one_series():
    labels = Y.copy()
    labels[0] = 2
    assert kept(SHAPE, labels) > 0.8
    assert kept(SHAPE, (np.arange(N) == 0).astype(int)) == 1.0


def test_more_series_than_are_looked_at():
    many = np.concatenate([SHAPE] * 6)
    assert kept(many, np.tile(Y, 6), Noise()) < 0.3


def test_padding_is_masked_where_series_are_augmented():
    class Sees(Augmentation):
        def __call__(self, batch):
            self.mask = batch.mask
            return batch

    values, lengths, sees = SHAPE.transpose(0, 2, 1).copy(), RNG.integers(130, LENGTH, N), Sees()
    values[np.arange(LENGTH) >= lengths[:, None]] = np.nan
    agreement_kept(sees, Padded(values, lengths), Y, scaling="channel")
    np.testing.assert_array_equal(sees.mask.sum(dim=1), lengths)


def fitted(X=FREQUENCY, y=Y, **options) -> TSTransformerClassifier:
    return classifier(**options).fit(X, y)


BOTH = Sum([Warp(), CutMix()])


@pytest.mark.slow
def test_auto_does_not_warp_where_that_harms():
    clf = fitted()
    assert clf.augmentation_ == CutMix()
    plain = fitted(augmentation="cutmix")
    np.testing.assert_array_equal(clf.predict_proba(FREQUENCY), plain.predict_proba(FREQUENCY))
    assert fitted(SHAPE).augmentation_ == BOTH
    mild = fitted(augmentation_params={"warp": {"sigma": 0.0, "p": 0.25}})
    assert mild.augmentation_ == Sum([Warp(sigma=0.0, p=0.25), CutMix()])


@pytest.mark.slow
@pytest.mark.parametrize(("weight", "chosen"), [(0.0, CutMix()), (1.0, BOTH)])
def test_series_without_weight_do_not_decide(weight, chosen):
    X, y = np.concatenate([SHAPE, FREQUENCY]), np.concatenate([Y, Y + 2])
    clf = classifier()
    clf.fit(X, y, sample_weight=np.where(y < 2, weight, 1.0))
    assert clf.augmentation_ == chosen


NOISE = np.random.default_rng(0).normal(size=(400, 1, 12))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("X", "n_classes", "params", "p"),
    [
        (SHAPE, 10, None, 0.5),
        (SHAPE, 20, None, 0.25),
        (SHAPE, 20, {"cutmix": {"p": 0.5}}, 0.5),
        (NOISE[:200], 2, None, 0.5),
        (NOISE, 2, None, 0.25),
        (NOISE, 2, {"cutmix": {"p": 0.5}}, 0.5),
    ],
)
def test_of_many_classes_or_series_fewer_are_mixed(X, n_classes, params, p):
    clf = fitted(X, np.arange(len(X)) % n_classes, augmentation_params=params)
    (mixed,) = (part for part in clf.augmentation_.parts if isinstance(part, CutMix))
    assert mixed == CutMix(p=p)
