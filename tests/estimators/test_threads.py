"""Fits in several threads of a process give the same models; how many threads torch has in each."""

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from marks import slow_except
from small_estimators import FIVE, SMALL, classifier
from torch import nn

from tsformer import _threads
from tsformer._random import seeded
from tsformer._threads import limit_threads, share_of_threads, threads
from tsformer.augmentation import Augmentation
from tsformer.encodings import PositionalEncoding
from tsformer.training import Callback


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
    return np.asarray(estimator.predict_proba(X))


def test_fits_in_threads_give_the_model_of_a_fit_alone():
    options = {"augmentation": Shaken(), "early_stopping": True, "batch_size": 4}
    expected = answers(classifier(Noisy, **options).fit(X, Y))
    parallel = joblib.Parallel(n_jobs=2, backend="threading")
    fits = (joblib.delayed(classifier(Noisy, **options).fit)(X, Y) for _ in range(2))
    for fitted in parallel(fits):
        np.testing.assert_array_equal(answers(fitted), expected)


class Calls(Callback):
    """Calls a function at the end of each epoch."""

    def __init__(self, function: Callable[[], Any]):
        self.function = function

    def on_epoch_end(self, state: Any):
        self.function()


def beside(function: Callable[[], Any]) -> None:
    """Call a function in another thread, and wait for it."""
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


@pytest.mark.timeout(60)
def test_a_callback_may_wait_for_a_fit_in_another_thread():
    expected = answers(classifier().fit(X, Y))
    inner: list[Any] = []
    fit_beside = Calls(lambda: beside(lambda: inner.append(classifier().fit(X, Y))))
    outer = classifier(callbacks=[fit_beside]).fit(X, Y)
    for fitted in (outer, *inner):
        np.testing.assert_array_equal(answers(fitted), expected)
    assert len(inner) == SMALL["max_epochs"]


def test_callback_draws_are_the_programs():
    drawn: list[torch.Tensor] = []
    torch.manual_seed(7)
    classifier(callbacks=[Calls(lambda: drawn.append(torch.rand(3)))]).fit(X, Y)
    torch.manual_seed(7)
    assert [torch.equal(x, torch.rand(3)) for x in drawn] == [True] * SMALL["max_epochs"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_in_the_middle_of_a_step_can_fit():
    drawing, forked = threading.Event(), threading.Event()

    def draw():
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


class Watched:
    """Series that record torch's number of threads whenever they are read."""

    def __init__(self):
        self.seen: set[int] = set()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        self.seen.add(torch.get_num_threads())
        return X.astype(dtype or X.dtype)


@pytest.fixture
def two_threads(monkeypatch) -> Iterator[None]:
    """Make two the number that torch takes from the machine."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(5), raising=False)
    torch.set_num_threads(2)
    yield
    assert torch.get_num_threads() == 2


READING = ("predict", "predict_proba", "transform", "decision_function", "predict_proba_parts")


@pytest.mark.parametrize("name", slow_except(FIVE, ["convolutions"]))
def test_small_models_use_one_thread_or_n_threads(name, two_threads):
    for n_threads, expected in (("auto", 1), (3, 3)):
        watched, estimator = Watched(), FIVE[name](n_threads=n_threads)
        estimator.fit(watched, Y)
        for method in [m for m in READING if hasattr(estimator, m)]:
            getattr(estimator, method)(watched)
            assert torch.get_num_threads() == 2
        estimator.score(watched, Y)
        assert watched.seen == {expected}


@pytest.mark.parametrize(
    ("number", "variables", "numba", "expected"),
    [
        (3, {}, 2, 3),
        (3, {}, 3, 1),  # numba has set torch's number
        (2, {"OMP_NUM_THREADS": "2"}, 2, 2),
        (1, {"OMP_NUM_THREADS": "3,1"}, 2, 3),
        (2, {"OMP_NUM_THREADS": "4", "MKL_NUM_THREADS": "3"}, 2, 3),
        (2, {"OMP_NUM_THREADS": "many", "MKL_NUM_THREADS": "0"}, 2, 1),
        (2, {"OMP_NUM_THREADS": "99"}, 2, 5),  # as many as there are cores
    ],
)
def test_users_number_is_the_variables_else_torchs(
    number, variables, numba, expected, two_threads, monkeypatch
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    config = SimpleNamespace(NUMBA_NUM_THREADS=numba)
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(config=config))
    torch.set_num_threads(number)
    with threads("auto"):
        assert torch.get_num_threads() == expected
        with threads(work=0.0):
            assert torch.get_num_threads() == expected
    assert torch.get_num_threads() == number
    torch.set_num_threads(2)


def test_large_steps_have_more_threads(two_threads):
    small, large, long = (
        SimpleNamespace(config=SimpleNamespace(d_model=width, d_ff=d_ff), max_tokens=n_tokens)
        for width, d_ff, n_tokens in ((8, 16, 20), (64, 2048, 20), (8, 16, 10**6))
    )
    with threads("auto"):
        for model, n_tokens, expected in (
            *((small, 4096, 1), (large, 1, 1), (large, 4096, 2)),
            (long, 64, 2),  # attention is larger than the rest
        ):
            with threads(model=model, n_tokens=n_tokens):
                assert torch.get_num_threads() == expected
                with threads():  # as in each turn to draw
                    assert torch.get_num_threads() == expected
            assert torch.get_num_threads() == 1
    with threads(3), threads(model=large, n_tokens=4096):
        assert torch.get_num_threads() == 3


def test_threads_that_begin_during_a_fit_keep_the_number_before(two_threads):
    numbers: list[int] = []

    def note() -> None:
        with threads(5):
            pass
        numbers.append(torch.get_num_threads())

    with threads("auto"):
        beside(note)
        numbers.append(torch.get_num_threads())
    beside(note)
    assert numbers == [2, 1, 2]


def test_processes_share_the_threads(two_threads, monkeypatch):
    with threads("auto"):
        assert share_of_threads(2) == {"n_threads": "auto", "most": 1}
    with threads(6):
        assert share_of_threads(2) == {"n_threads": 3, "most": 3}
        assert share_of_threads(8) == {"n_threads": 1, "most": 1}
    with threads(**share_of_threads(2)), threads(work=1e12):
        assert torch.get_num_threads() == 1
    monkeypatch.setattr(_threads, "_LIMIT", [])
    limit_threads(5)  # as in a worker, in which nobody chose this number
    with threads("auto"):
        assert torch.get_num_threads() == 1
    torch.set_num_threads(2)
