"""Which kind of step a plan asks for: plain, compiled, or captured in CUDA graphs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tsformer.data.panel import Panel
from tsformer.training.distributed import Ranks
from tsformer.training.graphs import GraphedStep
from tsformer.training.memory import spills
from tsformer.training.plan import TrainingPlan
from tsformer.training.step import Loss, TrainingStep

__all__ = ["make_step", "place", "set_rate"]


def place(panel: Panel, device: torch.device) -> Panel:
    """Return the panel on `device`, or page-locked on the host where it is too large for it."""
    return panel.pinned() if spills(panel.n_bytes, device) else panel.to(device)


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
    resident = panel.values.device == plan.device
    graphed = plan.compile == "cuda-graphs" and resident and ranks.size == 1
    kind = GraphedStep if graphed else TrainingStep
    return kind(model, optimizer, panel, targets, weights, loss, plan, forward=forward)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, in place where a captured step reads it from a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
