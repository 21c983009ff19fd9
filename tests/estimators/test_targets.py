"""Targets: missing, too few, several for each series, and in another order than X."""

import warnings
from functools import partial
from warnings import catch_warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from small_estimators import FIVE, convolutions, encoder

from tsformer import TSTransformerClassifier
from tsformer.estimators.targets import read_targets
from tsformer.inspection import permutation_importance

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2, 20))
Y = np.array(["no", "yes"] * 6)
ESTIMATORS = {name: make() for name, make in FIVE.items() if name != "encoder"}
MISSING = {"None": None, "nan": np.nan, "NA": pd.NA, "NaT": pd.NaT}


def missing(values, missing, at):
    labels = np.array(values, dtype=object)
    labels[list(at)] = missing
    return labels


@pytest.mark.parametrize("value", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("labels", [Y, [True, False] * 6], ids=["str", "bool"])
@pytest.mark.parametrize("container", [list, np.asarray, pd.Series, pd.DataFrame])
def test_a_missing_label_is_named_by_its_place(container, labels, value):
    y = container(missing(labels, value, at=(3, 7)))
    place = r"^Input y contains NaN: 2 of 12 values are missing, at series 3, 7; drop these series"
    with pytest.raises(ValueError, match=place):
        read_targets(y, "y")


@pytest.mark.parametrize(
    "y",
    [
        pd.array(["no", "yes", None] * 4, dtype="string"),
        pd.array([1, 0, None] * 4, dtype="Int64"),
        pd.array([True, False, None] * 4, dtype="boolean"),
        pd.Categorical(["no", "yes", None] * 4),
        pd.to_datetime(["2024", "2025", None] * 4, format="%Y"),
        np.array([1.0, 0.0, np.nan] * 4),
        np.ma.array([1, 0, 2] * 4, mask=[0, 0, 1] * 4),
        [1, 0, np.ma.masked] * 4,
    ],
    ids=["string", "Int64", "boolean", "category", "dates", "float", "masked", "masked each"],
)
def test_missing_labels_of_any_type(y):
    with pytest.raises(ValueError, match="4 of 12 values are missing, at series 2, 5, 8, 11"):
        read_targets(y, "y")


def test_a_long_list_of_places_is_shortened():
    with pytest.raises(ValueError, match=r"11 of 12 .* 8, 9, 10, [.]"):
        read_targets(["a", *[None] * 11], "y")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(12, [("a", int), ("b", int)]), r"fields \('a', 'b'\); pass one of them, as y"),
        ([[1, 2]] * 12, r"of shape \(12, 2\); pass one of its columns \[0, 1\]"),
        (pd.DataFrame({"id": range(12), "label": Y}), r"pass one of its columns \['id', 'label'\]"),
        ("label", r"got the string 'label'. For a column of a table pass table\['label'\]"),
        (missing(Y, 1, at=(2,)), r"y mixes values of types int, str; make all of them strings"),
        ([1, "ill"] * 6, r"y mixes values of types int, str; make all of them strings"),
        (np.linspace(0.1, 0.9, 12), "continuous.* To predict numbers use TSTransformerRegressor"),
        (pd.cut(range(12), 2), r"labels of type Interval; .* text, as in \[str\(label\) for"),
    ],
)
def test_labels_of_other_shapes_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        convolutions().fit(X, y)


SEVERAL = {
    "array": np.array([[0, 1], [1, 0], [1, 2]] * 4),
    "frame": pd.DataFrame({"a": [0.5, 1] * 6, "b": [1, 2] * 6}),
    "lists": [[0, 1], [1, 3]] * 6,
    "tensor": torch.full((12, 3), 2.0),
    "text": [["no", "ill"], ["yes", "well"]] * 6,
    "lists of unequal length": [["a"], ["a", "b"]] * 6,
    "sets": [{"a"}, {"a", "b"}] * 6,
    "column of lists": pd.Series([["a"], ["a", "b"]] * 6),
    "three axes": np.zeros((12, 2, 2)),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_several_targets_that_are_not_0_and_1(name):
    with pytest.raises(ValueError, match=r"MultiOutputClassifier\(est.* or MultiOutputRegressor"):
        convolutions().fit(X, SEVERAL[name])


def test_several_columns_of_groups():
    with pytest.raises(ValueError, match=r"groups .* shape \(12, 2\)"):
        read_targets(np.zeros((12, 2)), "groups")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_targets(np.zeros((12, 1)), "groups").shape == (12,)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([1, 0] * 6, dtype=object), [0, 1]),  # as in table.to_numpy()[:, -1]
        (np.array([True, False] * 6, dtype=object), [False, True]),
        (torch.arange(12) % 2, [0, 1]),
        (torch.arange(12.0, requires_grad=True) // 6, [0.0, 1.0]),
        (list(torch.arange(12) % 2), [0, 1]),
        (pd.array([2**60, 2**60 + 1] * 6, dtype="Int64"), [2**60, 2**60 + 1]),  # one as floats
        (pd.Series([True, False] * 6, dtype="boolean"), [False, True]),
        (pd.Series([True, False] * 6, dtype="category"), [False, True]),
        ([np.longdouble(1), np.longdouble(0)] * 6, [0.0, 1.0]),
        (np.array(["no", "yes"] * 6, dtype=np.dtypes.StringDType()), ["no", "yes"]),
    ],
    ids=[
        *("objects", "bools", "tensor", "with gradient", "tensors", "nullable", "nullable bools"),
        *("categories", "long doubles", "text of any length"),
    ],
)
def test_labels_that_are_accepted(y, classes):
    labels = read_targets(y, "y")
    assert labels.dtype.kind in "bifU"
    found = np.unique(labels).tolist()
    assert (found, [*map(type, found)]) == (classes, [*map(type, classes)])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1], "all series have the label '1', which"),
        (["yes", "nan", "no"], r"the labels \['nan'\] are read as classes; where"),
        (["yes", "", "no"], r"the labels \[''\] are read as classes"),
        ([f"{i / 2}" for i in range(12)], "the 12 labels such as '0.0' are read as names of"),
        (["yes"] * 11 + ["Total"], r"the labels \['Total'\] have one series each"),
        (["yes"] * 9 + ["no", "maybe", "yes"], None),
        (["a", "A", "None"], None),
        ([1, 2, 10], None),
        ([f"{i}.0" for i in range(12)], None),
    ],
)
def test_labels_that_are_probably_misspelled_are_warned_of(labels, message):
    with pytest.warns(UserWarning, match=message) if message else catch_warnings(action="error"):
        convolutions().fit(X, np.resize(labels, len(X)))


