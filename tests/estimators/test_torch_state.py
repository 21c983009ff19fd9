"""Torch's settings in the program make no difference to an estimator, and are as before."""

import pickle
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import small_estimators as small
import torch
from marks import slow_except
from process_settings import settings
from small_estimators import Y, answers, assert_same, classifier, convolutions, encoder

from tsformer import load
from tsformer._precision import plain_torch
from tsformer.inspection import permutation_importance

X = small.X.copy()
X[3, 0, 4:7] = np.nan

MAKERS: dict[str, Callable[[], Any]] = {
    "members": lambda: classifier(
        "rope+cape", n_estimators=2, init_from=encoder("rope+cape"), early_stopping=True
    ),
    "regressor": lambda: small.regressor("t5", stem="patch", pooling="attention"),
    "contrastive": lambda: encoder("tape+erpe", objective="contrastive"),
    "convolutions": lambda: convolutions(scaling="auto"),
    "ensemble": small.ensemble,
}
MKLDNN: Any = torch.backends.mkldnn.matmul


@contextmanager
def setting(set_value: Callable[[Any], Any], value: Any, before: Any) -> Iterator[None]:
    set_value(value)
    try:
        yield
    finally:
        set_value(before)


double = partial(setting, torch.set_default_dtype, torch.float64, torch.float32)


@contextmanager
def hostile() -> Iterator[None]:
    """Set all that was seen to change results, or to raise errors; check that it is left so."""
    of_products = torch.get_float32_matmul_precision(), MKLDNN.fp32_precision
    with ExitStack() as stack:
        for context in (
            setting(torch.set_flush_denormal, True, False),
            np.errstate(all="raise"),
            double(),
            torch.inference_mode(),
            torch.autocast("cpu", torch.bfloat16),
            setting(torch.set_default_device, "meta", None),
            setting(torch.use_deterministic_algorithms, True, False),
            setting(torch.set_float32_matmul_precision, "medium", of_products[0]),
            setting(partial(setattr, MKLDNN, "fp32_precision"), "bf16", of_products[1]),
            torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
        ):
            stack.enter_context(context)
        before = settings()
        yield
        assert settings() == before


def everything(name: str, folder: Path) -> dict[str, Any]:
    """Return all predictions of an estimator: fitted, loaded, copied and fitted on."""
    estimator = MAKERS[name]().fit(X, Y)
    estimator.save(folder / "model")
    importance = permutation_importance(estimator, X, Y, n_repeats=1, random_state=0)
    stages = {
        "fitted": answers(estimator, X),
        "score": {"": np.float64(estimator.score(X, Y)), "falls": importance.importances},
        "loaded": answers(load(folder / "model"), X),
        "pickled": answers(pickle.loads(pickle.dumps(estimator)), X),
    }
    if hasattr(estimator, "attention"):
        stages["attention"] = {"weights": estimator.attention(X[:3]).weights}
        stages["explained"] = {"relevance": estimator.explain(X[:3], "occlusion")}
    if hasattr(estimator, "calibrate"):
        stages["calibrated"] = answers(deepcopy(estimator).calibrate(X, Y), X)
    if hasattr(estimator, "warm_start"):
        estimator.set_params(warm_start=True, init_from=None)
        stages["fitted on"] = answers(estimator.fit(X, Y), X)
    return {f"{stage} {name}": value for stage in stages for name, value in stages[stage].items()}


@pytest.mark.filterwarnings("ignore:In CPU autocast")
@pytest.mark.filterwarnings("ignore:no optimal factor")
@pytest.mark.parametrize("name", slow_except(MAKERS, ["convolutions"]))
def test_the_programs_settings_make_no_difference(name: str, tmp_path: Path) -> None:
    expected = everything(name, tmp_path / "plain")
    with hostile():
        results = everything(name, tmp_path / "hostile")
    assert_same(results, expected)


def test_gradients_in_explanations() -> None:
    pytest.importorskip("captum", reason="comes with the extra explain")
    fitted = classifier().fit(X, Y)
    for method in ("gradient_x_input", "integrated_gradients"):
        expected = fitted.explain(X[:3], method)
        with hostile():
            np.testing.assert_array_equal(fitted.explain(X[:3], method), expected)


def test_the_last_block_of_several_threads_restores_the_settings() -> None:
    entered, may_leave = threading.Event(), threading.Event()

    def waits() -> None:
        with plain_torch():
            entered.set()
            may_leave.wait()

    with double():
        with plain_torch():
            torch.set_default_dtype(torch.float16)
        assert torch.get_default_dtype() == torch.float16, "it was set during a fit"
        torch.set_default_dtype(torch.float64)
        thread = threading.Thread(target=waits)
        thread.start()
        entered.wait()
        with plain_torch():
            pass
        assert torch.get_default_dtype() == torch.float32  # the thread is still fitting
        may_leave.set()
        thread.join()
        assert torch.get_default_dtype() == torch.float64
