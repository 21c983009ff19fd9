"""Torch's settings and number of threads while an estimator computes; restored afterwards.

Gradient mode, autocast and the default device belong to a thread. The default dtype, the precision
of float32 products and the choice of kernels belong to the process: during a fit, other threads of
the program see torch's defaults.

Small operations gain little from a second thread, and lose much beside a busy process: after each
operation all threads wait for the slowest. So ``n_threads="auto"`` is one thread, and more only for
steps with large operations.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, partial, wraps
from numbers import Integral
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

import torch
from torch import nn

P = ParamSpec("P")
Result = TypeVar("Result")
AnyModule = TypeVar("AnyModule", bound=nn.Module)

_AUTOCAST = ("cpu", "cuda", "mps", "xpu")
#: Multiply-adds of a step's largest operation per additional thread: about 10 ms of work.
_WORTH_A_THREAD = 2**28
#: Environment variables with the user's choice; joblib sets them for its workers too.
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
_IN_JOBLIB = multiprocessing.current_process().name.startswith("LokyProcess")
_AT_IMPORT = torch.get_num_threads()


class _Setting(NamedTuple):
    """A process-wide setting, and its values that do not change results."""

    get: Callable[[], Any]
    set: Callable[[Any], None]
    plain: tuple[Any, ...]


def _attribute(owner: Any, name: str, *plain: Any) -> _Setting:
    """Return a setting that is an attribute in torch."""
    return _Setting(partial(getattr, owner, name), partial(setattr, owner, name), plain)


_backends: Any = torch.backends
#: Getter, setter and plain values of each setting; the first plain value replaces any other.
_SETTINGS = (
    _Setting(torch.get_default_dtype, torch.set_default_dtype, (torch.float32,)),
    _attribute(_backends.cuda.matmul, "fp32_precision", "ieee", "none"),
    _attribute(_backends.mkldnn.matmul, "fp32_precision", "ieee", "none"),
    _attribute(_backends.mkldnn.conv, "fp32_precision", "ieee", "none"),
    _attribute(_backends.mkldnn, "enabled", True),
    *(
        _Setting(
            getattr(_backends.cuda, f"{kernel}_sdp_enabled"),
            getattr(_backends.cuda, f"enable_{kernel}_sdp"),
            (True,),
        )
        for kernel in ("flash", "math", "mem_efficient", "cudnn")
    ),
)


class _Blocks:
    """Nested blocks of each thread; what they set is restored after the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0  # threads inside a block
        self.thread = threading.local()
        if hasattr(os, "register_at_fork"):  # a fork copies the lock and the count of all threads
            os.register_at_fork(after_in_child=self._forked)

    def blocks(self) -> list[Any]:
        """Return the blocks of this thread, the innermost last."""
        blocks: list[Any] | None = getattr(self.thread, "blocks", None)
        if blocks is None:
            blocks = self.thread.blocks = []
        return blocks

    def restore(self) -> None:
        """Restore what was set."""
        raise NotImplementedError

    def _forked(self) -> None:
        """Keep only the blocks of the forking thread."""
        self.lock = threading.Lock()
        if self.users and not self.blocks():
            self.restore()
        self.users = int(bool(self.blocks()))


class _Process(_Blocks):
    """Process-wide settings."""

    def __init__(self) -> None:
        super().__init__()
        self.saved: dict[int, Any] = {}

    def enter(self) -> None:
        """Save the settings that are not plain, and make them plain."""
        with self.lock:
            self.users += not self.blocks()
            self.blocks().append(None)
            self._make_plain()

    def leave(self) -> None:
        """Restore the saved settings after the last block of all threads."""
        with self.lock:
            self.blocks().pop()
            self.users -= not self.blocks()
            if self.users:
                self._make_plain()
            else:
                self.restore()

    def _make_plain(self) -> None:
        for number, setting in enumerate(_SETTINGS):
            value = setting.get()
            if value not in setting.plain:
                self.saved[number] = value
                setting.set(setting.plain[0])

    def restore(self) -> None:
        for number, value in self.saved.items():
            setting = _SETTINGS[number]
            if setting.get() in setting.plain:  # otherwise the program set it during the block
                setting.set(value)
        self.saved.clear()


class _Block(NamedTuple):
    """Number of threads in a block, its maximum, and its origin."""

    now: int
    most: int
    automatic: bool


