"""Targets: where one is missing, how many there are, and what else is not one value a series."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.normal(size=(12, 2, 20))
Y = np.array(["no", "yes"] * 6)
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1}
PARTS = {
    "transformer_params": SMALL,
    "convolution_params": {"n_features": 168, "n_groups": 2},
}
ESTIMATORS = {
    "transformer": TSTransformerClassifier(**SMALL, random_state=0),
    "convolutions": RandomConvolutionClassifier(168, n_groups=2, random_state=0),
    "ensemble": TSEnsembleClassifier("fast", **PARTS, random_state=0),
    "regressor": TSTransformerRegressor(**SMALL, random_state=0),
}
MISSING = {"None": None, "nan": np.nan, "NA": pd.NA, "NaT": pd.NaT}


@pytest.fixture(params=ESTIMATORS)
def estimator(request):
    return ESTIMATORS[request.param]


def missing(values, missing, at):
    labels = np.array(values, dtype=object)
    labels[list(at)] = missing
    return labels


@pytest.mark.parametrize("value", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("labels", [Y, range(12), [True, False] * 6], ids=["str", "int", "bool"])
@pytest.mark.parametrize("container", [list, tuple, np.asarray, pd.Series, pd.DataFrame])
def test_a_missing_label_is_named_by_its_place(container, labels, value):
    y = container(missing(labels, value, at=(3, 7)))
    place = r"^Input y contains NaN: 2 of 12 values are missing, at series 3, 7; drop these series"
    with pytest.raises(ValueError, match=place):
        ESTIMATORS["transformer"].fit(X, y)


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
    ],
    ids=["string", "Int64", "boolean", "category", "dates", "float", "masked"],
)
def test_missing_labels_of_any_type(y):
    with pytest.raises(ValueError, match="4 of 12 values are missing, at series 2, 5, 8, 11; drop"):
        ESTIMATORS["convolutions"].fit(X, y)


def test_missing_targets_in_each_estimator_and_method(estimator):
    y = list(np.arange(12.0) % 2)
    fitted = estimator.fit(X, y)
    y[0] = None
    at = "Input {} contains NaN: 1 of 12 values are missing, at series 0;"
    with pytest.raises(ValueError, match=at.format("y")):
        estimator.fit(X, y)
    with pytest.raises(ValueError, match=at.format("y")):
        fitted.score(X, y)
    if "transformer" in type(estimator).__name__.lower():
        with pytest.raises(ValueError, match=at.format("y_val")):
            estimator.fit(X, y=np.arange(12) % 2, X_val=X, y_val=y)


def test_no_more_than_ten_places_are_listed():
    with pytest.raises(ValueError, match=r"11 of 12 .* series 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, [.]"):
        ESTIMATORS["convolutions"].fit(X, ["a", *[None] * 11])


def test_the_number_of_targets_and_weights(estimator):
    y = np.arange(12) % 2
    few = "{} 11 values; there must be one value for each series"
    with pytest.raises(ValueError, match=f"^X holds 12 series, but {few.format('y')}"):
        estimator.fit(X, y[:-1])
    with pytest.raises(ValueError, match=f"^X holds 12 series, but {few.format('sample_weight')}"):
        estimator.fit(X, y, sample_weight=np.ones(11))
    fitted = estimator.fit(X, y)
    with pytest.raises(ValueError, match=f"^X holds 12 series, but {few.format('y')}"):
        fitted.score(X, y[:-1])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.eye(2)[[0, 1] * 6], r"of shape \(12, 2\). Its rows are one-hot: pass y.argmax.axis=1."),
        (torch.eye(2)[[0, 1] * 6], r"of shape \(12, 2\). Its rows are one-hot: pass y.argmax"),
        (pd.get_dummies(pd.Series(Y)), r"Its rows are one-hot: pass y.idxmax\(axis=1\)$"),
        ([[0, 1]] * 12, r"Its rows are one-hot: pass y.argmax"),
        ([[1, 1]] * 12, r"of shape \(12, 2\); pass one of its columns \[0, 1\]"),
        (pd.DataFrame({"id": range(12), "label": Y}), r"pass one of its columns \['id', 'label'\]"),
        ("label", r"got the string 'label'. For a column of a table pass table\['label'\]"),
        (missing(Y, 1, at=(2,)), r"y mixes values of types int, str; make all of them strings"),
        (np.linspace(0.1, 0.9, 12), "continuous.* To predict numbers use TSTransformerRegressor"),
    ],
)
def test_what_is_not_one_label_for_each_series(y, message):
    with pytest.raises(ValueError, match=message):
        ESTIMATORS["convolutions"].fit(X, y)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([1, 0] * 6, dtype=object), [0, 1]),  # as in table.to_numpy()[:, -1]
        (np.array([True, False] * 6, dtype=object), [False, True]),
        (torch.arange(12) % 2, [0, 1]),
        (torch.arange(12.0, requires_grad=True) // 6, [0.0, 1.0]),
        (list(torch.arange(12) % 2), [0, 1]),
    ],
    ids=["objects", "bools", "tensor", "with gradient", "tensors"],
)
def test_labels_that_are_accepted(y, classes):
    fitted = ESTIMATORS["convolutions"].fit(X, y)
    assert fitted.classes_.tolist() == classes
    assert 0 <= fitted.score(X, y) <= 1


@pytest.mark.parametrize(
    ("weight", "error", "message"),
    [
        ("balance", ValueError, "unknown class_weight 'balance': did you mean 'balanced'"),
        ([1, 2], TypeError, r"class_weight must be a dict from labels .*; got \[1, 2\]"),
        (np.ones(2), TypeError, r"class_weight must be a dict from labels .*; got array"),
    ],
)
def test_class_weights_of_no_known_kind(weight, error, message):
    with pytest.raises(error, match=message):
        RandomConvolutionClassifier(class_weight=weight).fit(X, Y)
