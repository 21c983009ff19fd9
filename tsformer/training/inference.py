"""Passes over all series without training, in halves where memory runs out."""

import traceback
from collections.abc import Callable
from contextlib import ExitStack
from math import ceil

import torch
from torch import Tensor, nn

from tsformer._random import seeded
from tsformer._threads import threads
from tsformer.augmentation import Batch
from tsformer.data.panel import AnyPanel, in_order, send
from tsformer.objectives import Posed, Pretext

#: Tokens per batch: few on a CPU, to fit its cache; many on a GPU, to keep it busy.
_TOKENS, _TOKENS_ELSEWHERE = {"cpu": 2**12}, 2**17
_SHARE_OF_DATA = 0.5  # of a device's free memory; the model and its batches need memory too
_SCORED_SERIES, _SCORED_TOKENS = 16, 2**15  # of a batch in which an objective is scored
_STREAM = 1  # separates an objective's draws from an augmentation's draws


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error is an out-of-memory error of a device or the host."""
    of_host = isinstance(error, RuntimeError) and "DefaultCPUAllocator" in str(error)
    return of_host or isinstance(error, (MemoryError, torch.OutOfMemoryError))


def place(panel: AnyPanel, device: torch.device) -> AnyPanel:
    """Move the panel to `device`, or pin it on the host if too large."""
    if device.type != "cuda":
        return panel.to(device)
    large = panel.n_bytes > _SHARE_OF_DATA * torch.cuda.mem_get_info(device)[0]
    return panel.pinned() if large else panel.to(device)


def released(error: Exception) -> str:
    """Free the tensors of an out-of-memory error and return its reason; raise other errors."""
    if not is_out_of_memory(error):
        raise error
    traceback.clear_frames(error.__traceback__)  # they keep tensors alive
    torch.cuda.empty_cache()
    reason = str(error).partition(" If reserved but unallocated")[0]
    return f" ({reason})" if reason else ""


def in_halves(
    function: Callable[..., Tensor], panel: AnyPanel, index: Tensor, device: torch.device
) -> Tensor:
    """Call a function on series, or on halves of them if memory runs out; return all rows."""
    try:
        return function(*panel.take(index, device=device)).float()
    except Exception as error:
        reason = released(error)
    if len(index) == 1:
        raise MemoryError(
            f"one series of {int(panel.lengths[index])} steps does not fit into the memory of "
            f"{device}; use a stem with a larger stride, which makes fewer tokens{reason}"
        )
    return torch.cat([in_halves(function, panel, half, device) for half in index.tensor_split(2)])


def forward(
    model: nn.Module,
    panel: AnyPanel,
    *,
    bfloat16: bool = False,
    function: Callable[..., Tensor] | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Run `function`, by default the model, over all series, in eval mode without gradients.

    Series of similar length share a batch. The model is on `device`, by default the panel's.
    Returns float32 ``[n, ...]`` on the CPU.
    """
    function, device = function or model, device or panel.device
    stride = getattr(getattr(model, "stem", None), "stride", 1)
    n_steps = _TOKENS.get(device.type, _TOKENS_ELSEWHERE) * stride
    outputs: Tensor | None = None
    with (
        ExitStack() as after,
        threads(model=model, n_tokens=_TOKENS["cpu"]),
        torch.inference_mode(),
        torch.autocast(device.type, torch.bfloat16, enabled=bfloat16),
        panel.ahead(in_order(panel.lengths, n_steps)) as batches,
    ):
        if model.training:
            after.callback(model.train)
            model.eval()
        for index in batches:
            output = in_halves(function, panel, index, device)
            if outputs is None:
                with torch.inference_mode(False):  # the caller may change it in place
                    outputs = torch.empty((len(panel.lengths), *output.shape[1:]), device=device)
            outputs.index_copy_(0, send(index, device), output)
    assert outputs is not None  # there is at least one series
    return outputs.cpu()


def posed(pretext: Pretext, batch: Batch, *, seed: int, step: int) -> Posed:
    """Return the task for a batch, sampled from the seed and the step."""
    with seeded(seed, batch.values.device, step, _STREAM):
        return pretext.objective.pose(batch, pretext.layout)


def pretext_losses(
    model: nn.Module, panel: AnyPanel, pretext: Pretext, *, bfloat16: bool = False
) -> Tensor:
    """Compute the loss of each series in eval mode; batches and tasks are the same in each call."""
    n_tokens = getattr(model, "max_tokens", 1)
    batch_size = min(_SCORED_SERIES, max(_SCORED_TOKENS // n_tokens, 1))
    batches = torch.arange(len(panel)).tensor_split(ceil(len(panel) / batch_size))
    losses = []
    model.eval()
    with (
        threads(model=model, n_tokens=batch_size * n_tokens),
        torch.inference_mode(),
        torch.autocast(panel.device.type, torch.bfloat16, enabled=bfloat16),
        panel.ahead(batches) as coming,
    ):
        for number, index in enumerate(coming):
            batch = Batch(*panel.take(index), symbolic=panel.symbolic, n_flags=panel.n_flags)
            task = posed(pretext, batch, seed=0, step=number)
            outputs = model(task.batch.values, task.batch.mask, task.batch.times)
            losses.append(pretext.objective.losses(outputs.float(), task))
    return torch.cat(losses)
