"""AdamW with parameter groups for weight decay and pretrained weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from tsformer.training.plan import TrainingPlan
from tsformer.training.pretrained import Pretrained

__all__ = ["decay_groups", "make_optimizer", "set_learning_rate"]


def make_optimizer(model: nn.Module, plan: TrainingPlan) -> torch.optim.AdamW:
    """Return fused AdamW over the groups of `decay_groups`."""
    graphed = plan.graphed
    optimizer = torch.optim.AdamW(
        decay_groups(model, plan.pretrained),
        # A captured step reads its learning rate from a tensor.
        lr=torch.tensor(plan.learning_rate, device=plan.device) if graphed else plan.learning_rate,
        weight_decay=plan.weight_decay,
        fused=True,
        capturable=graphed,
    )
    for group in optimizer.param_groups if graphed else ():
        group["lr"] = group["lr"].clone()  # groups may have different rates
    return optimizer


def decay_groups(model: nn.Module, pretrained: Pretrained | None = None) -> list[dict[str, Any]]:
    """Group parameters: decayed weights of linear and convolution layers, and all others.

    Selection by layer rather than by rank excludes position tables from the decay. Pretrained
    parameters form separate groups with the factor of the learning rate as ``"lr_scale"``.
    """
    decayed = [
        m.weight for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d))
    ]
    chosen = {id(p) for p in decayed}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": rest, "weight_decay": 0.0}]
    if pretrained is None:
        return groups
    slow = {id(p) for name, p in model.named_parameters() if name in pretrained.names}
    scaled = [
        {**group, "params": [p for p in group["params"] if id(p) in slow]}
        | {"lr_scale": pretrained.lr_scale}
        for group in groups
    ]
    plain = [
        {**group, "params": [p for p in group["params"] if id(p) not in slow]} for group in groups
    ]
    return [group for group in (*plain, *scaled) if group["params"]]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, times the factor of each group."""
    for group in optimizer.param_groups:
        own = rate * group.get("lr_scale", 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own
