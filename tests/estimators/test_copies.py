"""Equal series are one group: nothing is judged by a copy of what it was fitted to."""

import warnings
from typing import Any

import numpy as np
import pytest
from small_estimators import classifier, convolutions, encoder, ensemble, regressor

from tsformer import EarlyClassifier, RandomConvolutionClassifier
from tsformer.data.containers import to_source
from tsformer.estimators.copies import first_equal, merge_copies

STEPS = np.arange(40)


def problem(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Series of two classes that overlap."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    wave = np.sin(STEPS / (3 + 0.35 * y[:, None]) + rng.uniform(0, 6, (n, 1)))
    return (wave + rng.normal(size=(n, 40)))[:, None], y


X, Y = problem(50, 0)
TWICE, Y_TWICE = np.concatenate([X, X]), np.concatenate([Y, Y])
NEW, Y_NEW = problem(400, 1)
copied = pytest.mark.filterwarnings("ignore:.*series equal another one")


def test_equal_series_have_the_index_of_the_first():
    a, b = np.arange(5.0), np.r_[0.0, 1.0, np.nan, 3.0]
    ragged = [a, a[:4], -0.0 + b, a, np.where(b == 0, -0.0, b), a[:4]]
    series = to_source([x[None] for x in ragged])
    assert first_equal(series).tolist() == [0, 1, 2, 0, 2, 1]
    times = [np.arange(len(x)) * (1.0 + (i == 3)) for i, x in enumerate(ragged)]
    timed = to_source([x[None] for x in ragged], times)
    assert first_equal(timed).tolist() == [0, 1, 2, 3, 2, 1]


def test_groups_that_share_equal_series_are_joined():
    first = np.array([0, 1, 2, 0, 4, 4])
    for groups, joined in (
        (None, [0, 1, 2, 0, 3, 3]),
        (np.array([0, 0, 1, 2, 1, 1]), [0, 0, 1, 0, 1, 1]),
        (np.array([0, 0, 0, 1, 1, 1]), [0, 0, 0, 1, 1, 1]),  # all of them would be
    ):
        with pytest.warns(UserWarning, match="2 of 6 series"):
            assert merge_copies(groups, first).tolist() == joined
    within = np.array([0, 1, 1, 0, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert merge_copies(within, first) is within
        assert merge_copies(None, np.arange(6)) is None


RARE = np.flatnonzero(Y == 1)[:8]
DATA = {
    "once": (X, Y),
    "twice": (TWICE, Y_TWICE),
    "rare class": (np.concatenate([X[Y == 0], X[np.tile(RARE, 3)]]), np.repeat([0, 1], [25, 24])),
}


@copied
def test_copies_leave_what_is_left_out_as_it_is_without_them():
    fits = {
        name: RandomConvolutionClassifier(1000, n_groups=8, scaling="series", random_state=0)
        .fit(*data)
        .calibrate_sets()
        for name, data in DATA.items()
    }
    counts = {name: len(clf.conformal_.scores[0]) for name, clf in fits.items()}
    assert counts == {"once": 50, "twice": 50, "rare class": 33}
    for name, clf in fits.items():
        assert clf.model_.ridge.unexplained > 0.8
        sets = clf.predict_set(NEW, coverage=0.9)
        frequency = np.array([25, 8 if name == "rare class" else 25])  # without copies
        covered = np.average(sets[np.arange(400), Y_NEW], weights=frequency[Y_NEW])
        assert 0.83 <= covered <= 0.98
        assert (clf.novelty_score(NEW) > 1).mean() <= 0.1


TINY: dict[str, Any] = {"max_epochs": 1, "stem": "linear", "scaling": None}
HOLDING_OUT = TINY | {"early_stopping": True, "validation_fraction": 0.25}


@pytest.mark.parametrize(
    "estimator",
    [
        classifier(**HOLDING_OUT),
        regressor(**HOLDING_OUT),
        encoder(**HOLDING_OUT),
        ensemble(transformer=HOLDING_OUT),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_no_copy_of_a_held_out_series_is_trained_on(estimator, trained):
    with pytest.warns(UserWarning, match="50 of 100 series") as caught:
        estimator.fit(TWICE, Y_TWICE)
    assert sum("equal another one" in str(each.message) for each in caught) == 1
    own, held_out = ({row.tobytes() for row in values} for values in trained[0])
    assert held_out
    assert not own & held_out


@copied
def test_folds_of_a_calibration_have_all_copies_or_none(trained):
    classifier(**TINY).fit(TWICE, Y_TWICE).calibrate(TWICE, Y_TWICE, cv=3)
    distinct = [len({row.tobytes() for row in own}) for (own,) in trained]
    assert distinct == [50, 33, 33, 34]


@copied
def test_early_answers_are_not_judged_by_copies():
    labels = np.tile(np.random.default_rng(0).integers(2, size=50), 2)  # which only a copy knows
    early = EarlyClassifier(convolutions(), points=2).fit(TWICE, labels)
    assert early.trade_offs_.accuracy.max() < 0.7
    assert early.trade_offs_.accuracy.max() < early.score(TWICE, labels)
