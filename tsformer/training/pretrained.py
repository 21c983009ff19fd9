"""Pretrained weights: another learning rate, or frozen epochs."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["Pretrained", "set_frozen"]


@dataclass(frozen=True)
class Pretrained:
    """Names of pretrained parameters, and how they are trained."""

    names: frozenset[str] = field(repr=False)  # too many to print
    lr_scale: float = 1.0
    n_epochs_frozen: int = 0

    def frozen(self, epoch: int) -> frozenset[str]:
        """Return the names of the frozen parameters in an epoch, from 0."""
        return self.names if epoch < self.n_epochs_frozen else frozenset()


def set_frozen(model: nn.Module, names: frozenset[str]) -> None:
    """Freeze parameters and the averages of their batch norms; unfreeze all others."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in names)
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and f"{name}.weight" in names:
            module.eval()
