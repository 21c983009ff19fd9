"""Models that earlier versions saved are read, and predict what they predicted then."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from sklearn.base import clone

import tsformer

HERE = Path(__file__).parent / "golden"
SAVED = sorted(path.with_suffix("") for path in HERE.glob("*/*.npz"))


@pytest.fixture(scope="module")
def golden() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_golden", HERE / "make_golden.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("path", SAVED, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_model_of_that_version(path, golden):
    arrays = np.load(path.with_suffix(".npz"))
    model = tsformer.load(path, device="cpu")
    times = arrays.get("times")
    # Another machine adds up in another order.
    np.testing.assert_allclose(
        golden.answer(model, arrays["X"], times), arrays["answer"], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", ["classifier", "regressor"])
def test_a_model_of_0_1_0_is_continued_and_fitted_anew_as_what_it_was(name):
    path = HERE / "0.1.0" / name
    X = np.load(path.with_suffix(".npz"))["X"]
    model = tsformer.load(path, device="cpu")
    y = np.resize(getattr(model, "classes_", [0.0, 1.0, 2.0]), len(X))
    shapes = {key: each.shape for key, each in model.model_.state_dict().items()}
    anew = clone(model).set_params(max_epochs=1).fit(X, y)
    assert {key: each.shape for key, each in anew.model_.state_dict().items()} == shapes
    before = [each.clone() for each in model.model_.parameters()]
    model.set_params(warm_start=True, max_epochs=1).fit(X, y)
    after = list(model.model_.parameters())
    assert any((one != other).any() for one, other in zip(before, after, strict=True))


def test_every_kind_of_model_is_kept_of_this_version(golden):
    kept = {path.name for path in SAVED if path.parent.name == tsformer.__version__}
    assert kept == set(golden.models()), "run: python tests/golden/make_golden.py"
