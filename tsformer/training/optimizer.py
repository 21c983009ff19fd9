"""The optimizer of a training: AdamW, and what of a model it decays."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tsformer.training.plan import TrainingPlan

__all__ = ["decay_groups", "make_optimizer"]


def make_optimizer(model: nn.Module, plan: TrainingPlan) -> torch.optim.AdamW:
    """Return fused AdamW over the groups of `decay_groups`."""
    graphed = plan.compile == "cuda-graphs"
    return torch.optim.AdamW(
        decay_groups(model),
        # What a captured step shall read anew each time has to be a tensor.
        lr=torch.tensor(plan.learning_rate, device=plan.device) if graphed else plan.learning_rate,
        weight_decay=plan.weight_decay,
        fused=True,
        capturable=graphed,
    )


def decay_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Return two groups: the matrices of linear and convolution layers, and the rest, not decayed.

    Going by layer rather than by rank spares position tables, which are matrices too.
    """
    decayed = [
        m.weight for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d))
    ]
    chosen = {id(p) for p in decayed}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    return [{"params": decayed}, {"params": rest, "weight_decay": 0.0}]
