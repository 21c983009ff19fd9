"""Weights that came pretrained: learned at a rate of their own, or not at all for a while."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["Pretrained", "set_frozen"]


@dataclass(frozen=True)
class Pretrained:
    """Which parameters of a model are pretrained, and how they are trained on."""

    names: frozenset[str] = field(repr=False)  # too many for a log; the weights tell runs apart
    lr_scale: float = 1.0
    n_epochs_frozen: int = 0

    def frozen(self, epoch: int) -> frozenset[str]:
        """Return the names of the parameters that are frozen in an epoch, counted from 0."""
        return self.names if epoch < self.n_epochs_frozen else frozenset()


def set_frozen(model: nn.Module, names: frozenset[str]) -> None:
    """Freeze these parameters and the averages of their batch norms; train all others."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in names)
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and f"{name}.weight" in names:
            module.eval()
