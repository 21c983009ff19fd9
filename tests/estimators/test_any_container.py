"""`fit` and `predict` take the same values in any container, and answer the same, bit for bit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from marks import slow_except


def long(X: np.ndarray) -> list[pd.DataFrame]:
    from tsformer.data import from_long

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
