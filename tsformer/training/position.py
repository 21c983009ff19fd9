"""Where a training stands: what a checkpoint must hold beside model and optimizer."""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["LoopState", "Snapshot"]

#: An epoch and the weights at its end.
Snapshot = tuple[int, dict[str, Tensor]]


class LoopState:
    """Steps and batches done, the sum of losses of this epoch, and weights that are worth keeping.

    Parameters
    ----------
    model : nn.Module
        What learns.
    epoch : int
        Epochs done before.
    generator : torch.Generator
        Shuffles; its state at the start of an epoch gives the batches of that epoch again.
    device : torch.device
        Where losses are added up.

    Attributes
    ----------
    step, batch : int
        Steps done in all, and in this epoch.
    total : Tensor
        Sum of the losses of this epoch so far.
    snapshots : list of Snapshot
        The weights of the start, of the epoch before the last, and of the last.
    best, best_loss
        Weights that validation judged best, and their loss.
    """

    def __init__(
        self, model: nn.Module, epoch: int, generator: torch.Generator, device: torch.device
    ):
        self.step = 0
        self.batch = 0
        self.total = torch.zeros((), device=device)
        self.best_loss = math.inf
        self.snapshots: list[Snapshot] = [(epoch, copy.deepcopy(model.state_dict()))]
        self.best = self.snapshots[0][1]
        self._model = model
        self._generator = generator
        self._shuffling = generator.get_state()

    def begin_epoch(self) -> None:
        """Start the next epoch, or go on in the middle of one that a checkpoint was kept in."""
        if self.batch:
            self._generator.set_state(self._shuffling)
            return
        self._shuffling = self._generator.get_state()
        self.total = torch.zeros_like(self.total)

    def end_epoch(self, epoch: int) -> None:
        """Keep the weights at the end of this epoch."""
        good = copy.deepcopy(self._model.state_dict())
        self.snapshots = [self.snapshots[0], self.snapshots[-1], (epoch, good)]
        self.batch = 0
        self._shuffling = self._generator.get_state()

    def state_dict(self) -> dict[str, Any]:
        """Return all of it, of tensors and plain values."""
        return {
            "step": self.step,
            "batch": self.batch,
            "total": self.total,
            "snapshots": self.snapshots,
            "best": self.best,
            "best_loss": self.best_loss,
            "shuffling": self._shuffling,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what `state_dict` returned."""
        self.step, self.batch = state["step"], state["batch"]
        self.total = state["total"].to(self.total.device)
        self.snapshots = [(epoch, weights) for epoch, weights in state["snapshots"]]
        self.best, self.best_loss = state["best"], state["best_loss"]
        self._shuffling = state["shuffling"]
        self._generator.set_state(self._shuffling)
