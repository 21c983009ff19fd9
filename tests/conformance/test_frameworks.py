"""Classifiers of sktime and aeon predict what ours predict, and load no framework unasked."""

import inspect
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import tsformer
from tsformer._optional import install_command
from tsformer.estimators import frameworks

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 3}
KERNELS = {"n_features": 168, "n_groups": 2}
OPTIONS: dict[str, dict[str, Any]] = {
    "TSTransformerClassifier": {**SMALL, "encoding": "tape+erpe", "n_estimators": 2},
    "RandomConvolutionClassifier": KERNELS,
    "TSEnsembleClassifier": {"transformer_params": SMALL, "convolution_params": KERNELS},
}


@pytest.fixture(params=["sktime", "aeon"])
def framework(request) -> str:
    pytest.importorskip(request.param, reason="needs the extras data and aeon")
    return request.param.capitalize()


@pytest.mark.parametrize("name", OPTIONS)
def test_it_predicts_what_the_classifier_predicts(name, framework, panel):
    X, y = panel
    options = OPTIONS[name] | {"class_weight": "balanced", "random_state": 0}
    clf = getattr(tsformer, name)(**options).fit(X, y)
    native = getattr(frameworks, framework + name)(**options).fit(X, y)
    assert inspect.signature(type(native)) == inspect.signature(type(clf))
    assert native.get_params(deep=False) == clf.get_params(deep=False)
    np.testing.assert_array_equal(native.classes_, clf.classes_)
    for copied in (native, pickle.loads(pickle.dumps(native))):
        np.testing.assert_array_equal(copied.predict_proba(X), clf.predict_proba(X))
        np.testing.assert_array_equal(copied.predict(X), clf.predict(X))


@pytest.mark.parametrize("equal", [True, False])
def test_gaps_and_unequal_lengths_are_read_as_by_ours(equal, framework, panel):
    X, y = panel[0].copy(), panel[1]
    X[::2, 0, 5:9] = np.nan
    X[1::3, :, 8:10] = np.nan
    series = X if equal else [x[:, : 12 + i % 18] for i, x in enumerate(X)]
    container = series
    if framework == "Sktime" and not equal:
        container = [pd.DataFrame(x.T) for x in series]
    clf = tsformer.TSTransformerClassifier(**SMALL, random_state=0).fit(series, y)
    native = getattr(frameworks, f"{framework}TSTransformerClassifier")(**SMALL, random_state=0)
    proba = native.fit(container, y).predict_proba(container)
    np.testing.assert_array_equal(proba, clf.predict_proba(series))


def test_what_a_framework_has_no_place_for_is_refused(framework, panel):
    make = getattr(frameworks, f"{framework}TSTransformerClassifier")
    for options in ({"warm_start": True}, {"timestamps": "index"}):
        with pytest.raises(ValueError):
            make(**SMALL, **options).fit(*panel)
    with pytest.raises(ValueError, match="recording"):
        make(**SMALL).fit(np.zeros((600, 2)), np.repeat([*"abab"], 150))


def test_a_fitted_source_stays_fitted_in_every_clone(framework, panel):
    """A composition of sktime clones by parameters alone."""
    (X, y), X_test = panel, panel[0] + 1
    source = tsformer.TSTransformerEncoder(**SMALL, random_state=0)
    params = {**SMALL, "init_from": source, "freeze": "backbone"}
    clf = getattr(frameworks, f"{framework}TSTransformerClassifier")(**params, random_state=0)
    assert "init_from__d_model" in clf.get_params(), "deep by default"
    source.fit(X_test)  # after it was passed
    plain = tsformer.TSTransformerClassifier(**params, random_state=0)
    expected = plain.fit(X, y).transform(X_test)
    for twin in (clf, clf.clone(), clone(clf), clone(clf.clone())):
        np.testing.assert_array_equal(twin.fit(X, y).classifier_.transform(X_test), expected)
    options = {"transformer_params": params, "convolution_params": KERNELS, "gate": 0}
    ensemble = getattr(frameworks, f"{framework}TSEnsembleClassifier")(**options, random_state=0)
    for twin in (ensemble, ensemble.clone(), clone(ensemble)):
        embedded = twin.fit(X, y).classifier_.transformer_.transform(X_test)
        np.testing.assert_array_equal(embedded, expected)
    assert params["init_from"] is source


@pytest.mark.slow
def test_no_framework_is_loaded_unasked_and_a_missing_one_is_named_with_its_extra():
    code = (
        "import sys, tsformer.estimators.frameworks as frameworks\n"
        "assert not {'sktime', 'aeon', 'numba'} & {*sys.modules}\n"
        "sys.modules['aeon'] = None\n"
        "frameworks.AeonTSTransformerClassifier"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert install_command("aeon") in done.stderr
