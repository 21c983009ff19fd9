"""Whether an augmentation leaves classes recognisable, and what "auto" makes of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import cohen_kappa_score

from tsformer import TSTransformerClassifier
from tsformer.augmentation import Augmentation, CutMix, Sum, Warp
from tsformer.data.series import Padded
from tsformer.estimators.label_preservation import LEAST_KEPT, agreement_kept

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2, "random_state": 0}
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


def kappa_slowly(labels: np.ndarray, answers: np.ndarray) -> float:
    n = len(labels)
    agreed = sum(a == b for a, b in zip(labels, answers, strict=True)) / n
    by_chance = sum(
        sum(a == c for a in labels) / n * sum(b == c for b in answers) / n for c in set(labels)
    )
    return (agreed - by_chance) / (1 - by_chance)


def test_it_is_the_ratio_of_two_kappas(monkeypatch):
    seen = []

    def watched(labels, answers):
        seen.append((labels.copy(), answers.copy()))
        return cohen_kappa_score(labels, answers)

    monkeypatch.setattr("sklearn.metrics.cohen_kappa_score", watched)
    y = np.where(np.arange(N) % 6 == 5, 2, Y)  # three classes, not of one size
    share = kept(SHAPE, y, augmentation=HalfNoise())
    (labels, before), (again, after) = seen
    np.testing.assert_array_equal(labels, y)
    np.testing.assert_array_equal(again, y)
    assert 0 < share < 1
    assert share == pytest.approx(kappa_slowly(y, after) / kappa_slowly(y, before))


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


def test_unequal_lengths_gaps_and_times():
    gaps = SHAPE.copy()
    gaps[:, :, 10:15] = np.nan
    assert kept(gaps) > 0.8
    times = np.tile(np.arange(LENGTH) * 2.0, (N, 1))
    assert kept(SHAPE, times=times, clock="numbers") > 0.8
    values = SHAPE.transpose(0, 2, 1).copy()
    lengths = RNG.integers(130, LENGTH + 1, N)
    values[np.arange(LENGTH) >= lengths[:, None]] = np.nan
    assert agreement_kept(Warp(p=1.0), Padded(values, lengths), Y, scaling="channel") > 0.8


class Sees(Augmentation):
    def __call__(self, batch):
        self.mask = batch.mask
        return batch


def test_padding_is_masked_where_series_are_augmented():
    values, lengths, sees = SHAPE.transpose(0, 2, 1).copy(), RNG.integers(130, LENGTH, N), Sees()
    values[np.arange(LENGTH) >= lengths[:, None]] = np.nan
    agreement_kept(sees, Padded(values, lengths), Y, scaling="channel")
    np.testing.assert_array_equal(sees.mask.sum(dim=1), lengths)


def test_global_generators_are_left_alone():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    assert kept(SHAPE) == kept(SHAPE)
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002


# What the classifier makes of it.


def fitted(X=FREQUENCY, y=Y, **options) -> TSTransformerClassifier:
    return TSTransformerClassifier(**SMALL | options).fit(X, y)


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


def test_what_is_asked_for_by_name_is_done():
    assert fitted(augmentation="warp").augmentation_ == Warp()


@pytest.mark.slow
@pytest.mark.parametrize(("weight", "chosen"), [(0.0, CutMix()), (1.0, BOTH)])
def test_series_without_weight_do_not_decide(weight, chosen):
    X, y = np.concatenate([SHAPE, FREQUENCY]), np.concatenate([Y, Y + 2])
    clf = TSTransformerClassifier(**SMALL)
    clf.fit(X, y, sample_weight=np.where(y < 2, weight, 1.0))
    assert clf.augmentation_ == chosen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_classes", "params", "p"),
    [(2, None, 0.5), (10, None, 0.5), (20, None, 0.25), (20, {"cutmix": {"p": 0.5}}, 0.5)],
)
def test_with_many_classes_fewer_series_are_mixed(n_classes, params, p):
    clf = fitted(SHAPE, np.arange(N) % n_classes, augmentation_params=params)
    assert clf.augmentation_ == Sum([Warp(), CutMix(p=p)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "params", "p"), [(200, None, 0.5), (400, None, 0.25), (400, {"cutmix": {"p": 0.5}}, 0.5)]
)
def test_of_many_series_a_hundred_are_mixed_in_an_epoch(n, params, p):
    X = np.random.default_rng(0).normal(size=(n, 1, 12))
    clf = fitted(X, np.arange(n) % 2, augmentation_params=params)
    (mixed,) = (part for part in clf.augmentation_.parts if isinstance(part, CutMix))
    assert mixed == CutMix(p=p)
