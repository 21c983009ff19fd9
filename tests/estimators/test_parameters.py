"""The parameters: what is refused and how."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from tsformer import TSTransformerClassifier
from tsformer.training import Callback, ProgressBar


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


def test_clone_get_and_set(make):
    clf = make("tape+erpe", encoding_params={"base": 50.0}, callbacks=[ProgressBar()])
    twin = clone(clf)
    assert twin.get_params().keys() == clf.get_params().keys()
    assert twin.encoding_params == {"base": 50.0}
    assert twin.set_params(encoding="rope", n_layers=3).get_params()["n_layers"] == 3
    assert clf.encoding == "tape+erpe"
    with pytest.raises(ValueError, match="Invalid parameter 'n_layer'"):
        clf.set_params(n_layer=3)


def test_nothing_is_checked_before_fit():
    clf = TSTransformerClassifier("nonsense", d_model=-1, scaling=3).set_params(pooling=None)
    assert clf.get_params()["scaling"] == 3


WRONG = [
    ("encoding", "lpse", ValueError, "unknown encoding 'lpse': did you mean 'lspe'"),
    ("encoding", 3, TypeError, "encoding must be a name"),
    ("encoding_params", {"d_hiden": 3}, ValueError, "option of lspe 'd_hiden': did you mean 'd_h"),
    ("encoding_params", [3], TypeError, r"encoding_params must be a dict or None; got \[3\]"),
    ("stem", "convolution", ValueError, "unknown stem 'convolution'.*'conv', 'linear', 'patch'"),
    ("stem", None, ValueError, "unknown stem None"),
    ("stem_params", {"kernal_size": 3}, ValueError, "did you mean 'kernel_size'"),
    ("stem_params", {"kernel_size": 4}, ValueError, "must be odd"),
    ("stem_params", "kernel", TypeError, "stem_params must be a dict or None; got 'kernel'"),
    ("d_model", 0, ValueError, "d_model must be an int >= 1; got 0"),
    ("d_model", 16.0, TypeError, "d_model must be an int >= 1; got 16.0 of type float"),
    ("d_model", True, TypeError, "d_model must be an int >= 1; got True of type bool"),
    ("d_model", "16", TypeError, "d_model must be an int >= 1; got '16' of type str"),
    ("n_heads", 3, ValueError, r"n_heads must divide d_model; .*one of \[1, 2, 4, 8, 16\]"),
    ("n_layers", -1, ValueError, "n_layers must be an int >= 0; got -1"),
    ("d_ff", 0, ValueError, "d_ff must be an int >= 1, or None; got 0"),
    ("dropout", 1.0, ValueError, "dropout must be .* < 1.*got 1.0"),
    ("dropout", -0.1, ValueError, "dropout must be .*got -0.1"),
    ("norm_first", "yes", ValueError, "unknown norm_first 'yes'; choose from: True, False"),
    ("pooling", "maen", ValueError, "unknown pooling 'maen': did you mean 'mean'"),
    ("scaling", "chanel", ValueError, "unknown scaling 'chanel': did you mean 'channel'"),
    ("head_norm", "bach", ValueError, "unknown head_norm 'bach': did you mean 'batch'"),
    ("views", "diference", ValueError, "unknown view 'diference': did you mean 'difference'"),
    ("views", 3, TypeError, "views must be a name or a sum of names; got 3"),
    ("view_params", {"scal": 1}, ValueError, "option of the difference 'scal': did you mean 'sca"),
    ("view_params", 0.5, TypeError, "view_params must be a dict or None; got 0.5"),
    ("augmentation", "wrap", ValueError, "unknown augmentation 'wrap': did you mean 'warp'"),
    ("augmentation", 3, TypeError, "augmentation must be a name"),
    ("augmentation_params", {"P": 1}, ValueError, "unknown option .*'P'"),
    ("augmentation_params", [1], TypeError, r"augmentation_params must be a dict or None; got"),
    ("init_from", 3, TypeError, "init_from must be a TSTransformerEncoder or another transformer"),
    ("init_from", "nowhere", FileNotFoundError, "there is no saved estimator at nowhere"),
    ("init_from", TSTransformerClassifier(), ValueError, "not fitted, and fitting it takes targe"),
    ("freeze", "backbon", ValueError, "unknown freeze 'backbon': did you mean 'backbone'"),
    ("freeze", "backbone", ValueError, "freezes what init_from brings, but init_from is None"),
    ("unlabelled", "us", ValueError, "unknown unlabelled 'us': did you mean 'use'"),
    ("n_epochs_frozen", -1, ValueError, "n_epochs_frozen must be an int >= 0; got -1"),
    ("n_epochs_frozen", 2, ValueError, "freezes what init_from brings, but init_from is None"),
    ("pretrained_lr_scale", 0, ValueError, "pretrained_lr_scale must be a float > 0; got 0"),
    ("max_epochs", "aut", TypeError, "max_epochs must be an int >= 1, or 'auto'; got 'aut'"),
    ("max_epochs", 0, ValueError, "max_epochs must be an int >= 1, or 'auto'; got 0"),
    ("batch_size", 0, ValueError, "batch_size must be an int >= 1, or 'auto'; got 0"),
    ("learning_rate", 0, ValueError, "learning_rate must be a float > 0; got 0"),
    ("learning_rate", float("nan"), ValueError, "learning_rate must be a float > 0; got nan"),
    ("timestamps", "indx", ValueError, "unknown timestamps 'indx': did you mean 'index'"),
    ("learning_rate", None, TypeError, "learning_rate must be a float > 0; got None"),
    ("weight_decay", -1, ValueError, "weight_decay must be .*got -1"),
    ("label_smoothing", 1, ValueError, "label_smoothing must be .*got 1"),
    ("temperature", 0, ValueError, "temperature must be a float > 0, or 'auto'; got 0"),
    ("temperature", "warm", TypeError, "temperature must be a float > 0, or 'auto'; got 'warm'"),
    (
        "early_stopping",
        "always",
        ValueError,
        "unknown early_stopping 'always'.*'auto', True, False",
    ),
    ("validation_fraction", 1.0, ValueError, "validation_fraction must be .*got 1.0"),
    ("n_iter_no_change", 0, ValueError, "n_iter_no_change must be an int >= 1; got 0"),
    ("n_estimators", 0, ValueError, "n_estimators must be an int >= 1; got 0"),
    ("n_estimators", 2.0, TypeError, "n_estimators must be an int >= 1; got 2.0"),
    ("n_jobs", 0, ValueError, "n_jobs must be an int >= 1, or -1, None; got 0"),
    ("n_threads", "all", TypeError, "n_threads must be an int >= 1, or 'auto'; got 'all'"),
    (
        "callbacks",
        [print],
        TypeError,
        "callbacks must be tsformer.training.Callback instances; got",
    ),
    ("callbacks", [Callback], TypeError, "callbacks must be .* instances; got <class"),
    ("warm_start", None, ValueError, "unknown warm_start None"),
    ("device", "gpu", ValueError, "device 'gpu' cannot be used here"),
    ("precision", "bf16", ValueError, "unknown precision 'bf16': did you mean 'bfloat16'"),
    ("compile", 3, ValueError, "unknown compile 3"),
    ("compile", "cuda-graphs", ValueError, "needs a CUDA device"),
    ("checkpoint_dir", 3, TypeError, "checkpoint_dir must be a path or None; got 3"),
    (
        "checkpoint_minutes",
        -1,
        ValueError,
        "checkpoint_minutes must be a float > 0, or 0, inf; got -1",
    ),
    ("resume", True, ValueError, "same training run; set checkpoint_dir"),
    ("resume", "yes", ValueError, "unknown resume 'yes'"),
    ("random_state", "zero", ValueError, "'zero' cannot be used to seed"),
    ("verbose", -1, ValueError, "verbose must be an int >= 0, or False, True; got -1"),
]


@pytest.mark.parametrize(
    ("name", "value", "error", "message"), WRONG, ids=[f"{row[0]}={row[1]!r}" for row in WRONG]
)
def test_wrong_values_are_refused_with_what_to_do(name, value, error, message, make, italy):
    clf = make().set_params(**{name: value})
    with pytest.raises(error, match=message):
        clf.fit(*italy)
    assert not hasattr(clf, "model_")


def test_every_parameter_is_checked():
    unchecked = {"class_weight"}  # by scikit-learn: tested with the weights
    assert {row[0] for row in WRONG} == set(TSTransformerClassifier().get_params()) - unchecked


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


def test_parameters_are_not_written_to(make, italy):
    options = {"encoding_params": {"d_hidden": 8}, "stem_params": {"kernel_size": 3}}
    clf = make(**options)
    before = clf.get_params()
    clf.fit(*italy)
    assert clf.get_params() == before
    assert clf.encoding_params is options["encoding_params"]
    assert clf.encoding_params == {"d_hidden": 8}


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
