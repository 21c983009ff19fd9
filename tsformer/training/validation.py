"""Validation data, scored after each epoch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn

from tsformer.data.stored_panel import AnyPanel
from tsformer.objectives import Pretext
from tsformer.training.inference import forward
from tsformer.training.plan import TrainingPlan
from tsformer.training.pretext import pretext_losses
from tsformer.training.step import Loss

__all__ = ["Validation"]


@dataclass(frozen=True)
class Validation:
    """Validation data, scored after each epoch; the model is never trained on them.

    Parameters
    ----------
    panel : Panel or StoredPanel
        The series, on the plan's device.
    targets : Tensor [n, ...]
        Targets of the series, on the same device.
    score : callable
        From outputs and targets to a float; higher is better. For an objective, from the losses of
        the series and targets.
    weights : Tensor [n], optional
        Weight of each series in the validation loss, on the same device; their mean should be 1.
    """

    panel: AnyPanel
    targets: Tensor
    score: Callable[[Tensor, Tensor], float]
    weights: Tensor | None = None

    def evaluate(
        self, model: nn.Module, loss: Loss | Pretext, plan: TrainingPlan
    ) -> dict[str, float]:
        """Return the model's `val_loss` and `val_score`."""
        if isinstance(loss, Pretext):
            losses = outputs = pretext_losses(
                model,
                self.panel,
                loss,
                batch_size=plan.batch_size,
                seed=plan.seed,
                bfloat16=plan.bfloat16,
            )
        else:
            outputs = forward(model, self.panel, bfloat16=plan.bfloat16, device=plan.device)
            outputs = outputs.to(plan.device)
            losses = loss(outputs, self.targets)
        if self.weights is not None:
            losses = losses * self.weights
        return {
            "val_loss": losses.mean().item(),
            "val_score": self.score(outputs, self.targets),
        }
