"""cut_problems.py: what is done to the series."""

import numpy as np
import pytest

from experiments.accuracy.cut_problems import changed

X = np.random.default_rng(0).standard_normal((30, 2, 80)).cumsum(axis=-1)
Y = np.repeat(["a", "b", "c"], 10)


def test_a_piece_of_each_series_is_left():
    cut = changed(X, Y, "cut", 1)
    lengths = [piece.shape[1] for piece in cut]
    assert min(lengths) >= 20
    assert max(lengths) <= 80
    assert len(set(lengths)) > 10
    for x, piece in zip(X, cut, strict=True):
        starts = range(80 - piece.shape[1] + 1)
        assert any(np.array_equal(x[:, s : s + piece.shape[1]], piece) for s in starts)


def test_resampled_series_keep_their_ends_and_their_course():
    for x, faster in zip(X, changed(X, Y, "tempo", 1), strict=True):
        np.testing.assert_allclose(faster[:, [0, -1]], x[:, [0, -1]])
        back = [
            np.interp(np.linspace(0, 1, 80), np.linspace(0, 1, len(row)), row) for row in faster
        ]
        assert np.abs(np.array(back) - x).mean() < 0.6 < x.std()


def test_each_series_has_a_unit_of_its_own():
    factors = [made / x for x, made in zip(X, changed(X, Y, "units", 1), strict=True)]
    assert all(np.ptp(factor) == pytest.approx(0, abs=1e-9) for factor in factors)
    sizes = np.log([factor.flat[0] for factor in factors])
    assert 0.8 < sizes.std() < 1.6


def test_the_sizes_of_classes_are_far_apart_and_those_of_both_splits():
    sizes = [np.log(np.array(changed(X, Y, "loads", seed)) / X)[:, 0, 0] for seed in (1, 2)]
    one, other = (each.reshape(3, 10).mean(axis=1) for each in sizes)
    np.testing.assert_allclose(np.ptp(one), 4 * np.log(10), atol=1.2)
    np.testing.assert_allclose(one, other, atol=1.2)
    within = sizes[0].reshape(3, 10).std(axis=1)
    assert ((within > 0.6) & (within < 1.8)).all()


@pytest.mark.parametrize("change", ["cut", "tempo", "units", "loads"])
def test_train_and_test_series_are_changed_each_in_its_own_way(change):
    one, again, other = (changed(X, Y, change, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
