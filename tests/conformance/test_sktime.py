"""sktime's own checks of a classifier, what the tags of ours say, and its clones."""

import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from tsformer import (
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerEncoder,
)

sktime = pytest.importorskip("sktime", reason='needs the extra "data"')
from sktime.transformations.padder import PaddingTransformer  # noqa: E402
from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks  # noqa: E402

from tsformer.estimators.frameworks import (  # noqa: E402
    SktimeRandomConvolutionClassifier,
    SktimeTSEnsembleClassifier,
    SktimeTSTransformerClassifier,
)

ROOT = Path(__file__).parents[2]
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 3, "random_state": 0}


def make(**parameters) -> SktimeTSTransformerClassifier:
    return SktimeTSTransformerClassifier(**SMALL | parameters)


def frames(X, indices=None) -> list[pd.DataFrame]:
    """The container of sktime that holds everything: a frame (length, channels) a series."""
    indices = [None] * len(X) if indices is None else indices
    names = [f"var_{i}" for i in range(len(X[0]))]
    return [
        pd.DataFrame(x.T, index=index, columns=names) for x, index in zip(X, indices, strict=True)
    ]


def every_check(*classifiers):
    return parametrize_with_checks(list(classifiers), obj_varname="checked", check_varname="name")


def assert_passes(checked, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # checks provoke some, and their own code is old
        results = check_estimator(checked, tests_to_run=name, raise_exceptions=True, verbose=False)
    assert set(results.values()) == {"PASSED"}


@pytest.mark.slow
@every_check(SktimeTSTransformerClassifier)
def test_sktimes_checks(checked, name, monkeypatch):
    if name != "test_get_test_params_coverage":  # which asks for two
        monkeypatch.setattr(checked, "_test_params", checked._test_params[1:])
    assert_passes(checked, name)


@pytest.mark.exhaustive
@every_check(
    SktimeTSTransformerClassifier, SktimeRandomConvolutionClassifier, SktimeTSEnsembleClassifier
)
def test_sktimes_checks_of_all_configurations(checked, name):
    assert_passes(checked, name)


def test_labels_in_another_order_are_refused(panel):
    X = pd.concat({f"p{i:02d}": pd.DataFrame(x.T) for i, x in enumerate(panel[0])})
    y = pd.Series(panel[1], index=X.index.unique(0))
    native = SktimeRandomConvolutionClassifier(168, n_groups=2).fit(X, y)
    for call in (native.fit, native.score):
        with pytest.raises(ValueError, match="X and y have the same ids in another order"):
            call(X, y[::-1])
    assert native.score(X, y) == np.mean(native.predict(X) == y.to_numpy())


def test_dependencies_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tag = SktimeTSTransformerClassifier.get_class_tag("python_dependencies")
    assert tag == [name for name in project["dependencies"] if name.startswith("torch")]


class TestTags:
    """Each capability that a tag claims, compared with the classifier that has it."""

    @pytest.mark.parametrize("dates", [False, True])
    def test_times_are_those_of_the_index(self, panel, dates):
        X, y = panel
        rng = np.random.default_rng(1)  # whole numbers: sktime refuses an index of floats
        indices = list(rng.integers(1, 30, size=(len(X), X.shape[2])).cumsum(axis=1))
        if dates:
            start = pd.Timestamp("2020-02-28")
            indices = [start + pd.to_timedelta(index, unit="h") for index in indices]
        native = make(timestamps="index").fit(frames(X, indices), y)
        asked = native.predict_proba(frames(X, indices))
        own = TSTransformerClassifier(**SMALL).fit(X, y, times=indices)
        np.testing.assert_allclose(asked, own.predict_proba(X, times=indices), atol=1e-6)

    def test_containers_agree(self, panel):
        """An array has no names of channels, and is none the less the same data."""
        X, y = panel
        nested = sktime.datatypes.convert(X, "numpy3D", "nested_univ", "Panel")
        nested.columns = ["x", "y"]
        fitted = make().fit(nested, y)
        np.testing.assert_array_equal(fitted.predict_proba(nested), fitted.predict_proba(X))


def test_a_fitted_source_stays_fitted_in_every_clone(panel):
    (X, y), X_test = panel, panel[0] + 1
    source = TSTransformerEncoder(**SMALL)
    clf = make(init_from=source, freeze="backbone")
    source.fit(X_test)  # after it was passed
    expected = TSTransformerClassifier(**clf.get_params(deep=False)).fit(X, y).transform(X_test)
    for twin in (clf, clf.clone(), clone(clf), clone(clf.clone())):
        np.testing.assert_array_equal(twin.fit(X, y).classifier_.transform(X_test), expected)
    # Inside a composition sktime clones by parameters alone.
    pipeline = PaddingTransformer() * clf
    for each in (pipeline, pipeline.clone()):
        fitted = each.fit(X, y).classifier_.classifier_
        np.testing.assert_array_equal(fitted.transform(X_test), expected)
    with pytest.raises(ValueError, match="is fitted, and the change"):
        clf.clone().set_params(init_from__d_model=16)
    assert source.d_model == 8


def test_transformers_of_an_ensemble_keep_a_fitted_source(panel):
    (X, y), X_test = panel, panel[0] + 1
    source = TSTransformerEncoder(**SMALL).fit(X_test)
    params = {**SMALL, "init_from": source, "freeze": "backbone"}
    del params["random_state"]
    convolutions = {"n_features": 168, "n_groups": 0}
    ensemble = SktimeTSEnsembleClassifier(
        "fast", transformer_params=params, convolution_params=convolutions, random_state=0
    )
    plain = TSEnsembleClassifier(**ensemble.get_params(deep=False)).fit(X, y)
    expected = plain.transformer_.transform(X_test)
    for each in (ensemble, ensemble.clone(), clone(ensemble)):
        found = each.fit(X, y).classifier_.transformer_.transform(X_test)
        np.testing.assert_array_equal(found, expected)
    assert params["init_from"] is source
