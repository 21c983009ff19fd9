"""Which kind of step a plan asks for: plain, compiled, or captured in CUDA graphs."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor, nn

from tsformer.data.panel import Panel, same_device
from tsformer.training.cuda_graphs import GraphedStep
from tsformer.training.distributed import Ranks
from tsformer.training.memory import exceeds_device_memory
from tsformer.training.plan import TrainingPlan
from tsformer.training.step import Loss, TrainingStep

__all__ = ["make_step", "place", "set_rate"]


def place(panel: Panel, device: torch.device) -> Panel:
    """Return the panel on `device`, or page-locked on the host where it is too large for it."""
    return panel.pinned() if exceeds_device_memory(panel.n_bytes, device) else panel.to(device)


def make_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    panel: Panel,
    targets: Tensor,
    weights: Tensor | None,
    loss: Loss,
    plan: TrainingPlan,
    ranks: Ranks,
) -> TrainingStep:
    """Return what takes the steps of a training; the parameters are those of `TrainingStep`."""
    compiled: Any = torch.compile(model) if plan.compile is True else model
    forward = ranks.wrap(compiled, plan.device)
    kind = TrainingStep
    if plan.compile == "cuda-graphs":
        reason = _not_captured(panel, plan, ranks)
        if reason is None:
            kind = GraphedStep
        else:
            warnings.warn(f"steps are not captured in CUDA graphs: {reason}", stacklevel=2)
    options: Any = {"forward": forward, "may_cut": ranks.size == 1}
    return kind(model, optimizer, panel, targets, weights, loss, plan, **options)


def _not_captured(panel: Panel, plan: TrainingPlan, ranks: Ranks) -> str | None:
    """Return why a captured step cannot be had, or None."""
    if ranks.size > 1:
        return "several processes share each of them"
    if not same_device(panel.values.device, plan.device):
        return f"the data do not fit on {plan.device} and go there batch by batch"
    return None


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, in place where a captured step reads it from a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
