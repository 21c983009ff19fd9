"""Torch's number of threads while an estimator computes.

After each operation all threads wait for the slowest: ``n_threads="auto"`` is one thread, and more
only for steps with large operations. The user's number comes from `n_threads`, an environment
variable (even if another library such as numba changed torch's number) or `torch.set_num_threads`.
"""

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import joblib
import numpy as np
import torch

#: Multiply-adds of a step's largest operation per additional thread: about 10 ms of work.
_WORTH_A_THREAD = 2**28
#: Environment variables with the user's choice, in torch's order; joblib sets them for its workers.
_VARIABLES = ("MKL_NUM_THREADS", "OMP_NUM_THREADS")
_IN_JOBLIB = multiprocessing.current_process().name.startswith("LokyProcess")


class _Block(NamedTuple):
    """Number of threads in a block, its maximum, and whether "auto" chose it."""

    now: int
    most: int
    automatic: bool


#: Innermost block of each thread.
_BLOCK: ContextVar[_Block | None] = ContextVar("block", default=None)
#: Numbers outside the blocks of all threads, and the limit of this process.
_OUTSIDE: list[int] = []
_LIMIT: list[int] = []


@contextmanager
def threads(
    n_threads: object = None,
    *,
    work: float | None = None,
    model: Any = None,
    n_tokens: int = 0,
    most: int | None = None,
) -> Iterator[None]:
    """Set torch's number of threads inside the block.

    `work` is the number of multiply-adds of the largest operation; by default that of `n_tokens`
    tokens in a transformer, if there is a `model`.
    """
    outer, before = _BLOCK.get(), torch.get_num_threads()
    if outer is None:
        # A thread that started during another thread's block has the number of that block.
        before = max([before, *_OUTSIDE])
    if model is not None:
        config: Any = getattr(model, "config", None)
        width = 0 if config is None else config.d_model
        feedforward = getattr(config, "d_ff", None) or 2 * width
        work = n_tokens * width * max(feedforward, getattr(model, "max_tokens", 0))
    number = int(n_threads) if isinstance(n_threads, (int, np.integer)) else 0
    if number > 0 and n_threads is not True:
        block = _Block(number, number, automatic=False)
    elif n_threads is None and outer is not None:
        block = outer
    elif most is not None:
        block = _Block(1, most, automatic=True)
    else:
        cores = usable = os.cpu_count() or 1
        if hasattr(os, "sched_getaffinity"):
            usable = len(os.sched_getaffinity(0))
        variables = [os.environ.get(name, "").partition(",")[0] for name in _VARIABLES]
        chosen = next((int(text) for text in variables if text.isdecimal() and int(text)), None)
        if chosen is not None:
            chosen = min(chosen, usable)  # as torch does
        numba = getattr(sys.modules.get("numba"), "config", None)
        defaults = (1, usable, cores, getattr(numba, "NUMBA_NUM_THREADS", None))
        limited = [*_LIMIT, *[chosen or before] * _IN_JOBLIB]
        # joblib counts physical cores in a process of its own, once.
        usual = limited or chosen or before in defaults or before == joblib.cpu_count(True)
        chosen = chosen if usual else before  # by `torch.set_num_threads`
        automatic = chosen is None or bool(limited)
        most = limited[0] if limited else chosen or before
        block = _Block(1 if automatic else most, most, automatic)
    if block.automatic and work is not None:
        block = block._replace(now=min(block.most, 1 + int(work // _WORTH_A_THREAD)))
    token = _BLOCK.set(block)
    if outer is None:
        _OUTSIDE.append(before)
    try:
        if torch.get_num_threads() != block.now:
            torch.set_num_threads(block.now)
        yield
    finally:
        _BLOCK.reset(token)
        if outer is None:
            _OUTSIDE.remove(before)
        if torch.get_num_threads() != before:
            torch.set_num_threads(before)


def share_of_threads(n_processes: int) -> dict[str, Any]:
    """Return the arguments of `threads` for each of several processes."""
    with threads():
        block = _BLOCK.get()
    assert block is not None
    most = max(block.most // n_processes, 1)
    return {"n_threads": "auto" if block.automatic else most, "most": most}


def limit_threads(n_threads: int) -> None:
    """Limit torch's number of threads in this process; "auto" may choose fewer."""
    torch.set_num_threads(n_threads)
    _LIMIT[:] = [n_threads]
