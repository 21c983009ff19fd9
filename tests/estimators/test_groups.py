"""Groups of series, such as persons: no group is both trained on and held out."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, cross_validate
from small_estimators import FIVE, classifier, convolutions

from tsformer.estimators import base

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


@pytest.fixture
def trained(monkeypatch) -> list[tuple[set[int], set[int]]]:
    """The groups of each training run: trained on, and held out."""
    runs, train = [], base.train_ensemble

    def recording(models, panel, *args, validation, **kwargs):
        panels = [panel, *([] if validation is None else [validation.panel])]
        runs.append(tuple({*each.values[:, 0, 0].long().tolist()} for each in panels))
        return train(models, panel, *args, validation=validation, **kwargs)

    monkeypatch.setattr(base, "train_ensemble", recording)
    return runs


@pytest.mark.parametrize("name", ESTIMATORS)
def test_held_out_groups_are_not_trained_on(name, trained):
    estimator = sklearn.clone(ESTIMATORS[name])
    estimator.fit(X, Y)
    ((on, out),) = trained
    assert on & out, "without groups they are mixed"
    estimator.fit(X, Y, groups=NAMES)
    on, out = trained[-1]
    assert not on & out
    assert len(out) == 2


def test_groups_are_routed(trained):
    with sklearn.config_context(enable_metadata_routing=True):
        clf = sklearn.clone(ESTIMATORS["classifier"]).set_fit_request(groups=True)
        params = {"groups": NAMES}
        cross_validate(clf, X, Y, cv=GroupKFold(4), params=params, error_score="raise")
    assert len(trained) == 4
    for on, out in trained:
        assert not on & out
        assert len(on | out) == 6


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (NAMES[1:], "X holds 48 series, but groups 47 values"),
        (np.where(GROUPS == 3, np.nan, GROUPS), "Input groups contains NaN: 6 of 48"),
        ([None, *NAMES[1:]], "Input groups contains NaN: 1 of 48"),
        (np.zeros(N), "all 48 series are in one group; pass X_val"),
        (np.c_[GROUPS, GROUPS], r"groups should be a 1d array .* shape \(48, 2\)"),
        (Y, "each fold of the 2 groups has all series of some class"),
    ],
)
def test_groups_that_are_none_are_refused(groups, message):
    with pytest.raises(ValueError, match=message):
        sklearn.clone(ESTIMATORS["ensemble"]).fit(X, Y, groups=groups)


@pytest.mark.parametrize("estimator", [classifier(), convolutions()])
def test_groups_with_the_ids_of_the_series_in_another_order_are_refused(estimator):
    ids = [f"s{i}" for i in range(N)]
    table, groups = pd.DataFrame(X[:, 0], index=ids), pd.Series(NAMES, index=ids)
    with pytest.raises(ValueError, match="X and groups have the same ids in another order"):
        sklearn.clone(estimator).fit(table, Y, groups=groups[::-1])


def test_groups_change_nothing_where_nothing_is_held_out():
    plain, grouped = (classifier(**TINY).fit(X, Y, groups=each) for each in (None, np.zeros(N)))
    np.testing.assert_array_equal(plain.predict_proba(X), grouped.predict_proba(X))
    given = classifier(**HOLDING_OUT).fit(X, Y, groups=np.zeros(N), X_val=X, y_val=Y)
    assert "val_loss" in given.history_[0]


def test_unlabelled_series_of_held_out_groups_are_not_pretrained_on(trained):
    y = np.where(np.random.default_rng(0).random(N) < 0.5, -1, Y)
    clf = sklearn.clone(ESTIMATORS["classifier"]).set_params(unlabelled="use")
    clf.fit(X, y, groups=NAMES)
    (pretrained, also_out), (on, out) = trained
    assert not on & out
    assert not (pretrained | also_out) & out
    assert not pretrained & also_out


def test_calibration_divides_series_by_groups(trained):
    signal = X.copy()
    signal[:, 0, 3:] += 0.5 * Y[:, None]
    clf = classifier(**TINY).fit(signal, Y)
    folds = list(StratifiedGroupKFold(3).split(X, Y, NAMES))
    expected = [{*GROUPS[train].tolist()} for train, _ in folds]
    for cv in (3, StratifiedGroupKFold(3)):
        trained.clear()
        clf.calibrate(signal, Y, cv=cv, groups=NAMES)
        assert [on for (on,) in trained] == expected
