"""`fit` and `predict` take the same values in any container, and answer the same, bit for bit."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch
from marks import slow_except

from tsformer import RandomConvolutionClassifier, TSTransformerEncoder
from tsformer.data import from_long, to_long


def long(X: np.ndarray) -> list[pd.DataFrame]:
    n, n_channels, length = X.shape
    columns = {"case": np.repeat(np.arange(n), length), "step": np.tile(np.arange(length), n)}
    values = {f"c{c}": X[:, c].ravel() for c in range(n_channels)}
    table = pd.DataFrame(columns | values).sample(frac=1, random_state=0).sort_values("case")
    return from_long(table, case="case", time="step", value=list(values))


def memory_mapped(X: np.ndarray, folder) -> np.ndarray:
    np.save(folder / "x.npy", X)
    return np.load(folder / "x.npy", mmap_mode="r")


WHOLE = {
    "read-only and mapped": memory_mapped,
    "fortran": lambda X, _: np.asfortranarray(X),
    "longdouble": lambda X, _: X.astype(np.longdouble),
    "big-endian": lambda X, _: X.astype(">f8"),
    "tensor": lambda X, _: torch.from_numpy(X),
    "np-list": lambda X, _: list(X),
    "nested lists": lambda X, _: X.tolist(),
    "df-list": lambda X, _: [pd.DataFrame(x.T) for x in X],
    "pd-multiindex": lambda X, _: pd.concat([pd.DataFrame(x.T) for x in X], keys=range(len(X))),
    "nested pandas": lambda X, _: pd.DataFrame([[pd.Series(c) for c in x] for x in X]),
    "from_long": lambda X, _: long(X),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WHOLE)
def test_several_channels(name, make, motions, tmp_path):
    X, y = motions
    other = WHOLE[name](X, tmp_path)
    expected = make().fit(X, y).predict_proba(X)
    clf = make().fit(other, y)
    np.testing.assert_array_equal(clf.predict_proba(other), expected)
    np.testing.assert_array_equal(make().fit(X, y).predict_proba(other), expected)
    assert clf.n_channels_ == clf.n_features_in_ == 6


UNEQUAL = {
    "tensors": lambda X: [torch.from_numpy(x) for x in X],
    "df-list": lambda X: [pd.DataFrame(x.T) for x in X],
    "pd-multiindex": lambda X: pd.concat([pd.DataFrame(x.T) for x in X], keys=range(len(X))),
    "nested pandas": lambda X: pd.DataFrame([[pd.Series(c) for c in x] for x in X]),
    "filled up with NaN": lambda X: np.stack(
        [np.pad(x, [(0, 0), (0, 29 - x.shape[1])], constant_values=np.nan) for x in X]
    ),
}


@pytest.mark.parametrize("name", slow_except(UNEQUAL, ["tensors", "df-list"]))
def test_unequal_lengths(name, make, vowels):
    X, y = vowels
    other = UNEQUAL[name](X)
    expected = make().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(make().fit(other, y).predict_proba(other), expected)


FLAT = {
    "polars": lambda X: pytest.importorskip("polars").DataFrame(X),
    "pyarrow": lambda X: pytest.importorskip("pyarrow").Table.from_pandas(pd.DataFrame(X)),
    "frame": pd.DataFrame,
    "extension types": lambda X: pd.DataFrame(X).convert_dtypes(),
    "tensor": torch.from_numpy,
    "lists": lambda X: X.tolist(),
    "series": lambda X: [pd.Series(x) for x in X],
}


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.filterwarnings("ignore:X .*feature names")
def test_one_channel(name, make, italy):
    X, y = italy
    other = FLAT[name](X[:, 0])
    expected = make().fit(X, y).predict_proba(X)
    np.testing.assert_array_equal(make().fit(other, y).predict_proba(other), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int64, np.int8, np.uint16, bool])
def test_numbers_of_any_type(dtype, make, italy):
    X, y = italy
    X = (20 * (X + 2)).clip(0, 100).astype(dtype)
    expected = make().fit(X.astype(np.float64), y).predict_proba(X.astype(np.float64))
    np.testing.assert_array_equal(make().fit(X, y).predict_proba(X), expected)


# Rows of the output, and a single series

CASES = [f"case {i}" for i in (3, 1, 2, 0)] + [f"x{i}" for i in range(8)]
X = np.random.default_rng(0).normal(size=(12, 2, 10))
Y = np.arange(12) % 2
BY_CASE = {
    "two levels": lambda: pd.concat([pd.DataFrame(x.T) for x in X], keys=CASES),
    "cells": lambda: pd.DataFrame([[pd.Series(c) for c in x] for x in X], index=CASES),
    "wide": lambda: pd.DataFrame(X[:, 0], index=CASES),
    "from_long": lambda: from_long(
        to_long(X, cases=CASES), case="case", time="time", value=["value_0", "value_1"]
    ),
}


@pytest.mark.parametrize("name", BY_CASE)
@pytest.mark.parametrize("kind", ["transformer", "encoder", "convolutions"])
def test_rows_of_pandas_output_have_the_index_of_the_series(name, kind, make):
    encoder = TSTransformerEncoder(d_model=8, n_heads=2, n_layers=1, max_epochs=1, random_state=0)
    convolutions = RandomConvolutionClassifier(168, n_groups=2, random_state=0)
    estimators = {"encoder": encoder, "convolutions": convolutions}
    estimator = estimators.get(kind) or make(max_epochs=1)
    series = BY_CASE[name]()
    plain = estimator.fit(series, Y).transform(series)
    assert isinstance(plain, np.ndarray)
    framed = estimator.set_output(transform="pandas").transform(series)
    ids = [x.attrs["case"] for x in series] if name == "from_long" else CASES
    assert framed.index.tolist() == ids
    assert framed.columns.tolist() == estimator.get_feature_names_out().tolist()
    np.testing.assert_array_equal(framed, plain)
    pytest.importorskip("polars")
    np.testing.assert_array_equal(estimator.set_output(transform="polars").transform(series), plain)


STEPS = X[0, 0]
#: What is passed to `predict` of a model of one channel, and the call that the error names.
ADVISED = {
    "one series": (STEPS, "[X]"),
    "one tensor": (torch.from_numpy(STEPS), "[X]"),
    "one pandas series": (pd.Series(STEPS), "[X]"),
    "one list": (STEPS.tolist(), "[np.asarray(X)]"),
    "other length": (X[:, 0, :7], "X[:, None]"),
    "other length in a tensor": (torch.from_numpy(X[:, 0, :7]), "X[:, None]"),
    "other length in a frame": (pd.DataFrame(X[:, 0, :7]), "X.to_numpy()[:, None]"),
    "other length in lists": (X[:, 0, :7].tolist(), "np.asarray(X)[:, None]"),
}


@pytest.mark.parametrize("name", ADVISED)
def test_the_call_that_predicts(name):
    series, call = ADVISED[name]
    clf = RandomConvolutionClassifier(168, n_groups=2, random_state=0).fit(X[:, 0], Y)
    with pytest.raises(ValueError, match=rf"(use|pass) {re.escape(call)}(,|$)"):
        clf.predict(series)
    predicted = clf.predict(eval(call, {"X": series, "np": np}))
    assert len(predicted) == (1 if name.startswith("one") else 12)
    if np.ndim(series) == 1:
        np.testing.assert_array_equal(predicted, clf.predict(X[:1, 0]))


@pytest.mark.parametrize("one", [X[0], X[0].tolist(), pd.DataFrame(X[0].T), torch.tensor(X[0])])
def test_the_call_that_predicts_one_series_of_several_channels(one):
    clf = RandomConvolutionClassifier(168, n_groups=2, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match=r"to pass a single series use \[X\]$"):
        clf.predict(one)
    np.testing.assert_array_equal(clf.predict([one]), clf.predict(X[:1]))
    with pytest.raises(ValueError, match=r"use \[X\] with X of shape \(2, length\)"):
        clf.predict(STEPS)
