"""The optimizer: AdamW, which parameters it decays, and its learning rate."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tsformer.training.plan import TrainingPlan

__all__ = ["decay_groups", "make_optimizer", "set_learning_rate"]


def make_optimizer(model: nn.Module, plan: TrainingPlan) -> torch.optim.AdamW:
    """Return fused AdamW over the groups of `decay_groups`."""
    graphed = plan.compile == "cuda-graphs"
    return torch.optim.AdamW(
        decay_groups(model),
        # A captured step rereads its learning rate only from a tensor.
        lr=torch.tensor(plan.learning_rate, device=plan.device) if graphed else plan.learning_rate,
        weight_decay=plan.weight_decay,
        fused=True,
        capturable=graphed,
    )


def decay_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Return two groups: weights of linear and convolution layers, and the rest, not decayed.

    Selecting by layer rather than by rank spares position tables, which are matrices too.
    """
    decayed = [
        m.weight for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d))
    ]
    chosen = {id(p) for p in decayed}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return [{"params": decayed}, {"params": rest, "weight_decay": 0.0}]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, in place where a captured step reads it from a tensor."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate
