"""Batch sizes, placement of data, and recovery from out-of-memory errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from tsformer.data.stored_panel import AnyPanel

__all__ = [
    "DEFAULT_BATCH",
    "MANY_SERIES",
    "batch_for",
    "catch_oom",
    "exceeds_device_memory",
    "in_halves",
    "is_out_of_memory",
    "place",
]

#: Series per step, unless memory is short.
DEFAULT_BATCH = 16
#: From this many series on, larger batches are faster and as accurate.
MANY_SERIES, LARGE_BATCH = 1000, 64
#: Largest number of tokens per step, as each block keeps several vectors per token.
_TOKENS_AT_ONCE = 2**15
#: Largest share of a device's free memory for data; the model and its batches need memory too.
_SHARE_OF_DATA = 0.5


def batch_for(n_tokens: int, n_cases: int = 0) -> int:
    """Return the batch size for ``batch_size="auto"``."""
    wanted = LARGE_BATCH if n_cases >= MANY_SERIES else DEFAULT_BATCH
    return min(wanted, max(_TOKENS_AT_ONCE // n_tokens, 1))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is an out-of-memory error of a device or the host."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The host's allocator has no error class of its own.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def exceeds_device_memory(n_bytes: int, device: torch.device) -> bool:
    """Whether data of this size should stay on the host."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return n_bytes > _SHARE_OF_DATA * free


def place(panel: AnyPanel, device: torch.device) -> AnyPanel:
    """Move the panel to `device`, or pin it on the host if too large."""
    return panel.pinned() if exceeds_device_memory(panel.n_bytes, device) else panel.to(device)


class _RanOut:
    """True once the block has run out of memory."""

    def __init__(self) -> None:
        self.of_memory = False
        self.reason = ""

    def __bool__(self) -> bool:
        return self.of_memory


@contextmanager
def catch_oom() -> Iterator[_RanOut]:
    """Catch an out-of-memory error, release its tensors and set the yielded flag."""
    ran_out = _RanOut()
    try:
        yield ran_out
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        ran_out.of_memory = True
        reason = str(error).partition(" If reserved but unallocated")[0]
        ran_out.reason = f" ({reason})" if reason else ""
        # The error keeps the tensors of its frames alive.
        traceback.clear_frames(error.__traceback__)
    if ran_out and torch.cuda.is_available():
        torch.cuda.empty_cache()


def in_halves(
    function: Callable[[Tensor], Tensor],
    index: Tensor,
    device: torch.device,
    lengths: Tensor | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Call a function on all series, or on halves if memory runs out.

    Parameters
    ----------
    function : callable
        From indices ``[n]`` of series to a row for each.
    index : Tensor [B] of int64
        Indices of all series.
    device : torch.device
        Device of the function, for the error message.
    lengths : Tensor [n] of int64, optional
        Length of each series, for the error message.
    """
    waiting = [index]
    while waiting:
        part = waiting.pop(0)
        with catch_oom() as ran_out:
            rows = function(part)
        if not ran_out:
            yield part, rows
        elif len(part) > 1:
            waiting = [*part.tensor_split(2), *waiting]
        else:
            steps = "" if lengths is None else f" of {int(lengths[part])} steps"
            raise MemoryError(
                f"one series{steps} does not fit into the memory of {device}; use a stem with a "
                f"larger stride, which makes fewer tokens{ran_out.reason}"
            )
