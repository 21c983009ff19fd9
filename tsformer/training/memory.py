"""Batch sizes, placement of data, and recovery from out-of-memory errors."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from tsformer.data.panel import AnyPanel

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


@contextmanager
def catch_oom() -> Iterator[list[str]]:
    """Catch an out-of-memory error, release its tensors and yield a list for its reason."""
    ran_out: list[str] = []
    try:
        yield ran_out
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        reason = str(error).partition(" If reserved but unallocated")[0]
        ran_out.append(f" ({reason})" if reason else "")
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
    """Call a function on all series, or on halves if memory runs out."""
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
                f"larger stride, which makes fewer tokens{ran_out[0]}"
            )
