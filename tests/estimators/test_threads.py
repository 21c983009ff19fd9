"""Fits in several threads of a process: the same int gives the same model, whatever runs beside."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from marks import slow_except
from torch import nn

from tsformer import (
    RandomConvolutionClassifier,
    TSEnsembleClassifier,
    TSTransformerClassifier,
    TSTransformerRegressor,
)
from tsformer.augmentation import Augmentation
from tsformer.encodings import PositionalEncoding
from tsformer.training import Callback
from tsformer.training.seeds import seeded

SMALL: dict[str, Any] = {
    "d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2, "batch_size": 4, "random_state": 0,
}  # fmt: skip


class Noisy(PositionalEncoding):
    """Draws its weights, and noise in training and in validation, as a user's encoding may."""

    def __init__(self, *, d_model: int, n_heads: int, max_len: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(d_model))

    def embed(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return x + self.weight * torch.rand_like(x)


class Shaken(Augmentation):
    """Draws in every step, as a user's augmentation may."""

    def __call__(self, batch: Any) -> Any:
        return replace(batch, values=batch.values + 0.1 * torch.randn_like(batch.values))


MAKERS: dict[str, Callable[[], Any]] = {
    "classifier": lambda: TSTransformerClassifier("lspe", **SMALL),
    "early stopping": lambda: TSTransformerClassifier(Noisy, early_stopping=True, **SMALL),
    "of a user": lambda: TSTransformerClassifier(Noisy, augmentation=Shaken(), **SMALL),
    "members": lambda: TSTransformerClassifier("cape", n_estimators=2, **SMALL),
    "regressor": lambda: TSTransformerRegressor("lspe", **SMALL),
    "random convolutions": lambda: RandomConvolutionClassifier(200, random_state=0),
    "ensemble": lambda: TSEnsembleClassifier(
        "fast",
        transformer_params={k: v for k, v in SMALL.items() if k != "random_state"},
        convolution_params={"n_features": 200},
        random_state=0,
    ),
}
RNG = np.random.default_rng(0)
Y = np.arange(12) % 2
X = RNG.normal(size=(12, 1, 20)) + Y[:, None, None]


@pytest.fixture(autouse=True)
def threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-3)
    yield
    sys.setswitchinterval(before)


def answers(estimator: Any) -> np.ndarray:
    torch.manual_seed(1)  # `Noisy` draws while predicting, too
    predict = getattr(estimator, "predict_proba", estimator.predict)
    return np.asarray(predict(X))


@pytest.mark.parametrize("name", slow_except(MAKERS, ["classifier", "early stopping"]))
def test_fits_in_threads_give_the_model_of_a_fit_alone(name: str) -> None:
    expected = answers(MAKERS[name]().fit(X, Y))
    parallel = joblib.Parallel(n_jobs=2, backend="threading")
    for fitted in parallel(joblib.delayed(MAKERS[name]().fit)(X, Y) for _ in range(2)):
        np.testing.assert_array_equal(answers(fitted), expected)


@pytest.mark.slow
def test_different_fits_beside_each_other_are_as_alone() -> None:
    expected = {name: answers(make().fit(X, Y)) for name, make in MAKERS.items()}
    parallel = joblib.Parallel(n_jobs=len(MAKERS), backend="threading")
    fits = (joblib.delayed(make().fit)(X, Y) for make in MAKERS.values())
    for name, fitted in zip(MAKERS, parallel(fits), strict=True):
        np.testing.assert_array_equal(answers(fitted), expected[name], err_msg=name)


class FitsInThreads(Callback):
    """Fits in other threads and waits for them, as a callback that judges an epoch may."""

    def on_epoch_end(self, state: Any) -> None:
        parallel = joblib.Parallel(n_jobs=2, backend="threading")
        self.fitted = parallel(joblib.delayed(MAKERS["classifier"]().fit)(X, Y) for _ in range(2))


@pytest.mark.timeout(60)
def test_a_callback_may_wait_for_fits_in_other_threads() -> None:
    expected = answers(MAKERS["classifier"]().fit(X, Y))
    inner = FitsInThreads()
    outer = MAKERS["classifier"]().set_params(callbacks=[inner]).fit(X, Y)
    for fitted in (outer, *inner.fitted):
        np.testing.assert_array_equal(answers(fitted), expected)


class Draws(Callback):
    def on_epoch_end(self, state: Any) -> None:
        torch.rand(3)


def test_what_callbacks_draw_makes_no_difference_to_the_model_and_is_the_programs_own() -> None:
    expected = answers(MAKERS["classifier"]().fit(X, Y))
    torch.manual_seed(7)
    fitted = MAKERS["classifier"]().set_params(callbacks=[Draws()]).fit(X, Y)
    after = torch.rand(3)
    np.testing.assert_array_equal(answers(fitted), expected)
    torch.manual_seed(7)
    for _ in range(SMALL["max_epochs"]):
        torch.rand(3)
    assert torch.equal(after, torch.rand(3))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_in_the_middle_of_a_step_can_fit() -> None:
    drawing, forked = threading.Event(), threading.Event()

    def draw() -> None:
        with seeded(0, torch.device("cpu")):
            drawing.set()
            forked.wait()

    thread = threading.Thread(target=draw)
    thread.start()
    drawing.wait()
    child = os.fork()
    if child == 0:
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)  # a test's time limit may have another
            signal.alarm(10)  # ends it if it waits
            with seeded(0, torch.device("cpu")):
                os._exit(3)
        finally:  # an error here is none of pytest's
            os._exit(4)
    forked.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
