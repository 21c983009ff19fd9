"""Which series are held out of training to judge it."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer.estimators.targets import group_folds, hold_out


def counts(targets: np.ndarray, held_out: np.ndarray) -> list[int]:
    return np.bincount(targets[held_out], minlength=targets.max() + 1).tolist()


def test_each_class_gives_its_part():
    targets = np.repeat([0, 1, 2], [50, 30, 20])
    held_out = hold_out(targets, 0.1, seed=0)
    assert held_out.dtype == bool
    assert counts(targets, held_out) == [5, 3, 2]
    assert counts(targets, hold_out(targets, 0.5, seed=0)) == [25, 15, 10]


def test_no_class_loses_its_last_member():
    targets = np.repeat([0, 1, 2], [1, 2, 40])
    for fraction in (0.1, 0.5, 0.99):
        given = counts(targets, hold_out(targets, fraction, seed=0))
        assert given[0] == 0
        assert given[1] <= 1
        assert 0 < given[2] < 40


def test_small_classes_give_together():
    targets = np.repeat(np.arange(20), 3)
    assert hold_out(targets, 0.1, seed=0).sum() == 6


def test_at_least_one_is_held_out():
    assert hold_out(np.array([0, 0, 1]), 0.01, seed=0).tolist().count(True) == 1
    assert not hold_out(np.array([0, 0, 1]), 0.01, seed=0)[2]


def test_seed_decides_which():
    targets = np.repeat([0, 1], 50)
    groups = np.arange(100) // 5
    for draw in (
        lambda seed: hold_out(targets, 0.2, seed),
        lambda seed: np.stack(group_folds(targets, groups, 4, seed)),
    ):
        np.testing.assert_array_equal(draw(3), draw(3))
        assert not np.array_equal(draw(3), draw(4))


def test_classes_of_one_member_cannot_be_judged():
    with pytest.raises(ValueError, match="each of the 3 classes has only one member; pass X_val"):
        hold_out(np.arange(3), 0.1, seed=0)


GROUPS = np.repeat(np.arange(12), 10)


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.9])
def test_whole_groups_are_held_out(fraction):
    targets = np.tile([0, 1], 60)
    held_out = hold_out(targets, fraction, 0, GROUPS)
    assert not set(GROUPS[held_out]) & set(GROUPS[~held_out])
    assert held_out.mean() == pytest.approx(fraction, abs=0.09)
    assert not np.array_equal(held_out, hold_out(targets, fraction, 1, GROUPS))


def test_folds_of_groups_have_like_shares_of_each_class():
    targets = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [300, 80, 20]))
    folds = group_folds(targets, np.arange(400) // 4, 5, seed=0)
    assert (np.sum(folds, axis=0) == 1).all()
    for fold in folds:
        assert counts(targets, fold) == pytest.approx([60, 16, 4], abs=1)


def test_the_share_comes_near_where_a_group_has_most_of_the_series():
    groups = np.repeat(np.arange(9), [72, 1, 1, 1, 1, 1, 1, 1, 1])
    assert hold_out(np.zeros(80, dtype=np.int64), 0.1, 0, groups).sum() < 9


def test_groups_that_are_held_out_leave_each_class_in_training():
    targets = np.repeat([0, 1, 2], [60, 50, 10])  # the third class has one group
    for seed in range(5):
        assert 2 in targets[~hold_out(targets, 0.1, seed, GROUPS)]
