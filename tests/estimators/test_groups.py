"""Which series are held out; no group, such as a person, is both trained on and held out."""

import warnings

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import StratifiedGroupKFold
from small_estimators import FIVE, classifier

from tsformer import RandomConvolutionClassifier
from tsformer.data.containers import to_source
from tsformer.estimators.groups import first_equal, group_folds, hold_out, merge_copies

TINY = {"max_epochs": 1, "stem": "linear", "scaling": None}
N, N_GROUPS = 48, 8
GROUPS = np.arange(N) % N_GROUPS
Y = np.arange(N) // N_GROUPS % 2
NAMES = np.array([f"person {group}" for group in GROUPS])


def series(groups: np.ndarray = GROUPS) -> np.ndarray:
    """Series that begin with the number of their group."""
    X = np.random.default_rng(0).normal(size=(len(groups), 1, 12))
    X[:, 0, 0] = groups
    return X


X = series()
HOLDING_OUT = TINY | {"early_stopping": True, "validation_fraction": 0.25}
ESTIMATORS = {
    name: FIVE[name](**HOLDING_OUT) for name in ("classifier", "regressor", "encoder")
} | {
    "members": classifier(**HOLDING_OUT, n_estimators=2),
    "ensemble": FIVE["ensemble"](transformer=HOLDING_OUT),
}


def groups_of(run: list[np.ndarray]) -> list[set[int]]:
    """The groups of a training run: trained on, and held out."""
    return [{*values[:, 0, 0].astype(int).tolist()} for values in run]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_held_out_groups_are_not_trained_on(name, trained):
    estimator = sklearn.clone(ESTIMATORS[name])
    estimator.fit(X, Y)
    on, out = groups_of(trained[-1])
    assert on & out, "without groups they are mixed"
    estimator.fit(X, Y, groups=NAMES)
    on, out = groups_of(trained[-1])
    assert not on & out
    assert len(out) == 2


@pytest.mark.parametrize(
    "groups",
    [
        NAMES[1:],
        np.where(GROUPS == 3, np.nan, GROUPS),
        [None, *NAMES[1:]],
        np.zeros(N),
        Y,  # each fold has all series of some class
        np.where(np.arange(N) == 9, "person 1 ", NAMES),
        np.column_stack([NAMES, NAMES]),
    ],
    ids=["fewer", "NaN", "None", "one", "classes", "blank", "columns"],
)
def test_invalid_groups_are_refused(groups):
    with pytest.raises(ValueError):
        sklearn.clone(ESTIMATORS["ensemble"]).fit(X, Y, groups=groups)


def test_calibration_divides_series_by_groups(trained):
    signal = X.copy()
    signal[:, 0, 3:] += 0.5 * Y[:, None]
    clf = classifier(**TINY).fit(signal, Y)
    folds = list(StratifiedGroupKFold(3).split(X, Y, NAMES))
    expected = [{*GROUPS[train].tolist()} for train, _ in folds]
    for cv in (3, StratifiedGroupKFold(3)):
        trained.clear()
        clf.calibrate(signal, Y, cv=cv, groups=NAMES)
        assert [on for (on,) in map(groups_of, trained)] == expected


def counts(targets: np.ndarray, held_out: np.ndarray) -> list[int]:
    return np.bincount(targets[held_out], minlength=targets.max() + 1).tolist()


@pytest.mark.parametrize(
    ("sizes", "fraction", "expected"),
    [
        ([50, 30, 20], 0.1, [5, 3, 2]),
        ([50, 30, 20], 0.5, [25, 15, 10]),
        ([2, 1], 0.01, [1, 0]),  # at least one, and not the last of a class
        ([1, 2, 40], 0.99, [0, 1, 39]),
        ([3] * 20, 0.1, None),  # small classes give together
    ],
)
def test_each_class_gives_its_part(sizes, fraction, expected):
    targets = np.repeat(np.arange(len(sizes)), sizes)
    held_out = hold_out(targets, fraction, seed=0)
    assert held_out.dtype == bool
    assert counts(targets, held_out) == expected if expected else held_out.sum() == 6


def test_no_class_can_lose_its_last_member():
    with pytest.raises(ValueError):
        hold_out(np.arange(3), 0.1, seed=0)


@pytest.mark.parametrize("fraction", [0.1, 0.3, 0.9])
def test_whole_groups_are_held_out(fraction):
    groups = np.repeat(np.arange(12), 10)
    held_out = hold_out(np.tile([0, 1], 60), fraction, 0, groups)
    assert not set(groups[held_out]) & set(groups[~held_out])
    assert held_out.mean() == pytest.approx(fraction, abs=0.09)
    targets = np.repeat([0, 1, 2], [60, 50, 10])  # the third class has one group
    for seed in range(5):
        assert 2 in targets[~hold_out(targets, 0.1, seed, groups)]


def test_folds_of_groups_have_like_shares_of_each_class():
    targets = np.random.default_rng(0).permutation(np.repeat([0, 1, 2], [300, 80, 20]))
    folds = group_folds(targets, np.arange(400) // 4, 5, seed=0)
    assert (np.sum(folds, axis=0) == 1).all()
    for fold in folds:
        assert counts(targets, fold) == pytest.approx([60, 16, 4], abs=1)


def problem(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Series of two classes that overlap."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    wave = np.sin(np.arange(40) / (3 + 0.35 * y[:, None]) + rng.uniform(0, 6, (n, 1)))
    return (wave + rng.normal(size=(n, 40)))[:, None], y


DRAWN, LABELS = problem(50, 0)
TWICE, Y_TWICE = np.concatenate([DRAWN, DRAWN]), np.concatenate([LABELS, LABELS])
NEW, Y_NEW = problem(400, 1)
copied = pytest.mark.filterwarnings("ignore:.*series equal another")


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
        with pytest.warns(UserWarning):
            assert merge_copies(groups, first).tolist() == joined
    within = np.array([0, 1, 1, 0, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert merge_copies(within, first) is within
        assert merge_copies(None, np.arange(6)) is None


@pytest.mark.parametrize("n_groups", [1, N_GROUPS, None])
def test_scores_name_what_was_left_out(n_groups):
    groups = None if n_groups is None else GROUPS % n_groups
    clf = FIVE["convolutions"]().fit(X, Y, groups=groups)
    assert (
        f"accuracy, leaving out {'groups' if n_groups == N_GROUPS else 'single series'}"
        in (clf.facts_["scores"])
    )


@copied
def test_copies_leave_what_is_left_out_as_it_is_without_them():
    for data in ((DRAWN, LABELS), (TWICE, Y_TWICE)):
        clf = RandomConvolutionClassifier(1000, n_groups=8, scaling="series", random_state=0)
        clf.fit(*data).calibrate_sets()
        assert len(clf.conformal_.scores[0]) == 50
        assert clf.model_.ridge.unexplained > 0.8
        covered = clf.predict_set(NEW, coverage=0.9)[np.arange(400), Y_NEW].mean()
        assert 0.83 <= covered <= 0.98
        assert (clf.novelty_score(NEW) > 1).mean() <= 0.1


@pytest.mark.parametrize("name", ESTIMATORS)
def test_no_copy_of_a_held_out_series_is_trained_on(name, trained):
    with pytest.warns(UserWarning) as caught:
        sklearn.clone(ESTIMATORS[name]).fit(TWICE, Y_TWICE)
    assert sum("equal another" in str(warning.message) for warning in caught) == 1
    trained_on, held_out = ({row.tobytes() for row in values} for values in trained[0])
    assert held_out
    assert not trained_on & held_out
