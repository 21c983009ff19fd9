"""Permutation importance of channels and windows."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from small_estimators import KERNELS, convolutions, regressor

from tsformer import RandomConvolutionClassifier
from tsformer.inspection import permutation_importance


def problem(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Two classes by the level of channel 1 in the third fifth of the series."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    X = rng.normal(size=(n, 3, 30))
    X[:, 1, 12:18] += 3 * (2 * y[:, None] - 1)
    return X, y


@pytest.fixture(scope="module")
def fitted():
    return convolutions(n_features=840, scaling="channel").fit(*problem(60))


def test_the_window_that_tells_is_found(fitted):
    result = permutation_importance(
        fitted, *problem(60, 1), by="window", n_windows=5, n_repeats=2, random_state=0
    )
    np.testing.assert_allclose(result.edges, [0, 0.2, 0.4, 0.6, 0.8, 1])
    assert result.importances_mean[2] > 0.3
    assert np.abs(np.delete(result.importances_mean, 2)).max() < 0.1


class Level(RandomConvolutionClassifier):
    """Reads series as the package does, and scores their mean."""

    def score(self, X, y, sample_weight=None):
        self.seen.append(X)
        return float(np.nanmean(X.values[..., 0]))


def exchanged(**options):
    """Return series of unequal length, the scored series, and the donors of their values."""
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(2, n)) for n in (10, 14, 9)]
    clf = Level(**KERNELS, random_state=0).fit(X * 3, [0, 1, 1] * 3)
    clf.seen = []
    permutation_importance(clf, X, [0, 1, 1], n_repeats=1, random_state=3, **options)
    donors = np.random.RandomState(3).permutation(3)
    assert donors.tolist() != [0, 1, 2]
    before, *after = clf.seen
    return X, before, after, donors


def test_what_is_exchanged_against_plain_loops():
    X, before, after, donors = exchanged()
    for channel, changed in enumerate(after):
        np.testing.assert_array_equal(changed.lengths, before.lengths)
        for i, x in enumerate(X):
            n, donor = x.shape[1], X[donors[i]]
            index = [round(step / (n - 1) * (donor.shape[1] - 1)) for step in range(n)]
            expected = x.copy()
            expected[channel] = donor[channel, index]
            np.testing.assert_array_equal(changed.values[i, :n].T, expected)
            assert np.isnan(changed.values[i, n:]).all()


def test_windows_cover_each_step_once():
    X, before, after, donors = exchanged(by="window", n_windows=4)
    changed = np.stack([~np.isclose(x.values, before.values, equal_nan=True) for x in after])
    assert changed.sum(axis=0)[~np.isnan(before.values)].max() == 1
    for i, donor in enumerate(donors):
        assert changed[:, i].any() == (donor != i)
        if donor != i:
            assert changed[:, i, : len(X[i].T)].any(axis=(0, 2)).all()


def test_times_and_scorers_of_a_regressor():
    rng = np.random.default_rng(0)
    X, times = rng.normal(size=(20, 2, 12)), np.cumsum(rng.uniform(0.5, 2, (20, 12)), axis=1)
    reg, options = regressor().fit(X, X[:, 0, 0], times=times), {"times": times, "n_repeats": 2}
    scores, errors = (
        permutation_importance(reg, X, X[:, 0, 0], scoring=name, random_state=0, **options)
        for name in (None, "neg_mean_absolute_error")
    )
    assert (errors.importances != 0).any()
    assert (errors.importances != scores.importances).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "windows"}, "'window'"),
        ({"y": None}, "None"),
        ({"y": [0, 1]}, "2 values"),
    ],
)
def test_errors_say_what_is_allowed(options, message, fitted):
    X, y = problem(6)
    with pytest.raises((ValueError, TypeError), match=message):
        permutation_importance(fitted, **{"X": X, "y": y} | options)
    with pytest.raises(TypeError):
        permutation_importance(make_pipeline(fitted), X, y)


def test_absent_importances_point_here(fitted):
    assert not hasattr(fitted, "feature_importances_")
    with pytest.raises(AttributeError, match="permutation_importance"):
        fitted.feature_importances_  # noqa: B018
