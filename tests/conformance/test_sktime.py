"""sktime's own checks of a classifier, and what the tags of ours say."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
)
from tsformer._optional import install_command
from tsformer.estimators import frameworks

sktime = pytest.importorskip("sktime", reason='needs the extra "data"')
from sktime.utils.estimator_checks import check_estimator, parametrize_with_checks  # noqa: E402

from tsformer.estimators.frameworks import (  # noqa: E402
    SktimeRandomConvolutionClassifier,
    SktimeTSEnsembleClassifier,
    SktimeTSTransformerClassifier,
)

ROOT = Path(__file__).parents[2]
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 3, "random_state": 0}


@pytest.fixture
def make():
    """A small classifier, seeded, with other parameters as asked."""

    def make_classifier(**parameters) -> SktimeTSTransformerClassifier:
        return SktimeTSTransformerClassifier(**SMALL | parameters)

    return make_classifier


@pytest.fixture(scope="module")
def panel() -> tuple[np.ndarray, np.ndarray]:
    """Two channels, 30 steps, three classes of unlike size, told apart by a frequency."""
    rng = np.random.default_rng(0)
    y = np.array(["rare"] * 4 + ["some"] * 8 + ["many"] * 12)
    steps = np.arange(30)
    speed = {"rare": 0.2, "some": 0.6, "many": 1.2}
    X = np.stack([[np.sin(speed[label] * steps), np.cos(speed[label] * steps)] for label in y])
    return X + rng.normal(scale=0.5, size=X.shape), y


def frames(X, indices=None) -> list[pd.DataFrame]:
    """The container of sktime that holds everything: a frame (length, channels) a series."""
    indices = [None] * len(X) if indices is None else indices
    names = [f"var_{i}" for i in range(len(X[0]))]
    return [
        pd.DataFrame(x.T, index=index, columns=names) for x, index in zip(X, indices, strict=True)
    ]


def python(code: str, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def every_check(*classifiers):
    return parametrize_with_checks(list(classifiers), obj_varname="checked", check_varname="name")


def assert_passes(checked, name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # checks provoke some, and their own code is old
        results = check_estimator(checked, tests_to_run=name, raise_exceptions=True, verbose=False)
    assert set(results.values()) == {"PASSED"}


@pytest.mark.slow
@every_check(SktimeTSTransformerClassifier)
def test_sktimes_checks(checked, name):
    assert_passes(checked, name)


@pytest.mark.exhaustive
@every_check(SktimeRandomConvolutionClassifier, SktimeTSEnsembleClassifier)
def test_sktimes_checks_of_others(checked, name):
    assert_passes(checked, name)


@pytest.fixture(scope="module")
def bare_process(tmp_path_factory) -> list[str]:
    """What one fresh interpreter prints: loaded frameworks, then the error without each."""
    code = (
        "import sys, tsformer.estimators.frameworks as frameworks\n"
        "dir(frameworks), frameworks.__all__\n"
        "print([name for name in ('sktime', 'skbase', 'aeon', 'numba') if name in sys.modules])\n"
        "for framework in ('sktime', 'aeon'):\n"
        "    sys.modules[framework] = None\n"
        "    try:\n"
        "        getattr(frameworks, framework.capitalize() + 'TSTransformerClassifier')\n"
        "    except ImportError as error:\n"
        "        print(error)"
    )
    return python(code, tmp_path_factory.mktemp("bare")).splitlines()


@pytest.mark.slow
def test_neither_framework_is_loaded_before_it_is_used(bare_process):
    assert bare_process[0] == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "name", "framework", "extra"),
    [
        (1, "SktimeTSTransformerClassifier", "sktime", "data"),
        (2, "AeonTSTransformerClassifier", "aeon", "aeon"),
    ],
)
def test_a_missing_framework_is_named_with_its_extra(bare_process, line, name, framework, extra):
    assert bare_process[line] == (
        f"{name} needs {framework}, which is not installed; "
        f"install it with: {install_command(extra)}"
    )


def test_names_that_are_not_there():
    assert set(frameworks.__all__) <= set(dir(frameworks))
    with pytest.raises(AttributeError, match="no attribute 'SktimeClassifier'"):
        _ = frameworks.SktimeClassifier


@pytest.mark.parametrize("members", [1, 3])
def test_it_predicts_what_the_classifier_predicts(members, make, panel):
    X, y = panel
    own = TSTransformerClassifier(**SMALL, n_estimators=members).fit(X, y)
    native = make(n_estimators=members).fit(X, y)
    assert inspect.signature(type(native)) == inspect.signature(type(own))
    assert native.get_params() == own.get_params()
    np.testing.assert_array_equal(native.predict_proba(X), own.predict_proba(X))
    np.testing.assert_array_equal(native.predict(X), own.predict(X))
    np.testing.assert_array_equal(native.classes_, own.classes_)


def test_random_convolutions_predict_what_the_classifier_predicts(panel):
    X, y = panel
    X = [x[:, : 10 + i % 20] for i, x in enumerate(X)]
    small = {"n_features": 168, "n_groups": 2, "class_weight": "balanced", "random_state": 0}
    own = RandomConvolutionClassifier(**small).fit(X, y)
    native = SktimeRandomConvolutionClassifier(**small).fit(frames(X), y)
    assert inspect.signature(type(native)) == inspect.signature(type(own))
    np.testing.assert_array_equal(native.predict_proba(frames(X)), own.predict_proba(X))
    np.testing.assert_array_equal(native.predict(frames(X)), own.predict(X))
    again = pickle.loads(pickle.dumps(native))
    np.testing.assert_array_equal(again.predict_proba(frames(X)), own.predict_proba(X))


def test_an_ensemble_predicts_what_the_classifier_predicts(panel):
    X, y = panel
    X = [x[:, : 10 + i % 20] for i, x in enumerate(X)]
    small = SktimeTSEnsembleClassifier.get_test_params()[1] | {
        "class_weight": "balanced",
        "random_state": 0,
    }
    own = TSEnsembleClassifier(**small).fit(X, y)
    native = SktimeTSEnsembleClassifier(**small).fit(frames(X), y)
    assert inspect.signature(type(native)) == inspect.signature(type(own))
    np.testing.assert_array_equal(native.predict_proba(frames(X)), own.predict_proba(X))
    np.testing.assert_array_equal(native.predict(frames(X)), own.predict(X))
    again = pickle.loads(pickle.dumps(native))
    np.testing.assert_array_equal(again.predict_proba(frames(X)), own.predict_proba(X))


def test_pickle(make, panel):
    X, y = panel
    fitted = make(encoding="tape+erpe").fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_warm_start_is_refused_and_not_ignored(make, panel):
    with pytest.raises(ValueError, match="use TSTransformerClassifier instead"):
        make(warm_start=True).fit(*panel)


def test_dependencies_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    tag = SktimeTSTransformerClassifier.get_class_tag("python_dependencies")
    assert tag == [name for name in project["dependencies"] if name.startswith("torch")]


class TestTags:
    """Each capability that a tag claims, compared with the classifier that has it."""

    def test_unequal_length_and_channels(self, make, panel):
        X, y = panel
        X = [x[:, : 10 + i % 20] for i, x in enumerate(X)]
        native = make().fit(frames(X), y).predict_proba(frames(X[::-1]))
        own = TSTransformerClassifier(**SMALL).fit(X, y).predict_proba(X[::-1])
        np.testing.assert_array_equal(native, own)

    def test_missing_values(self, make, panel):
        X, y = panel
        X = X.copy()
        X[::2, 0, 5:9] = np.nan
        X[1::3, :, 20:] = np.nan
        expected = TSTransformerClassifier(**SMALL).fit(X, y).predict_proba(X)
        for container in (X, frames(X)):
            native = make().fit(container, y)
            np.testing.assert_array_equal(native.predict_proba(container), expected)

    def test_class_weight(self, make, panel):
        X, y = panel
        weights = {"rare": 100, "some": 1, "many": 1}
        options = {"max_epochs": 20, "head_norm": None}
        plain = make(**options).fit(X, y)
        weighted = make(**options, class_weight=weights).fit(X, y)
        rare = list(plain.classes_).index("rare")
        gain = weighted.predict_proba(X)[:, rare] - plain.predict_proba(X)[:, rare]
        assert gain.mean() > 0.2
        balanced = make(class_weight="balanced").fit(X, y).predict_proba(X)
        own = TSTransformerClassifier(**SMALL, class_weight="balanced").fit(X, y)
        np.testing.assert_array_equal(balanced, own.predict_proba(X))

    def test_random_state(self, make, panel):
        X, y = panel
        first, second, other, free = (
            make(random_state=seed).fit(X, y).predict_proba(X) for seed in (1, 1, 2, None)
        )
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, other)
        assert not np.array_equal(first, free)

    @pytest.mark.parametrize("dates", [False, True])
    def test_times_are_those_of_the_index(self, make, panel, dates):
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
        regular = make().fit(frames(X, indices), y).predict_proba(frames(X, indices))
        assert not np.allclose(asked, regular, atol=1e-3)

    def test_an_array_has_no_index_to_take_times_from(self, make, panel):
        with pytest.raises(ValueError, match="list of DataFrames"):
            make(timestamps="index").fit(*panel)

    def test_categories_are_refused_by_name(self, make, panel):
        X, y = panel
        X = [frame.assign(var_1=pd.Categorical(["a", "b"] * 15)) for frame in frames(X)]
        with pytest.raises(TypeError, match="categorical"):
            make().fit(X, y)

    def test_containers_agree(self, make, panel):
        """An array has no names of channels, and is none the less the same data."""
        X, y = panel
        nested = sktime.datatypes.convert(X, "numpy3D", "nested_univ", "Panel")
        nested.columns = ["x", "y"]
        fitted = make().fit(nested, y)
        np.testing.assert_array_equal(fitted.predict_proba(nested), fitted.predict_proba(X))
