"""Which series are held out of training to judge it."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer.estimators.holdout import hold_out


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
    """A tenth of three is none; of twenty classes of three it is six."""
    targets = np.repeat(np.arange(20), 3)
    assert hold_out(targets, 0.1, seed=0).sum() == 6


def test_at_least_one_is_held_out():
    assert hold_out(np.array([0, 0, 1]), 0.01, seed=0).tolist().count(True) == 1
    assert not hold_out(np.array([0, 0, 1]), 0.01, seed=0)[2]


def test_seed_decides_which():
    targets = np.repeat([0, 1], 50)
    one, same, other = (hold_out(targets, 0.2, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_classes_of_one_member_cannot_be_judged():
    with pytest.raises(ValueError, match="none of the 3 classes has two members; pass X_val"):
        hold_out(np.arange(3), 0.1, seed=0)
