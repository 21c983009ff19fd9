"""Series that estimators read: containers, gaps, units and codes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils import get_tags
from small_estimators import X, Y, classifier, convolutions, encoder

from tsformer import TSTransformerClassifier
from tsformer.data import from_long, to_long
from tsformer.data.containers import to_padded
from tsformer.data.preprocessor import Scaler
from tsformer.data.series import SeriesError

CASES = [f"case {i}" for i in (3, 1, 2, 0)] + [f"x{i}" for i in range(12)]
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
    series = BY_CASE[name]()
    estimator = make().fit(series, Y)
    plain = estimator.transform(series)
    framed = estimator.set_output(transform="pandas").transform(series)
    ids = [x.attrs["case"] for x in series] if name == "from_long" else CASES
    assert framed.index.tolist() == ids
    assert framed.columns.tolist() == estimator.get_feature_names_out().tolist()
    np.testing.assert_array_equal(framed, plain)


STEPS = X[0, 0]


@pytest.mark.parametrize("series", [STEPS, STEPS.tolist(), X[:, 0, :7], pd.DataFrame(X[:, 0, :7])])
def test_one_series_and_another_number_of_columns_are_refused(series):
    clf = convolutions().fit(X[:, 0], Y)
    with pytest.raises(ValueError, match="asarray"):
        clf.predict(series)
    assert len(clf.predict(np.asarray(X[:, 0, :7])[:, None])) == 16


@pytest.fixture(scope="module")
def fitted() -> TSTransformerClassifier:
    """Fitted to series without gaps; not to be changed."""
    return classifier().fit(X, Y)


@pytest.fixture
def gaps() -> np.ndarray:
    """The series, one value of the second channel missing."""
    gaps = X.copy()
    gaps[0, 1, 10] = np.nan
    return gaps


@pytest.mark.parametrize("method", ["predict_proba", "transform"])
def test_gaps_that_training_never_had_are_warned_of(method, gaps, fitted):
    with pytest.warns(UserWarning, match=r"channels \[1\]") as caught:
        output = getattr(fitted, method)(gaps)
    assert [warning.filename for warning in caught] == [__file__], "not in decorators"
    assert np.isfinite(output).all()
    np.testing.assert_array_equal(output[1:], getattr(fitted, method)(X)[1:])


def test_values_far_from_training_are_answered_or_refused_and_named(fitted):
    def far(value: float) -> np.ndarray:
        series = X[:5].copy()
        series[3, 0, 7] = value
        return series

    proba, near = fitted.predict_proba(far(-1e10)), fitted.predict_proba(X[:5])
    assert np.isfinite(proba).all()
    assert np.delete(proba, 3, axis=0).tolist() == np.delete(near, 3, axis=0).tolist()
    for value in (1e30, 1e130):
        for call in (fitted.predict, fitted.predict_proba, fitted.transform):
            with pytest.raises(SeriesError) as raised:
                call(far(value))
            assert raised.value.case == 3


RNG = np.random.default_rng(0)
WHOLE = RNG.normal(size=(16, 3, 24)) + 2 * np.sin(np.arange(24)) * Y[:, None, None]
WHOLE[:, 1] += 1e6
WHOLE[:, 2] = 0.1  # a constant
GAPS = np.where(RNG.random(WHOLE.shape) < 0.1, np.nan, WHOLE)
RAGGED = [x[:, : 10 + i % 14] for i, x in enumerate(GAPS)]
POWERS = (-300, -40, 37, 300)


@pytest.mark.parametrize("views", ["values", "values+difference"])
@pytest.mark.parametrize("scaling", ["channel", "series", "series+size"])
def test_scaled_series_have_no_unit(scaling, views):
    def read(X: Any, power: int = 0) -> np.ndarray:
        series = to_padded([x * np.array([[1.0], [2.0**power], [1.0]]) for x in X])
        return Scaler(scaling, views=views).fit(series).transform(series).values.numpy()

    tolerance = 1e-6 if scaling == "series+size" else 0
    for series in (WHOLE, GAPS, RAGGED):
        wanted = read(series)
        for power in POWERS:
            np.testing.assert_allclose(read(series, power), wanted, rtol=0, atol=tolerance)


@pytest.mark.parametrize("power", [0, *POWERS])
def test_a_channel_that_never_varied_is_not_read(power):
    """Its values in another unit would be any number."""
    constant, noise = np.ones((4, 1, 9)), RNG.normal(size=(2, 1, 9))
    train, new = (to_padded(x * 2.0**power) for x in (constant, noise))
    assert not Scaler("channel").fit(train).transform(new).values.any()


@pytest.mark.parametrize("power", [-300, 300])
def test_without_scaling_float32_is_the_limit(power):
    for make in (classifier, convolutions):
        with pytest.raises(ValueError):
            make(scaling=None).fit(WHOLE * 2.0**power, Y)


CODES, OF_CODES = RNG.choice([1, 2, 7, 30, 1000], size=(24, 8)), np.arange(24) % 2


def test_codes_are_numbered_and_warm_starts_keep_their_numbers():
    clf = classifier(stem="embedding", warm_start=True).fit(CODES, OF_CODES)
    assert clf.model_.stem.embedding.weight.shape == (6, 8)
    with pytest.warns(UserWarning):
        clf.fit(np.where(CODES == 1, 77, CODES), OF_CODES)
    assert clf.preprocessor_.known.tolist() == [1, 2, 7, 30, 1000]
    assert get_tags(clf).input_tags.categorical


@pytest.mark.parametrize(("shape", "params"), [((6, 2, 8), {}), ((6, 8), {"n_codes": 3})])
def test_series_that_are_not_symbolic_are_refused(shape, params):
    with pytest.raises(ValueError):
        classifier(stem="embedding", stem_params=params).fit(np.ones(shape), np.arange(6) % 2)
