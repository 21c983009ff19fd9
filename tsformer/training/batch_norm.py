"""Running averages for batch norms to predict with, of the final weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from tsformer.data.batching import shuffled
from tsformer.data.panel import Panel
from tsformer.training.plan import TrainingPlan

__all__ = ["update_bn"]


def update_bn(model: nn.Module, panel: Panel, plan: TrainingPlan) -> None:
    """Set the running averages of batch norms to their mean over one more pass without training.

    Averages kept during training lag behind the weights: after a short run they are still close to
    their initial values, and on small data they rest on the last few batches.

    Unlike `torch.optim.swa_utils.update_bn` this runs only the stem if all batch norms are in it,
    draws batches as training does, and leaves dropout out, as prediction does.

    Parameters
    ----------
    model : nn.Module
        Changed in place, but only in these averages.
    panel : Panel
        The training series, on the plan's device.
    plan : TrainingPlan
        Has the batch size that the weights were trained with.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    stem = getattr(model, "stem", None)
    in_stem = stem is not None and set(norms) <= set(stem.modules())
    run: Any = model.forward_stem if in_stem else model  # later layers change no average
    was_training = model.training
    model.eval()
    for norm in norms:
        norm.train()
    generator = torch.Generator().manual_seed(plan.seed)
    try:
        with (
            torch.no_grad(),
            torch.autocast(plan.device.type, torch.bfloat16, enabled=plan.bfloat16),
        ):
            batches = shuffled(panel.lengths, plan.batch_size, generator)
            for count, index in enumerate(batches, start=1):
                for norm in norms:
                    norm.momentum = 1 / count  # so that the average is the plain mean
                run(*panel.take(index, device=plan.device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)
