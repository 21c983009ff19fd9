"""The synthetic problem whose decisive window and channel are known."""

from __future__ import annotations

import numpy as np
import pytest

from tsformer.data import make_window_task


def test_the_window_alone_tells_the_classes_apart():
    X, y, decisive = make_window_task(400, 40, n_channels=2, window=6, random_state=0)
    assert X.shape == decisive.shape == (400, 2, 40)
    assert (decisive.sum(axis=(1, 2)) == 6).all()
    assert not decisive[:, 1].any()
    assert np.unique(y, return_counts=True)[1].tolist() == [200, 200]
    windows = X[decisive].reshape(400, 6)
    first = windows[:, :3].mean(axis=1) > windows[:, 3:].mean(axis=1)
    assert ((y == "up first") == first).mean() > 0.95
    outside = np.where(decisive, np.nan, X)
    assert np.nanstd(outside) == pytest.approx(0.3, rel=0.02)
    begins = decisive[:, 0].argmax(axis=1)
    assert (begins.min(), begins.max()) == (0, 34)


def test_without_noise_all_else_is_zero():
    X, y, decisive = make_window_task(4, noise=0.0, random_state=0)
    assert (X[~decisive] == 0).all()
    one, other = (X[y == label][0][0][decisive[y == label][0][0]] for label in sorted(set(y)))
    np.testing.assert_allclose(one, -other)
    again, _, _ = make_window_task(4, noise=0.0, random_state=0)
    np.testing.assert_array_equal(X, again)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_cases": 1}, "at least 2, a series per class; got 1"),
        ({"n_channels": 0}, "n_channels must be at least 1"),
        ({"window": 33}, "from 2 to the length, 32; got 33"),
        ({"noise": -1.0}, "must be >= 0; got -1"),
    ],
)
def test_impossible_tasks_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        make_window_task(**options)