def test_labels_in_a_column_of_arrow():
    pa = pytest.importorskip("pyarrow", reason='needs the extra "parquet"')
    table = pa.table({"label": ["no", "yes"]})
    assert read_targets(table["label"], "y").tolist() == ["no", "yes"]


# --- in every estimator ------------------------------------------------------------------------

IDS = [f"p{i:02d}" for i in range(12)]
PANEL = pd.concat([pd.DataFrame(x.T, columns=["a", "b"]) for x in X], keys=IDS)
NUMBERS = pd.Series(np.tile([0, 1], 6), index=IDS)
SORTED = NUMBERS.sort_values(kind="stable")
ONES = pd.Series(1.0, index=SORTED.index)
FEW = "X has 12 series, but {} has 11 values; pass one value per series"
#: Targets and weights, and why `fit` and `score` refuse them.
WRONG = {
    "missing": ([None, *NUMBERS[1:]], None, "Input y contains NaN: 1 of 12 .* at series 0;"),
    "fewer": (NUMBERS.to_numpy()[:-1], None, FEW.format("y")),
    "fewer weights": (NUMBERS, np.ones(11), FEW.format("sample_weight")),
    "negative weights": (NUMBERS, [1, -1] * 6, "Negative values in data passed to `sample_w"),
    "huge weights": (NUMBERS, np.full(12, 1e308), "the sum of sample_weight overflows float64"),
    "another order": (SORTED, None, "X and y have the same ids in another order"),
    "weights": (NUMBERS, ONES, r"X and sample_weight .* another order: X has \['p00', 'p01'"),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_fit_and_score_refuse_wrong_targets_and_weights(name):
    fitted = clone(ESTIMATORS[name]).fit(PANEL, NUMBERS, sample_weight=ONES.loc[IDS])
    assert np.array_equal(fitted.predict(PANEL), fitted.predict(X))
    calls = [clone(fitted).fit, fitted.score, getattr(fitted, "score_parts", fitted.score)]
    for y, weight, message in WRONG.values():
        for call in calls:
            with pytest.raises(ValueError, match=f"^{message}"):
                call(PANEL, y, sample_weight=weight)
    with pytest.raises(ValueError, match=r"^X and y have the same ids"):
        permutation_importance(fitted, PANEL, SORTED)


@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_wrong_targets_of_validation_data_are_refused(name):
    for y_val, message in (
        (WRONG["missing"][0], "Input y_val contains NaN: 1 of 12"),
        (SORTED, "X_val and y_val have the same ids in another order"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            clone(ESTIMATORS[name]).fit(PANEL, NUMBERS, X_val=PANEL, y_val=y_val)


def test_ids_of_weights_labels_and_times_in_another_order():
    with pytest.raises(ValueError, match=r"^X and sample_weight have the same ids"):
        encoder().fit(PANEL, sample_weight=ONES)
    fitted = clone(ESTIMATORS["classifier"]).fit(PANEL, NUMBERS)
    for call, name in (
        *((fitted.calibrate, "y"), (fitted.calibrate_sets, "y"), (fitted.explain, "target")),
        (partial(fitted.calibrate, y=NUMBERS), "sample_weight"),
        (partial(fitted.fit, y=NUMBERS), "groups"),
    ):
        with pytest.raises(ValueError, match=f"^X and {name} have the same ids in another"):
            call(PANEL, **{name: SORTED})
    times = pd.DataFrame(np.tile(np.arange(20.0), (12, 1)), index=SORTED.index)
    with pytest.raises(ValueError, match=r"^X and times have the same ids"):
        clone(fitted).fit(PANEL, NUMBERS, times=times)


# --- NUL characters ----------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [("a\0", "a"), ("a\0x", "a\0y"), ("a", "\0")])
@pytest.mark.parametrize(
    "container",
    [list, tuple, pd.Series, pd.Categorical, pd.DataFrame, lambda y: np.array(y, dtype=object)],
)
def test_labels_that_differ_after_a_nul_are_refused(container, labels):
    with pytest.raises(ValueError, match=r"^y has text with a NUL character"):
        read_targets(container(list(labels) * 6), "y")


def test_weights_as_a_dict_are_refused_by_name():
    with pytest.raises(TypeError, match=r"sample_weight .* of the 12"):
        convolutions().fit(X, Y, sample_weight={0: 1.0, 1: 2.0})


def test_a_wrong_option_fails_before_the_scaling_is_chosen(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(24, 1, 30)), [0, 1] * 12
    monkeypatch.setattr(
        "tsformer.estimators.settings.suited_scaling",
        lambda *data: pytest.fail("scaling was chosen"),
    )
    for wrong in ({"encoding": "lsp"}, {"n_heads": 3}, {"compile": "cuda-graphs"}):
        with pytest.raises(ValueError, match=r"lspe|n_heads|CUDA"):
            TSTransformerClassifier(**wrong, device="cpu").fit(X, y)
