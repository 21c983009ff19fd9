"""Precision, and torch's other settings while an estimator computes.

Gradient mode, autocast and the default device belong to a thread; the default dtype, the precision
of products and the choice of kernels to the process: other threads see torch's defaults in a fit.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn

from tsformer._checks import check_known
from tsformer._threads import threads

P = ParamSpec("P")
Result = TypeVar("Result")
AnyModule = TypeVar("AnyModule", bound=nn.Module)

PRECISIONS = ("auto", "float32", "bfloat16")
#: Smallest number of values (tokens times width) of a series for bfloat16 by default. Below it,
#: casting costs more than it gains: ``experiments/results/gpu/training.jsonl``.
_MANY_VALUES = 2**14


def resolve_precision(precision: str, device: torch.device, n_values: int = 0) -> bool:
    """Whether to autocast to bf16; "auto" does for large models on CUDA devices that support it."""
    if precision == "auto":
        if device.type != "cuda" or n_values < _MANY_VALUES:
            return False
        return torch.cuda.is_bf16_supported(including_emulation=False)
    check_known("precision", precision, PRECISIONS)
    return precision == "bfloat16"


_backends: Any = torch.backends
_cuda = _backends.cuda
#: Getter, setter and plain values of a process-wide setting; the first plain value replaces others.
_Setting = tuple[Callable[[], Any], Callable[[Any], None], tuple[Any, ...]]
_SETTINGS: tuple[_Setting, ...] = (
    (torch.get_default_dtype, torch.set_default_dtype, (torch.float32,)),
    *(
        (partial(getattr, owner, name), partial(setattr, owner, name), plain)
        for owner, name, plain in (
            (_backends.cuda.matmul, "fp32_precision", ("ieee", "none")),
            (_backends.mkldnn.matmul, "fp32_precision", ("ieee", "none")),
            (_backends.mkldnn.conv, "fp32_precision", ("ieee", "none")),
            (_backends.mkldnn, "enabled", (True,)),
        )
    ),
    *(
        (getattr(_cuda, f"{kernel}_sdp_enabled"), getattr(_cuda, f"enable_{kernel}_sdp"), (True,))
        for kernel in ("flash", "math", "mem_efficient", "cudnn")
    ),
)
_LOCK = threading.Lock()
#: Open blocks of all threads, and the replaced settings with the program's values.
_BLOCKS: list[object] = []
_REPLACED: list[tuple[_Setting, Any]] = []
_AUTOCAST = ("cpu", "cuda", "mps", "xpu")


@contextmanager
def plain_torch(n_threads: object = None) -> Iterator[None]:
    """Compute with torch's default settings inside the block, and `n_threads` as in `threads`."""
    with _LOCK:
        _BLOCKS.append(n_threads)
        for setting in _SETTINGS:
            get, set_value, plain = setting
            if (value := get()) not in plain:
                _REPLACED.append((setting, value))
                set_value(plain[0])
    try:
        with threads(n_threads), ExitStack() as stack:
            if torch.is_inference_mode_enabled():
                stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.enable_grad())
            for kind in _AUTOCAST:
                if torch.is_autocast_enabled(kind):
                    stack.enter_context(torch.autocast(kind, enabled=False))
            if torch.empty(0).device.type != "cpu":
                stack.enter_context(torch.device("cpu"))
            yield
    finally:
        with _LOCK:
            _BLOCKS.pop()
            while _REPLACED and not _BLOCKS:
                (get, set_value, plain), value = _REPLACED.pop()
                if get() in plain:  # else set in the block
                    set_value(value)


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
        for name, x in [*owner.named_parameters("", False), *owner.named_buffers("", False)]:
            if x.is_inference():
                trained = isinstance(x, nn.Parameter)
                copy = nn.Parameter(x.clone(), x.requires_grad) if trained else x.clone()
                setattr(owner, name, copy)
    return module
