"""Models that are saved are read by later versions, and predict what they predicted then."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

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


def test_every_kind_of_model_is_kept_of_this_version(golden):
    kept = {path.name for path in SAVED if path.parent.name == tsformer.__version__}
    assert kept == set(golden.models()), "run: python tests/golden/make_golden.py"
