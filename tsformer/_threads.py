"""The number of torch threads on a CPU.

Small operations gain little from a second thread, and lose much beside a busy process: after each
operation all threads wait for the slowest. So ``n_threads="auto"`` is one thread, and more only for
steps with large operations.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from numbers import Integral
from typing import Any, NamedTuple

import torch

#: Multiply-adds of a step's largest operation per additional thread: about 10 ms of work.
_WORTH_A_THREAD = 2**28
#: Environment variables with the user's choice; joblib sets them for its workers too.
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_IN_JOBLIB = multiprocessing.current_process().name.startswith("LokyProcess")
_AT_IMPORT = torch.get_num_threads()


class _Block(NamedTuple):
    """Number of threads in a block, its maximum, and its origin."""

    now: int
    most: int
    automatic: bool


class _Numbers:
    """Set the number of threads in nested blocks; restore it after the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.before = self.newest = 0
        self.limit: int | None = None
        self.thread = threading.local()
        if hasattr(os, "register_at_fork"):  # a fork copies the lock and the count of all threads
            os.register_at_fork(after_in_child=self._forked)

    def enter(self, n_threads: object, work: float | None, most: int | None) -> None:
        """Set the number of threads of a block."""
        with self.lock:
            blocks, current = self._blocks(), torch.get_num_threads()
            if not blocks:
                # A thread that started during another thread's block has the block's number.
                temporary = self.users > 0 and current == self.newest
                self.thread.before = self.before if temporary else current
                if not self.users:
                    self.before = self.thread.before
                self.users += 1
            around = blocks[-1] if blocks else None
            number = _as_number(n_threads)
            if number is not None:
                block = _Block(number, number, automatic=False)
            elif n_threads is None and around is not None:
                block = around
            elif most is not None:
                block = _Block(1, most, automatic=True)
            elif self._chosen(self.thread.before):
                block = _Block(self.thread.before, self.thread.before, automatic=False)
            else:
                block = _Block(1, self.thread.before, automatic=True)
            if block.automatic and work is not None:
                now = min(block.most, 1 + int(min(work // _WORTH_A_THREAD, block.most)))
                block = block._replace(now=now)
            blocks.append(block)
            self._set(block.now)

    def leave(self) -> None:
        """Restore the number of the enclosing block, or the original number."""
        with self.lock:
            blocks = self._blocks()
            blocks.pop()
            self._set(blocks[-1].now if blocks else self.thread.before)
            self.users -= not blocks

    def block(self) -> _Block | None:
        """Return the innermost block of this thread."""
        blocks = self._blocks()
        return blocks[-1] if blocks else None

    def _set(self, number: int) -> None:
        if self.users > 1 or torch.get_num_threads() != number:
            torch.set_num_threads(number)
        self.newest = number

    def _chosen(self, number: int) -> bool:
        """Whether the user chose the number of threads of the program."""
        if self.limit is not None:
            return number != self.limit
        if _IN_JOBLIB:
            return number != _AT_IMPORT
        return any(map(os.environ.get, _VARIABLES)) or number != _default()

    def _blocks(self) -> list[_Block]:
        blocks: list[_Block] | None = getattr(self.thread, "blocks", None)
        if blocks is None:
            blocks = self.thread.blocks = []
        return blocks

    def _forked(self) -> None:
        """Keep only the blocks of the forking thread."""
        self.lock = threading.Lock()
        if self.users and not self._blocks():
            torch.set_num_threads(self.before)
        self.users = int(bool(self._blocks()))


def _as_number(n_threads: object) -> int | None:
    """Return a number of threads, or None for "auto" and invalid values."""
    if isinstance(n_threads, bool) or not isinstance(n_threads, Integral):
        return None
    return int(n_threads) if int(n_threads) >= 1 else None


_NUMBERS = _Numbers()


@contextmanager
def threads(
    n_threads: object = None, *, work: float | None = None, most: int | None = None
) -> Iterator[None]:
    """Set torch's number of threads inside the block."""
    _NUMBERS.enter(n_threads, work, most)
    try:
        yield
    finally:
        _NUMBERS.leave()


def threads_for(model: Any, n_tokens: int) -> AbstractContextManager[None]:
    """Set the number of threads for steps of `n_tokens` tokens."""
    config: Any = getattr(model, "config", None)
    if config is None:
        return threads(work=0)
    width = config.d_model
    feedforward = getattr(config, "d_ff", None) or 2 * width
    return threads(work=n_tokens * width * max(feedforward, getattr(model, "max_tokens", 0)))


def share_of_threads(n_processes: int) -> dict[str, Any]:
    """Return the arguments of `threads` for each of several processes."""
    block = _NUMBERS.block()
    number = max((torch.get_num_threads() if block is None else block.most) // n_processes, 1)
    if block is not None and not block.automatic:
        return {"n_threads": number}
    return {"n_threads": "auto", "most": number}


def limit_threads(n_threads: int) -> None:
    """Limit torch's number of threads in this process; "auto" may choose fewer."""
    if torch.get_num_threads() != n_threads:
        torch.set_num_threads(n_threads)
    _NUMBERS.limit = n_threads


@cache
def _default() -> int | None:
    """Return torch's default for this machine; None if the program changed it."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    if _AT_IMPORT in (affinity, os.cpu_count()):
        return _AT_IMPORT
    import joblib  # counts physical cores with a process of its own

    return _AT_IMPORT if joblib.cpu_count(only_physical_cores=True) == _AT_IMPORT else None
