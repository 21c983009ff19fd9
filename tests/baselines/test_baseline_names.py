"""The classifiers with a name: each that is installed learns, the others say what they lack."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
import torch
from marks import exhaustive_except

from tsformer import load_dataset
from tsformer.baselines import BASELINES, PanelClassifier, load_class
from tsformer.baselines.resolve import check_names, parameter_names

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
_ENOUGH = {
    *("tsformer", "random-convolutions", "ensemble", "summary-ridge"),
    *("majority", "flat-ridge", "rocket", "1nn-dtw", "resnet"),
}


def missing(name: str) -> list[str]:
    return [each for each in BASELINES[name].needs if importlib.util.find_spec(each) is None]


def quick(name: str) -> dict[str, Any]:
    return {**BASELINES[name].quick, **_QUICK.get(name, {})}


@pytest.mark.slow
@pytest.mark.parametrize("name", exhaustive_except(BASELINES, _ENOUGH))
@pytest.mark.parametrize(
    "dataset",
    exhaustive_except(["ItalyPowerDemand", "BasicMotions", "JapaneseVowels"], ["JapaneseVowels"]),
)
def test_each_name_that_is_installed_reads_whatever_there_is(name, dataset):
    """One channel, several, and series of 7 to 29 steps with 12 channels."""
    if missing(name):
        pytest.skip(f"{missing(name)} is not installed")
    X, y = load_dataset(dataset, "train")
    X_test, _ = load_dataset(dataset, "test")
    labels = np.unique(y)[:2]
    few = np.concatenate([np.flatnonzero(y == label)[:8] for label in labels])
    X, y = [X[i] for i in few], y[few]
    classifier = PanelClassifier(name, quick(name), 0).fit(X, y)
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


@pytest.mark.slow
@pytest.mark.parametrize("name", BASELINES)
def test_what_is_said_of_each_name_is_so(name):
    if missing(name):
        with pytest.raises(ImportError, match=f"{name} needs {missing(name)[0]}.*pip install"):
            load_class(name)
        return
    cls = load_class(name)
    check_names(name, cls, {**BASELINES[name].parameters, **quick(name)})
    seeded = "random_state" in (parameter_names(cls) or ())
    # One with a seed may make no use of it; one without is the same for every seed.
    assert seeded or not BASELINES[name].random


@pytest.mark.parametrize(("name", "library"), [("hydra", "aeon"), ("arsenal", "numba")])
def test_what_is_not_installed_says_how_to_install_it(name, library, monkeypatch):
    there = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda each: None if each == library else there(each)
    )
    command = r'pip install "tsformer\[baselines\]"'
    with pytest.raises(ImportError, match=f"{name} needs {library}, which .*: .*{command}"):
        load_class(name)