class _Numbers(_Blocks):
    """Numbers of threads: torch has one for each thread, and a default for new threads."""

    def __init__(self) -> None:
        super().__init__()
        self.before = self.newest = 0
        self.limit: int | None = None

    def enter(self, n_threads: object, work: float | None, most: int | None) -> None:
        """Set the number of threads of a block."""
        with self.lock:
            blocks, current = self.blocks(), torch.get_num_threads()
            if not blocks:
                # A thread that started during another thread's block has the block's number.
                temporary = self.users > 0 and current == self.newest
                self.thread.before = self.before if temporary else current
                if not self.users:
                    self.before = self.thread.before
                self.users += 1
            before: int = self.thread.before
            valid = isinstance(n_threads, Integral) and not isinstance(n_threads, bool)
            number = int(cast(Any, n_threads)) if valid else 0
            if number > 0:
                block = _Block(number, number, automatic=False)
            elif n_threads is None and blocks:
                block = blocks[-1]
            elif most is not None:
                block = _Block(1, most, automatic=True)
            elif self._chosen(before):
                block = _Block(before, before, automatic=False)
            else:
                block = _Block(1, before, automatic=True)
            if block.automatic and work is not None:
                now = min(block.most, 1 + int(min(work // _WORTH_A_THREAD, block.most)))
                block = block._replace(now=now)
            blocks.append(block)
            self._set(block.now)

    def leave(self) -> None:
        """Restore the number of the enclosing block, or the original number."""
        with self.lock:
            blocks = self.blocks()
            blocks.pop()
            self._set(blocks[-1].now if blocks else self.thread.before)
            self.users -= not blocks

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

    def restore(self) -> None:
        torch.set_num_threads(self.before)


@cache
def _default() -> int | None:
    """Return torch's default for this machine; None if the program changed it."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    if _AT_IMPORT in (affinity, os.cpu_count()):
        return _AT_IMPORT
    import joblib  # counts physical cores with a process of its own

    return _AT_IMPORT if joblib.cpu_count(only_physical_cores=True) == _AT_IMPORT else None


_PROCESS, _NUMBERS = _Process(), _Numbers()


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
    block = _NUMBERS.blocks()[-1] if _NUMBERS.blocks() else None
    number = max((torch.get_num_threads() if block is None else block.most) // n_processes, 1)
    if block is not None and not block.automatic:
        return {"n_threads": number}
    return {"n_threads": "auto", "most": number}


def limit_threads(n_threads: int) -> None:
    """Limit torch's number of threads in this process; "auto" may choose fewer."""
    if torch.get_num_threads() != n_threads:
        torch.set_num_threads(n_threads)
    _NUMBERS.limit = n_threads


@contextmanager
def plain_torch(n_threads: object = None) -> Iterator[None]:
    """Compute with torch's default settings inside the block, and `n_threads` as in `threads`."""
    _PROCESS.enter()
    try:
        with threads(n_threads), ExitStack() as stack:
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            for kind in _AUTOCAST:
                if torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            if torch._C._len_torch_function_stack():  # asking for the default device is slow
                stack.enter_context(torch.device(getattr(_PROCESS.thread, "device", "cpu")))
            yield
    finally:
        _PROCESS.leave()


@contextmanager
def on_meta_device() -> Iterator[None]:
    """Make tensors without memory inside the block, also inside `plain_torch`."""
    _PROCESS.thread.device = "meta"
    try:
        with torch.device("meta"):
            yield
    finally:
        del _PROCESS.thread.device


def in_plain_torch(function: Callable[P, Result]) -> Callable[P, Result]:
    """Run a function inside `plain_torch`, with the `n_threads` of its first argument."""

    @wraps(function)
    def inside(*args: P.args, **kwargs: P.kwargs) -> Result:
        with plain_torch(getattr(args[0], "n_threads", None) if args else None):
            return function(*args, **kwargs)

    return inside


def trainable(module: AnyModule) -> AnyModule:
    """Replace inference-mode tensors, which cannot be trained; return the module."""
    for owner in module.modules():
        for name, parameter in owner.named_parameters(recurse=False):
            if parameter.is_inference():
                setattr(owner, name, nn.Parameter(parameter.clone(), parameter.requires_grad))
        for name, buffer in owner.named_buffers(recurse=False):
            if buffer.is_inference():
                setattr(owner, name, buffer.clone())
    return module
