"""The classifiers with a name: each that is installed learns, the others say what they lack."""

import importlib.util
import sys
from importlib.metadata import version
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from marks import exhaustive_except

import tsformer
from tsformer import load_dataset
from tsformer.baselines import BASELINES, PanelClassifier, find, load_class
from tsformer.baselines.resolve import construct, library_version

#: What makes a fit quick, where that is not known of the name.
_QUICK: dict[str, dict[str, Any]] = {
    "tsformer": {"d_model": 8, "n_layers": 1, "max_epochs": 2},
    "random-convolutions": {"n_features": 168},
    "ensemble": {
        "quality": "fast",
        "transformer_params": {"d_model": 8, "n_layers": 1, "max_epochs": 2},
        "convolution_params": {"n_features": 168},
    },
    "inception-time": {"num_epochs": 2, "depth": 3, "n_filters": 4},
    "resnet": {"num_epochs": 2, "n_filters": [4, 8, 8]},
    "mvts-transformer": {"num_epochs": 2, "d_model": 16, "n_heads": 2, "num_layers": 1},
    "convtran": {"num_epochs": 2, "dim_ff": 16},
}
#: Ours, and of each library one; others of a library are read by the same code.
_ENOUGH = {"tsformer", "random-convolutions", "ensemble", "summary-ridge", "majority"}
_ENOUGH |= {"flat-ridge", "rocket", "1nn-dtw", "resnet"}


@pytest.mark.slow
@pytest.mark.parametrize("name", exhaustive_except(BASELINES, _ENOUGH))
@pytest.mark.parametrize(
    "dataset",
    exhaustive_except(["ItalyPowerDemand", "BasicMotions", "JapaneseVowels"], ["JapaneseVowels"]),
)
def test_each_name_that_is_installed_reads_whatever_there_is(name, dataset):
    """One channel, several, and series of 7 to 29 steps with 12 channels."""
    if missing := [
        module for module in BASELINES[name].needs if not importlib.util.find_spec(module)
    ]:
        pytest.skip(f"{missing} is not installed")
    quick = {**BASELINES[name].quick, **_QUICK.get(name, {})}
    X, y = load_dataset(dataset, "train")
    X_test, _ = load_dataset(dataset, "test")
    labels = np.unique(y)[:2]
    few = np.concatenate([np.flatnonzero(y == label)[:8] for label in labels])
    X, y = [X[i] for i in few], y[few]
    # One with a seed may make no use of it; one without is the same for every seed.
    seed = getattr(construct(name, quick, 3), "random_state", None)
    assert seed == 3 or not BASELINES[name].random
    classifier = PanelClassifier(name, quick, 0).fit(X, y)
    unequal = dataset == "JapaneseVowels" and not BASELINES[name].unequal
    assert ("padded" in classifier.helped_) == unequal
    assert classifier.classes_.tolist() == labels.tolist()
    assert set(classifier.predict(X_test[:5])) <= set(labels)
    try:
        probabilities = classifier.predict_proba(X_test[:5])
    except AttributeError:  # as of a ridge, or of one nearest neighbour
        assert not classifier.has_probabilities_
    else:
        assert probabilities.shape == (5, 2)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    assert torch.get_num_threads() == 1  # as tests/conftest.py sets it; numba has all cores


@pytest.mark.parametrize(("name", "library"), [("hydra", "aeon"), ("arsenal", "numba")])
def test_what_is_not_installed_says_how_to_install_it(name, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(ImportError, match=r"\[baselines\]"):
        load_class(name)


def test_what_is_known_of_a_path(monkeypatch):
    assert library_version("sklearn.svm.SVC") == f"scikit-learn {version('scikit-learn')}"
    assert library_version("tsformer.TSEnsembleClassifier") == f"tsformer {tsformer.__version__}"
    assert library_version("nowhere.C") == "nowhere of unknown version"
    path = BASELINES["multirocket"].path  # the name has parameters of its own
    assert (find(path).needs, find(path).compiled) == (("aeon",), True)
    assert find(path).parameters == {}
    assert find("sklearn.svm.SVC").random
    base = type("Base", (), {"__init__": lambda self, random_state=None: None})
    passes = type(
        "Passes", (base,), {"__init__": lambda self, **options: vars(self).update(options)}
    )
    monkeypatch.setattr("tsformer.baselines.resolve.load_class", lambda name: passes)
    assert vars(construct("a.b", {"power": 1}, 3)) == {"power": 1, "random_state": 3}


def test_other_code_anywhere_in_a_file_or_package_is_another_classifier(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine_inside").mkdir()
    (tmp_path / "mine_inside/__init__.py").write_text("from mine_inside.impl import C\n")
    versions = []
    for code in ("class C: pass\n", "class C: x = 1\n"):
        for name in ("mine_inside/impl.py", "mine_alone.py"):
            (tmp_path / name).write_text(code)
        library_version.cache_clear()
        versions += map(library_version, ("mine_inside.C", "mine_alone.C"))
    library_version.cache_clear()
    assert len({*versions}) == 4
    assert library_version("mine_inside.C") == library_version("mine_inside.impl.C")


@pytest.mark.parametrize(
    ("estimator", "error", "named"),
    [
        ("sklearn.preprocessing.StandardScaler", TypeError, "StandardScaler"),
        ("math.pi", TypeError, "3.14"),
        ("__main__.Mine", ValueError, r"mine\.Mine"),
        ("sklearn.linear_model.LinearRegression", TypeError, "classifier"),
        ("sklearn.ensemble.IsolationForest", TypeError, "classifier"),
        ("sklearn.ensemble.RandomForestClasifier", ValueError, "RandomForestClassifier"),
        ("nowhere.inner.C", ImportError, "'nowhere'"),
    ],
)
def test_load_class_of_no_classifier_names_what_is_wrong(estimator, error, named):
    with pytest.raises(error, match=named):
        load_class(estimator)


def test_a_class_that_its_module_imports_on_demand_is_found(monkeypatch):
    """As `tsformer` does in a new worker process."""
    module = ModuleType("on_demand")
    module.__getattr__ = {"Mine": type("Mine", (), {"fit": None, "predict": None})}.__getitem__
    monkeypatch.setitem(sys.modules, "on_demand", module)
    assert load_class("on_demand.Mine").__name__ == "Mine"
