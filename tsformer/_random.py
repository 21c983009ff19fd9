"""Random streams: torch's global generators while an estimator draws."""

import os
import random
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsformer._precision import plain_torch

#: The lock of each process on the global generators; a fork would copy a lock without its thread.
_TURNS: dict[int, threading.RLock] = {}


def imported(module: str) -> Any:
    """Import a module whose import draws from Python's generator, as `rich` does."""
    state = random.getstate()
    try:
        return import_module(module)
    finally:
        random.setstate(state)


class RandomStream:
    """The random stream of one training run.

    Module initialisation, dropout, and users' encodings and augmentations draw from torch's global
    generators, which all threads share. So training runs in several threads take turns: inside
    `drawing`, the global generators belong to this stream. Other threads of the program that draw
    at the same moment are not isolated.
    """

    def __init__(self, seed: int, device: torch.device):
        self._other = device if device.type in ("cuda", "mps") else None
        devices = [torch.device("cpu")] if self._other is None else [torch.device("cpu"), device]
        self.states = {
            each.type: torch.Generator(each).manual_seed(seed).get_state() for each in devices
        }

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let torch's global generators continue this stream inside the block."""
        with _TURNS.setdefault(os.getpid(), threading.RLock()), plain_torch():
            before = self._get()
            self._set(self.states)
            try:
                yield
            finally:
                self.states = self._get()
                self._set(before)

    def _get(self) -> dict[str, Tensor]:
        states = {"cpu": torch.default_generator.get_state()}
        if self._other is not None:
            module: Any = torch.get_device_module(self._other)
            states[self._other.type] = module.get_rng_state(self._other)
        return states

    def _set(self, states: dict[str, Tensor]) -> None:
        torch.default_generator.set_state(states["cpu"])
        if self._other is not None:
            module: Any = torch.get_device_module(self._other)
            module.set_rng_state(states[self._other.type], self._other)


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed torch's global generators of the CPU and `device` inside the block."""
    with RandomStream(seed, device).drawing():
        yield


def drawing(
    seed: int, step: int, device: torch.device, *, stream: Sequence[int] = ()
) -> AbstractContextManager[None]:
    """Seed torch's generators for one step and one `stream` of draws."""
    if device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return nullcontext()  # a captured seed would repeat in every replay
    return seeded(int(np.random.SeedSequence([seed, step, *stream]).generate_state(1)[0]), device)
