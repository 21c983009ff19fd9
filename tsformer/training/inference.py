"""Run a model over many series without gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from tsformer._threads import threads_for
from tsformer.data.batching import in_order
from tsformer.data.panel import send
from tsformer.data.stored_panel import AnyPanel
from tsformer.training.memory import in_halves

__all__ = ["forward"]

#: Tokens per batch: few on a CPU, to fit its cache; many on a GPU, to keep it busy.
_TOKENS = {"cpu": 2**12}
_TOKENS_ELSEWHERE = 2**17


def forward(
    model: nn.Module,
    panel: AnyPanel,
    *,
    bfloat16: bool = False,
    function: Callable[..., Tensor] | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Run `function`, by default the model, over all series in eval mode without gradients.

    Series of similar length share a batch of a few thousand tokens. Batches that do not fit into
    memory are halved.

    Parameters
    ----------
    model : nn.Module
        On `device`.
    panel : Panel or StoredPanel
        All series, ``n`` of them.
    bfloat16 : bool, default=False
        Whether to run in bf16 autocast.
    function : callable, optional
        Another method of the model.
    device : torch.device, optional
        Device of the model; by default the device of the panel.

    Returns
    -------
    Tensor [n, ...]
        float32, on the CPU, in the panel's order.
    """
    function = model if function is None else function

    def run(part: Tensor) -> Tensor:
        output: Tensor = function(*panel.take(part, device=device)).float()
        return output

    device = panel.device if device is None else device
    was_training = model.training
    model.eval()
    outputs: Tensor | None = None
    try:
        with (
            threads_for(model, _TOKENS["cpu"]),
            torch.inference_mode(),
            torch.autocast(device.type, torch.bfloat16, enabled=bfloat16),
            panel.ahead(in_order(panel.lengths, _steps_at_once(model, device))) as batches,
        ):
            for index in batches:
                for part, output in in_halves(run, index, device, panel.lengths):
                    if outputs is None:
                        with torch.inference_mode(False):  # the caller may change it in place
                            outputs = torch.empty((len(panel), *output.shape[1:]), device=device)
                    outputs.index_copy_(0, send(part, device), output)
    finally:
        model.train(was_training)
    assert outputs is not None  # there is at least one series
    return outputs.cpu()


def _steps_at_once(model: nn.Module, device: torch.device) -> int:
    """Return the number of padded steps per batch."""
    stem: Any = getattr(model, "stem", None)
    stride = 1 if stem is None else stem.stride
    return _TOKENS.get(device.type, _TOKENS_ELSEWHERE) * stride
