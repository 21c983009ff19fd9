"""One optimizer step: forward, loss, backward and update."""

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tsformer._random import seeded
from tsformer.augmentation import Batch
from tsformer.data.panel import AnyPanel
from tsformer.model.layers import PooledBatchNorm
from tsformer.objectives import Pretext
from tsformer.training.distributed import Ranks
from tsformer.training.inference import posed, released
from tsformer.training.plan import TrainingPlan

#: From outputs and targets to the loss of each series.
Loss = Callable[[Tensor, Tensor], Tensor]


@dataclass(eq=False)
class TrainingStep:
    """Takes optimizer steps on batches of a panel."""

    model: InitVar[nn.Module]
    optimizer: torch.optim.Optimizer
    panel: AnyPanel
    targets: Tensor
    weights: Tensor | None
    loss: Loss | Pretext
    plan: TrainingPlan
    ranks: Ranks = field(default_factory=Ranks)

    def __post_init__(self, model: nn.Module) -> None:
        self.shared = self.ranks.size > 1
        forward: Any = torch.compile(model) if self.plan.compile is True else model
        if self.shared:  # processes average the gradients
            devices = [torch.cuda.current_device()] if self.plan.device.type == "cuda" else None
            forward = nn.parallel.DistributedDataParallel(forward, device_ids=devices)
        self.forward: Callable[..., Tensor] = forward
        # An objective may pass several views of each series through the norm.
        weighted = isinstance(getattr(model, "head_norm", None), PooledBatchNorm)
        weighted = weighted and not isinstance(self.loss, Pretext)
        self.norm_weights = self.weights if weighted else None
        #: Whether this process reads only its part of a batch.
        self.divided = self.shared and self.plan.augmentation is None

    def __call__(self, index: Tensor, rows: Tensor, *, number: int = 0) -> Tensor:
        """Take a step on a batch; return this process's sum of losses, on the device."""
        try:
            total = self._gradients(index, rows, number)
        except Exception as error:
            raise MemoryError(
                f"a batch of {len(rows)} series does not fit into the memory of "
                f"{self.plan.device}; choose a smaller batch_size (it is {self.plan.batch_size}), "
                f"a smaller model or a stem with a larger stride{released(error)}"
            ) from error
        clip_and_update(self.optimizer, self.plan.max_grad_norm)
        return total

    def _gradients(self, index: Tensor, rows: Tensor, number: int) -> Tensor:
        """Compute the gradient of the batch's mean loss."""
        plan, panel = self.plan, self.panel
        local = self.ranks.part(rows) if self.shared else rows
        inputs = panel.take(index, rows=local if self.divided else rows, device=plan.device)
        batch = Batch(*inputs, panel.symbolic, panel.n_flags)
        if plan.augmentation is not None:
            with seeded(plan.seed, batch.values.device, number):
                batch = plan.augmentation(batch)
        self.optimizer.zero_grad(set_to_none=True)
        loss, norm, partners = self.loss, self.norm_weights, local
        share: Tensor | None = None
        if isinstance(loss, Pretext):
            task = posed(loss, batch, seed=plan.seed, step=number)
            batch, norm = task.batch, None
        elif batch.partner is not None and batch.share is not None:
            partners = self.ranks.part(rows[batch.partner])
            share = self.ranks.part(batch.share)
        weights = {} if norm is None else {"weights": norm[local]}
        if norm is not None and share is not None:
            weights = {"weights": share * norm[local] + (1 - share) * norm[partners]}
        tensors = [batch.values, batch.mask, batch.times]
        if self.shared and not self.divided:
            tensors = [x if x is None or len(x) == 1 else self.ranks.part(x) for x in tensors]
        with torch.autocast(plan.device.type, torch.bfloat16, enabled=plan.bfloat16):
            outputs = self.forward(*tensors, **weights).float()
        if isinstance(loss, Pretext):
            losses = loss.objective.losses(outputs, task)
            losses = losses if self.weights is None else losses * self.weights[rows]
        elif share is None:
            losses = self._losses(outputs, local)
        else:
            losses = share * self._losses(outputs, local)
            losses = losses + (1 - share) * self._losses(outputs, partners)
        # Processes average their gradients, so each loss is scaled by their number.
        (losses.sum() * self.ranks.size / len(rows)).backward()
        return losses.detach().sum()

    def _losses(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """Return the weighted loss of each series."""
        assert not isinstance(self.loss, Pretext)
        losses = self.loss(outputs, self.targets[rows])
        return losses if self.weights is None else losses * self.weights[rows]


def clip_and_update(optimizer: torch.optim.Optimizer, max_grad_norm: float) -> None:
    """Clip the gradients and take the optimizer's step."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    nn.utils.clip_grad_norm_(parameters, max_grad_norm)
    optimizer.step()
