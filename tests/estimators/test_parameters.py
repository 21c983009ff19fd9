"""The parameters: what is refused and how."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from tsformer import TSTransformerClassifier


def test_only_the_encoding_is_positional():
    parameters = inspect.signature(TSTransformerClassifier).parameters.values()
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    assert positional == ["encoding"]
    assert TSTransformerClassifier("rope").encoding == "rope"
    assert TSTransformerClassifier().encoding == "lspe"


def test_what_fit_leaves_is_documented():
    text = inspect.getdoc(TSTransformerClassifier)
    for name in ("classes_", "n_features_in_", "n_iter_", "history_", "model_", "device_"):
        assert f"\n{name} : " in text


def test_nothing_is_checked_before_fit():
    clf = TSTransformerClassifier("nonsense", d_model=-1, scaling=3).set_params(pooling=None)
    assert clf.get_params()["scaling"] == 3


@pytest.mark.parametrize(
    ("name", "value", "error", "message"),
    [
        ("encoding", "lpse", ValueError, "unknown encoding 'lpse': did you mean 'lspe'"),
        ("encoding_params", [3], TypeError, r"encoding_params must be a dict or None; got \[3\]"),
        (
            "stem",
            "convolution",
            ValueError,
            "unknown stem 'convolution'.*'conv', 'linear', 'patch'",
        ),
        ("stem_params", {"kernal_size": 3}, ValueError, "did you mean 'kernel_size'"),
        ("n_heads", 3, ValueError, r"n_heads must divide d_model; .*one of \[1, 2, 4, 8, 16\]"),
        ("d_model", True, TypeError, "d_model must be an int >= 1; got True of type bool"),
        ("batch_size", 0, ValueError, "batch_size must be an int >= 1, or 'auto'; got 0"),
        ("dropout", 1.0, ValueError, "dropout must be .* < 1.*got 1.0"),
        ("device", "gpu", ValueError, "device 'gpu' cannot be used here"),
    ],
)
def test_errors_say_what_to_do(name, value, error, message, make, italy):
    with pytest.raises(error, match=message):
        make().set_params(**{name: value}).fit(*italy)


@pytest.mark.parametrize(
    "parameters",
    [
        {"d_model": np.int64(16), "learning_rate": np.float32(0.01), "dropout": np.float64(0)},
        {"dropout": 0, "label_smoothing": 0, "weight_decay": 0, "n_layers": 0},
        {"early_stopping": np.bool_(False), "norm_first": np.bool_(False)},
        {"pooling": "attention", "d_ff": 5, "scaling": "series"},
        {"pooling": "max", "stem": "patch", "stem_params": {"stride": 3}, "scaling": None},
    ],
)
def test_allowed_values(parameters, make, italy):
    X, y = italy
    clf = make(**parameters).fit(X, y, X_val=X, y_val=y)
    assert np.isfinite(clf.predict_proba(X)).all()
    if not parameters.get("early_stopping", True):
        assert clf.history_.best_epoch is None


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed, but the target y is None"),
        ([0.5, 1.7] * 10, "Unknown label type"),
        (["a", "b"], "X holds 20 series, but y 2 values; there must be one value for each"),
        ([[0, 1]] * 20, "y should be a 1d array"),
        ([0, np.nan] * 10, "NaN"),
    ],
)
def test_wrong_labels(y, message, make, motions):
    with pytest.raises(ValueError, match=message):
        make().fit(motions[0], y)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros(20), "Expected 2D array|got an array with 1 dim"),
        (np.zeros((20, 2, 3, 4)), "got an array with 4 dimensions"),
        (np.zeros((0, 2, 3)), "0 sample"),
        (np.zeros((20, 2, 0)), "0 feature"),
        (np.full((20, 2, 3), np.nan), "series 0 has no value at all"),
        (np.full((20, 2, 3), np.inf), "infinity at series 0, channel 0, step 0"),
        ([np.zeros((2, 3))] * 19 + [np.zeros((1, 3))], "series 0 has 2, series 19 has 1"),
        (sparse.csr_matrix(np.eye(20)), "[Ss]parse"),
        (np.full((20, 2, 3), "2020-01-01", "datetime64[s]"), "dtype|DType"),
        (np.full((20, 2, 3), {}, object), "argument must be a string|float"),
        ([np.zeros((2, 3)), None] * 10, "series 1 is None; leave it out"),
        ("motions.ts", "got str. Convert .* tsformer.load_dataset reads"),
        (None, "another container of series; got NoneType"),
        ({"a": 1}, "X is a dict with the keys"),
        (pd.DataFrame({"a": ["x"] * 20}), r"no numbers: \['a'\], such as 'x'.*from_long"),
        (np.full((20, 2, 3), "a"), "X holds text, such as 'a'; for symbols use their codes"),
        (np.zeros((20, 2, 3), complex), "[Cc]omplex"),
    ],
)
def test_wrong_series(X, message, make):
    with pytest.raises((ValueError, TypeError), match=message):
        make().fit(X, np.arange(20) % 2)


def test_a_single_series_is_not_a_container(make, motions):
    X, y = motions
    clf = make().fit(X, y)
    with pytest.raises(
        ValueError, match=r"1 channels, .* fitted with 6; .*single series use \[X\]"
    ):
        clf.predict(X[0])
    assert len(clf.predict(X[0][None])) == 1
