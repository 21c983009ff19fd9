"""Keeping a running training in its checkpoint, and taking it up again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from tsformer.data.panel import Panel
from tsformer.training.callbacks import TrainingState
from tsformer.training.checkpoint import CheckpointFile, fingerprint
from tsformer.training.distributed import Ranks
from tsformer.training.position import LoopState

__all__ = ["Checkpointer"]


class Checkpointer:
    """Keeps a training every few minutes, where its plan names a folder; else does nothing.

    Of several processes the first writes, and all read.

    Parameters
    ----------
    state : TrainingState
        Model, plan and history.
    optimizer : Optimizer
        Its averages are part of the state.
    at : LoopState
        Where the training stands.
    panels : sequence of Panel
        Series to train and validate on.
    others : sequence of Tensor or None
        Their targets and weights.
    ranks : Ranks
        The processes of this training.
    """

    def __init__(
        self,
        state: TrainingState,
        optimizer: torch.optim.Optimizer,
        at: LoopState,
        panels: Sequence[Panel],
        others: Sequence[Tensor | None],
        ranks: Ranks,
    ):
        self.state = state
        self.optimizer = optimizer
        self.at = at
        self.ranks = ranks
        self.file: CheckpointFile | None = None
        plan = state.plan
        if plan.checkpoint_dir is not None:
            name = fingerprint(plan, state.model.state_dict(), panels, others)
            self.file = CheckpointFile(plan.checkpoint_dir, name, plan.checkpoint_minutes)

    def resume(self) -> None:
        """Go to where the checkpoint stands, where one is wanted and there."""
        if self.file is None or not self.state.plan.resume:
            return
        kept = self.file.load()
        if kept is None:
            return
        self.state.model.load_state_dict(kept["model"])
        self.optimizer.load_state_dict(kept["optimizer"])
        self.at.load_state_dict(kept["position"])
        history = self.state.history
        history += kept["history"][len(history) :]
        history.best_epoch, self.state.stop = kept["best_epoch"], kept["stop"]
        if self.ranks.size == 1:  # the draws of the other processes are not kept
            self._set_random(kept["random"])

    def keep_if_due(self) -> None:
        """Keep the state after a step, if the last one kept is old enough."""
        if self.file is not None and self.ranks.leads and self.file.due():
            self.keep()

    def keep(self) -> None:
        """Keep the state now."""
        if self.file is None or not self.ranks.leads:
            return
        self.file.save(
            {
                "model": self.state.model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "position": self.at.state_dict(),
                "history": list(self.state.history),
                "best_epoch": self.state.history.best_epoch,
                "stop": self.state.stop,
                "random": self._random(),
            }
        )

    def _random(self) -> dict[str, Tensor]:
        device = self.state.plan.device
        states = {"cpu": torch.default_generator.get_state()}
        if device.type in ("cuda", "mps"):
            module: Any = getattr(torch, device.type)
            states[device.type] = module.get_rng_state()
        return states

    def _set_random(self, states: dict[str, Tensor]) -> None:
        device = self.state.plan.device
        torch.default_generator.set_state(states["cpu"])
        if device.type in states and device.type != "cpu":
            module: Any = getattr(torch, device.type)
            module.set_rng_state(states[device.type])
