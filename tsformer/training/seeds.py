"""Random draws from torch's global generators that neither see nor change anybody else's."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from tsformer._torch_state import plain_torch

__all__ = ["RandomStream", "seeded"]


class _Turn:
    """Who may draw: one thread of the process at a time, as often as it wants to nest."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # a forked process would wait for a thread it has not
            os.register_at_fork(after_in_child=self._free)

    def _free(self) -> None:
        self.lock = threading.RLock()


_TURN = _Turn()


class RandomStream:
    """The random draws of one training run, which go on where the run's last draws ended.

    Module initialisation, dropout, and the encodings and augmentations of users draw from torch's
    global generators, of which a process has one per device for all of its threads. So runs in
    several threads take turns: what draws does so inside `drawing`, where the global generators are
    this run's alone. That covers all of this package, but not a thread that draws from the global
    generators by itself at that moment.

    Examples
    --------
    >>> import torch
    >>> stream = RandomStream(0, torch.device("cpu"))
    >>> drawn = []
    >>> for _ in range(2):
    ...     with stream.drawing():
    ...         drawn.append(torch.rand(1))
    ...     _ = torch.rand(7)  # draws of others make no difference
    >>> torch.equal(torch.cat(drawn), torch.rand(2, generator=torch.Generator().manual_seed(0)))
    True
    """

    def __init__(self, seed: int, device: torch.device):
        self._other = device if device.type in ("cuda", "mps") else None
        devices = [torch.device("cpu")] if self._other is None else [torch.device("cpu"), device]
        self.states = {
            each.type: torch.Generator(each).manual_seed(seed).get_state() for each in devices
        }

    @contextmanager
    def drawing(self) -> Iterator[None]:
        """Take a turn: inside the block, torch's global generators continue this stream.

        What the program draws after the block is what it would have drawn without it. Inside it,
        torch has its default settings, whatever callbacks have set between two turns.
        """
        with _TURN.lock, plain_torch():
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
    """Seed torch's global generators of the CPU and of `device`, inside the block only."""
    with RandomStream(seed, device).drawing():
        yield
