"""Tasks and losses of a pretraining objective."""

from __future__ import annotations

from math import ceil

import torch
from torch import Tensor, nn

from tsformer._threads import threads_for
from tsformer.augmentation import Batch
from tsformer.data.stored_panel import AnyPanel
from tsformer.objectives import Posed, Pretext
from tsformer.training.seeds import drawing

__all__ = ["posed", "pretext_losses"]

#: Separates the draws of an objective from the draws of an augmentation.
_STREAM = (1,)


def posed(pretext: Pretext, batch: Batch, *, seed: int, step: int) -> Posed:
    """Return the task for a batch, sampled from the seed and the step."""
    with drawing(seed, step, batch.values.device, stream=_STREAM):
        return pretext.pose(batch)


def pretext_losses(
    model: nn.Module,
    panel: AnyPanel,
    pretext: Pretext,
    *,
    batch_size: int,
    seed: int,
    bfloat16: bool = False,
) -> Tensor:
    """Compute the loss of each series in eval mode, without gradients.

    Batches are consecutive series, and their tasks depend on the seed and the number of the batch:
    the same arguments give the same losses.

    Returns
    -------
    Tensor [n]
        On the device of the panel.
    """
    device = panel.device
    was_training = model.training
    model.eval()
    losses = []
    try:
        batches = torch.arange(len(panel)).tensor_split(ceil(len(panel) / batch_size))
        with (
            threads_for(model, batch_size * getattr(model, "max_tokens", 0)),
            torch.inference_mode(),
            torch.autocast(device.type, torch.bfloat16, enabled=bfloat16),
            panel.ahead(batches) as coming,
        ):
            for number, index in enumerate(coming):
                batch = Batch(*panel.take(index), symbolic=panel.symbolic, n_flags=panel.n_flags)
                task = posed(pretext, batch, seed=seed, step=number)
                outputs = model(task.batch.values, task.batch.mask, task.batch.times)
                losses.append(pretext.losses(outputs.float(), task))
    finally:
        model.train(was_training)
    return torch.cat(losses)
