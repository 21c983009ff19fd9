"""How large a batch may be, where data are kept, and what to do when memory still runs out."""

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

#: Series per step where memory sets no limit: the recipe was chosen with it.
DEFAULT_BATCH = 16
#: From so many series on, larger batches take less time and give no less accuracy.
MANY_SERIES, LARGE_BATCH = 1000, 64
#: Tokens per step: each block keeps several vectors of every token for the backward pass.
_TOKENS_AT_ONCE = 2**15
#: Fraction of a device's free memory that data may take; the model and its batches need the rest.
_SHARE_OF_DATA = 0.5


def batch_for(n_tokens: int, n_cases: int = 0) -> int:
    """Return the batch size that ``batch_size="auto"`` stands for."""
    wanted = LARGE_BATCH if n_cases >= MANY_SERIES else DEFAULT_BATCH
    return min(wanted, max(_TOKENS_AT_ONCE // n_tokens, 1))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether this error means that memory ran out, on a device or on the host."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    # The host's allocator has no error class of its own.
    return isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)


def exceeds_device_memory(n_bytes: int, device: torch.device) -> bool:
    """Whether data of this size should stay on the host, and batches be sent one by one."""
    if device.type != "cuda":
        return False
    free, _ = torch.cuda.mem_get_info(device)
    return n_bytes > _SHARE_OF_DATA * free


def place(panel: AnyPanel, device: torch.device) -> AnyPanel:
    """Return the panel on `device`, or page-locked on the host if it is too large for it."""
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
    """Catch an out-of-memory error, free what its frames held, and make what is yielded true."""
    ran_out = _RanOut()
    try:
        yield ran_out
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        ran_out.of_memory = True
        reason = str(error).partition(" If reserved but unallocated")[0]
        ran_out.reason = f" ({reason})" if reason else ""
        # Until the caller's block is left the error lives, and with it the tensors of its frames.
        traceback.clear_frames(error.__traceback__)
    if ran_out and torch.cuda.is_available():
        torch.cuda.empty_cache()


def in_halves(
    function: Callable[[Tensor], Tensor],
    index: Tensor,
    device: torch.device,
    lengths: Tensor | None = None,
) -> Iterator[tuple[Tensor, Tensor]]:
    """Call a function of series on all of them, or on halves if memory runs out.

    Parameters
    ----------
    function : callable
        From the indices ``[n]`` of some series to a row for each.
    index : Tensor [B] of int64
        All of them.
    device : torch.device
        Whose memory it is, for the error.
    lengths : Tensor [n] of int64, optional
        Steps of each series, for the error.
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
                f"larger stride, which makes fewer tokens of it{ran_out.reason}"
            )
