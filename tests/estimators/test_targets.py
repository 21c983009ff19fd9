"""Targets: missing, too few, several for each series, and in another order than X."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from small_estimators import FIVE, convolutions, encoder

from tsformer.data.containers import to_items
from tsformer.estimators.targets import read_targets
from tsformer.inspection import permutation_importance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2, 20))
Y = np.array(["no", "yes"] * 6)
ESTIMATORS = {name: make() for name, make in FIVE.items() if name != "encoder"}
MISSING = {
    "list": ["no", "yes", None] * 4,
    "NA": pd.Series(["no", "yes", pd.NA] * 4),
    "NaT": pd.DataFrame([True, False, pd.NaT] * 4),
    "Int64": pd.array([1, 0, None] * 4, dtype="Int64"),
    "category": pd.Categorical(["no", "yes", None] * 4),
    "float": np.array([1.0, 0.0, np.nan] * 4),
    "masked": np.ma.array([1, 0, 2] * 4, mask=[0, 0, 1] * 4),
    "masked each": [1, 0, np.ma.masked] * 4,
}


@pytest.mark.parametrize("name", MISSING)
def test_a_missing_label_is_named_by_its_place(name):
    with pytest.raises(ValueError, match="2, 5, 8, 11"):
        read_targets(MISSING[name], "y")


@pytest.mark.parametrize(
    "y",
    [
        np.zeros(12, [("a", int), ("b", int)]),
        [[1, 2]] * 12,
        pd.DataFrame({"id": range(12), "label": Y}),
        "label",
        [1, "ill"] * 6,
        np.linspace(0.1, 0.9, 12),
        pd.cut(range(12), 2),
        torch.full((12, 3), 2.0),
        [["a"], ["a", "b"]] * 6,
        [{"a"}, {"a", "b"}] * 6,
        pd.Series([["a"], ["a", "b"]] * 6),
    ],
    ids=lambda value: type(value).__name__,
)
def test_labels_of_other_shapes_are_refused(y):
    with pytest.raises((ValueError, TypeError)):
        convolutions().fit(X, y)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([1, 0] * 6, dtype=object), [0, 1]),  # as in table.to_numpy()[:, -1]
        (torch.arange(12.0, requires_grad=True) // 6, [0.0, 1.0]),
        (list(torch.arange(12) % 2), [0, 1]),
        (pd.array([2**60, 2**60 + 1] * 6, dtype="Int64"), [2**60, 2**60 + 1]),  # one as floats
        (pd.Series([True, False] * 6, dtype="category"), [False, True]),
        ([np.longdouble(1), np.longdouble(0)] * 6, [0.0, 1.0]),
        (np.array(["no", "yes"] * 6, dtype=np.dtypes.StringDType()), ["no", "yes"]),
        (["a\udc80", "b"] * 6, ["a\udc80", "b"]),  # names of files that are no UTF-8
    ],
    ids=lambda value: type(value).__name__,
)
def test_labels_that_are_accepted(y, classes):
    labels = read_targets(y, "y")
    assert labels.dtype.kind in "bifU"
    unique = np.unique(labels).tolist()
    assert (unique, [*map(type, unique)]) == (classes, [*map(type, classes)])


@pytest.mark.parametrize("labels", [[1], ["yes", "nan", "no"], ["yes", "", "no"]], ids=str)
def test_one_class_and_labels_that_may_be_missing_are_warned_of(labels):
    with pytest.warns(UserWarning):
        convolutions().fit(X, np.resize(labels, len(X)))


IDS = [f"p{i:02d}" for i in range(12)]
PANEL = pd.concat([pd.DataFrame(x.T, columns=["a", "b"]) for x in X], keys=IDS)
FRAMES = to_items(PANEL)  # with their ids, as of `from_long`
NUMBERS = pd.Series(np.tile([0, 1], 6), index=IDS)
SORTED = NUMBERS.sort_values(kind="stable")
ONES = pd.Series(1.0, index=SORTED.index)
#: Targets and weights that `fit` and `score` refuse: missing, fewer, negative, huge, a dict, or in
#: another order.
WRONG = [
    *(([None, *NUMBERS[1:]], None), (NUMBERS.to_numpy()[:-1], None), (NUMBERS, np.ones(11))),
    *((NUMBERS, [1, -1] * 6), (NUMBERS, np.full(12, 1e308)), (NUMBERS, {0: 1.0, 1: 2.0})),
    *((SORTED, None), (NUMBERS, ONES)),
]


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fit_and_score_refuse_wrong_targets_and_weights(name):
    fitted = clone(ESTIMATORS[name]).fit(PANEL, NUMBERS, sample_weight=ONES.loc[IDS])
    assert np.array_equal(fitted.predict(PANEL), fitted.predict(X))
    calls = [clone(fitted).fit, fitted.score, getattr(fitted, "score_parts", fitted.score)]
    for y, weight in WRONG:
        for call in calls:
            with pytest.raises((ValueError, TypeError)):
                call(FRAMES, y, sample_weight=weight)
    for y_val in (WRONG[0][0], SORTED):
        if name in ("classifier", "regressor"):
            with pytest.raises(ValueError):
                clone(fitted).fit(PANEL, NUMBERS, X_val=FRAMES, y_val=y_val)
    with pytest.raises(ValueError):
        permutation_importance(fitted, PANEL, SORTED)


def test_ids_of_weights_labels_and_times_in_another_order():
    fitted = clone(ESTIMATORS["classifier"]).fit(PANEL, NUMBERS)
    times = pd.DataFrame(np.tile(np.arange(20.0), (12, 1)), index=SORTED.index)
    for call, name, value in (
        (encoder().fit, "sample_weight", ONES),
        (fitted.calibrate, "y", SORTED),
        (fitted.calibrate_sets, "y", SORTED),
        (fitted.explain, "target", SORTED),
        (partial(fitted.calibrate, y=NUMBERS), "sample_weight", ONES),
        (partial(fitted.fit, y=NUMBERS), "groups", SORTED),
        (partial(fitted.fit, y=NUMBERS), "times", times),
    ):
        with pytest.raises(ValueError):
            call(FRAMES, **{name: value})


@pytest.mark.parametrize("container", [list, pd.Series, pd.Categorical, pd.DataFrame])
def test_labels_that_differ_after_a_nul_are_refused(container):
    with pytest.raises(ValueError):
        read_targets(container(["a\0x", "a\0y"] * 6), "y")
