"""Compute under torch's default settings and restore the program's settings.

Gradient mode, autocast and the default device belong to a thread. The default dtype, the precision
of float32 products and the choice of kernels belong to the process: during a fit, other threads of
the program see torch's defaults.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Any, NamedTuple, ParamSpec, TypeVar

import torch
from torch import nn

from tsformer._threads import threads

P = ParamSpec("P")
Result = TypeVar("Result")
AnyModule = TypeVar("AnyModule", bound=nn.Module)

_AUTOCAST = ("cpu", "cuda", "mps", "xpu")


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


class _Process:
    """Set plain settings in nested blocks; restore them after the last."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.saved: dict[int, Any] = {}
        self.thread = threading.local()
        if hasattr(os, "register_at_fork"):  # a fork copies the lock and the count of all threads
            os.register_at_fork(after_in_child=self._forked)

    def enter(self) -> None:
        """Save the settings that are not plain, and make them plain."""
        with self.lock:
            self.users += 1
            self.thread.depth = self._depth() + 1
            self._make_plain()

    def leave(self) -> None:
        """Restore the saved settings after the last block of all threads."""
        with self.lock:
            self.users -= 1
            self.thread.depth = self._depth() - 1
            if self.users:
                self._make_plain()
            else:
                self._restore()

    def _make_plain(self) -> None:
        for number, setting in enumerate(_SETTINGS):
            value = setting.get()
            if value not in setting.plain:
                self.saved[number] = value
                setting.set(setting.plain[0])

    def _restore(self) -> None:
        for number, value in self.saved.items():
            setting = _SETTINGS[number]
            if setting.get() in setting.plain:  # otherwise the program set it during the block
                setting.set(value)
        self.saved.clear()

    def _depth(self) -> int:
        depth: int = getattr(self.thread, "depth", 0)
        return depth

    def _forked(self) -> None:
        """Keep only the blocks of the forking thread."""
        self.lock = threading.Lock()
        self.users = self._depth()
        if not self.users:
            self._restore()


_PROCESS = _Process()


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
