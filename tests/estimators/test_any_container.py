"""Rows of pandas output have the ids of the series; errors advise the call that predicts."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from small_estimators import classifier, convolutions, encoder

from tsformer.data import from_long, to_long

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


@pytest.mark.parametrize(
    ("name", "make"),
    [*((name, convolutions) for name in BY_CASE), ("wide", classifier), ("cells", encoder)],
)
def test_rows_of_pandas_output_have_the_index_of_the_series(name, make):
    pytest.importorskip("polars")
    series = BY_CASE[name]()
    estimator = make().fit(series, Y)
    plain = estimator.transform(series)
    framed = estimator.set_output(transform="pandas").transform(series)
    ids = [x.attrs["case"] for x in series] if name == "from_long" else CASES
    assert framed.index.tolist() == ids
    assert framed.columns.tolist() == estimator.get_feature_names_out().tolist()
    np.testing.assert_array_equal(framed, plain)
    np.testing.assert_array_equal(estimator.set_output(transform="polars").transform(series), plain)


STEPS = X[0, 0]
#: Input of `predict`, for a model of one channel, and the call that the error recommends.
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


@pytest.fixture(scope="module")
def clf():
    return convolutions().fit(X[:, 0], Y)


@pytest.mark.parametrize("name", ADVISED)
def test_the_call_that_predicts(name, clf):
    series, call = ADVISED[name]
    with pytest.raises(ValueError, match=rf"(use|pass) {re.escape(call)}(,|$)"):
        clf.predict(series)
    predicted = clf.predict(eval(call, {"X": series, "np": np}))
    assert len(predicted) == (1 if name.startswith("one") else 12)
    if np.ndim(series) == 1:
        np.testing.assert_array_equal(predicted, clf.predict(X[:1, 0]))
