"""Random streams: torch's global generators while an estimator draws."""

import os
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

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

    Initialisation, dropout, and users' encodings and augmentations draw from torch's global
    generators. So training runs in several threads take turns: inside `drawing`, the generators
    belong to this stream. Other threads of the program that draw at the same moment are not
    isolated.
    """

    def __init__(self, seed: int, device: torch.device):
        #: Getter and setter of the state of each global generator.
        self._access: dict[str, tuple[Callable[[], Tensor], Callable[[Tensor], object]]] = {
            "cpu": (torch.default_generator.get_state, torch.default_generator.set_state)
        }
        if device.type in ("cuda", "mps"):
            module: Any = torch.get_device_module(device)
            get, set_state = module.get_rng_state, module.set_rng_state
            self._access[device.type] = partial(get, device), partial(set_state, device=device)
        self.states = {
            kind: torch.Generator("cpu" if kind == "cpu" else device).manual_seed(seed).get_state()
            for kind in self._access
        }

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Let torch's global generators continue this stream inside the block."""
        with _TURNS.setdefault(os.getpid(), threading.RLock()):
            before = {kind: get() for kind, (get, _) in self._access.items()}
            for kind, (_, set_state) in self._access.items():
                set_state(self.states[kind])
            try:
                yield
            finally:
                self.states = {kind: get() for kind, (get, _) in self._access.items()}
                for kind, (_, set_state) in self._access.items():
                    set_state(before[kind])


def seeded(seed: int, device: torch.device, *steps: int) -> AbstractContextManager[None]:
    """Seed torch's global generators of the CPU and `device` inside the block, for each step."""
    if steps and device.type == "cuda" and torch.cuda.is_current_stream_capturing():
        return nullcontext()  # a captured seed would repeat in every replay
    if steps:
        seed = int(np.random.SeedSequence([seed, *steps]).generate_state(1)[0])
    return RandomStream(seed, device).drawing()
