"""The training loop: data staged once, batches by index, no waiting for the device inside."""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from tsformer.data.batching import in_order, shuffled
from tsformer.data.panel import Panel
from tsformer.training.callbacks import Callback, History, TrainingState, running
from tsformer.training.plan import TrainingPlan
from tsformer.training.seeds import seeded
from tsformer.training.settling import settle_norms

__all__ = ["Diverged", "Validation", "forward", "train"]

Loss = Callable[[Tensor, Tensor], Tensor]
#: An epoch and the weights at its end.
Snapshot = tuple[int, dict[str, Tensor]]

#: Padded steps in a batch of `forward`: large enough to fill a device, small enough for any.
_STEPS_AT_ONCE = 2**16


class Diverged(RuntimeError):
    """The training loss is no longer finite; the model holds the weights of the last good epoch."""


@dataclass(frozen=True)
class Validation:
    """Data that judge the model after each epoch and never train it.

    Parameters
    ----------
    panel : Panel
        The series, on the plan's device.
    targets : Tensor [n, ...]
        Their targets, on the same device.
    score : callable
        From outputs and targets to a float; higher is better.
    weights : Tensor [n], optional
        Weight of each series in the validation loss, on the same device; their mean should be 1.
    """

    panel: Panel
    targets: Tensor
    score: Callable[[Tensor, Tensor], float]
    weights: Tensor | None = None


def train(
    model: nn.Module,
    panel: Panel,
    targets: Tensor,
    loss: Loss,
    plan: TrainingPlan,
    *,
    weights: Tensor | None = None,
    validation: Validation | None = None,
    callbacks: Sequence[Callback] = (),
    history: History | None = None,
) -> History:
    """Train `model` in place.

    Parameters
    ----------
    model : nn.Module
        Called as ``model(x [B, L, C], keep [B, L] | None, times [B, L] | None)``; moved to the
        plan's device.
    panel : Panel
        All series, ``n`` of them.
    targets : Tensor [n, ...]
        What the outputs are compared with.
    loss : callable
        From outputs ``[B, K]`` and targets ``[B, ...]`` to one loss a series, ``[B]``.
    plan : TrainingPlan
        How.
    weights : Tensor [n], optional
        Weight of each series' loss; their mean should be 1.
    validation : Validation, optional
        Judges each epoch; with ``plan.n_iter_no_change`` it also stops the training and chooses
        the epoch.
    callbacks : sequence of Callback
        Called around the epochs.
    history : History, optional
        Rows of earlier epochs of this model, to go on with in place.

    Returns
    -------
    History
        A row an epoch. After Ctrl-C it is shorter, and marked `interrupted`, with a warning.

    Raises
    ------
    Diverged
        If the loss of an epoch is not finite.
    """
    device = plan.device
    model.to(device)
    panel, targets = panel.to(device), targets.to(device)
    weights = None if weights is None else weights.to(device)
    state = TrainingState(model, plan, History() if history is None else history)
    with seeded(plan.seed, device), running(callbacks, state):
        try:
            try:
                _run(state, panel, targets, loss, weights, validation, callbacks)
            except KeyboardInterrupt:
                state.history.interrupted = True
                warnings.warn(
                    f"training was interrupted after {state.epoch} of {state.n_epochs} epochs; "
                    "what was trained so far is kept",
                    stacklevel=2,
                )
            if state.history.best_epoch is None:  # else they are those that validation judged
                settle_norms(model, panel, plan)
        finally:
            model.eval()
    return state.history


def _run(
    state: TrainingState,
    panel: Panel,
    targets: Tensor,
    loss: Loss,
    weights: Tensor | None,
    validation: Validation | None,
    callbacks: Sequence[Callback],
) -> None:
    model, plan, history = state.model, state.plan, state.history
    history.interrupted, history.best_epoch = False, None
    step_model = torch.compile(model) if plan.compile else model
    optimizer = _optimizer(model, plan)
    generator = torch.Generator().manual_seed(plan.seed)
    n_steps = plan.n_epochs * math.ceil(len(panel) / plan.batch_size)
    step = 0
    snapshots = [(state.epoch, copy.deepcopy(model.state_dict()))]
    best, best_loss = snapshots[0][1], math.inf
    try:
        while state.epoch < state.n_epochs and not state.stop:
            start = perf_counter()
            model.train()
            total = torch.zeros((), device=plan.device)
            for index in shuffled(panel.lengths, plan.batch_size, generator):
                for group in optimizer.param_groups:
                    group["lr"] = plan.rate(step, n_steps)
                total += _step(step_model, optimizer, panel, targets, loss, weights, index, plan)
                step += 1
            row = {
                "epoch": state.epoch + 1,
                "loss": total.item() / len(panel),
                "lr": plan.rate(step - 1, n_steps),
                "seconds": 0.0,
            }
            if not math.isfinite(row["loss"]):
                kept = _return_to_last_good(model, snapshots, panel, plan)
                raise Diverged(
                    f"the training loss became {row['loss']} in epoch {row['epoch']} of "
                    f"{state.n_epochs}; the weights of epoch {kept} are kept. A lower "
                    f"learning_rate (it was {plan.learning_rate:g}) usually helps"
                )
            good = copy.deepcopy(model.state_dict())
            snapshots = [snapshots[0], snapshots[-1], (state.epoch + 1, good)]
            if validation is not None:
                row |= _validate(model, validation, loss, plan)
            row["seconds"] = perf_counter() - start
            history.append(row)
            if validation is not None and plan.n_iter_no_change is not None:
                if row["val_loss"] < best_loss:
                    best, best_loss, history.best_epoch = good, row["val_loss"], state.epoch
                elif (
                    state.epoch - (history.best_epoch or state.epochs_before)
                    >= plan.n_iter_no_change
                ):
                    state.stop = True
            for callback in callbacks:
                callback.on_epoch_end(state)
    finally:
        if history.best_epoch is not None:
            model.load_state_dict(best)


def _step(
    model: Callable[..., Tensor],
    optimizer: torch.optim.Optimizer,
    panel: Panel,
    targets: Tensor,
    loss: Loss,
    weights: Tensor | None,
    index: Tensor,
    plan: TrainingPlan,
) -> Tensor:
    """Take one optimizer step on the series `index`; return the sum of their losses."""
    batch = panel.take(index)
    there = index.to(plan.device)
    with torch.autocast(plan.device.type, torch.bfloat16, enabled=plan.bfloat16):
        outputs = model(*batch)
    losses = loss(outputs.float(), targets[there])
    if weights is not None:
        losses = losses * weights[there]
    optimizer.zero_grad(set_to_none=True)
    losses.mean().backward()
    parameters = optimizer.param_groups[0]["params"] + optimizer.param_groups[1]["params"]
    nn.utils.clip_grad_norm_(parameters, plan.max_grad_norm)
    optimizer.step()
    return losses.detach().sum()


def _return_to_last_good(
    model: nn.Module, snapshots: Sequence[Snapshot], panel: Panel, plan: TrainingPlan
) -> int:
    """Load the newest weights whose outputs are finite; return their epoch.

    An epoch's last step can spoil the weights after all its losses were taken, so that not even
    an epoch with a finite loss ends in weights that are known to be good.
    """
    for epoch, weights in reversed(snapshots):
        model.load_state_dict(weights)
        if forward(model, panel, bfloat16=plan.bfloat16).isfinite().all():
            return epoch
    return snapshots[0][0]


def _optimizer(model: nn.Module, plan: TrainingPlan) -> torch.optim.Optimizer:
    """AdamW that decays the matrices of linear and convolution layers and nothing else.

    Going by layer rather than by rank spares position tables, which are matrices too.
    """
    decayed = [
        m.weight for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d))
    ]
    chosen = {id(p) for p in decayed}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        groups, lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True
    )


def _validate(
    model: nn.Module, validation: Validation, loss: Loss, plan: TrainingPlan
) -> dict[str, float]:
    outputs = forward(model, validation.panel, bfloat16=plan.bfloat16).to(plan.device)
    losses = loss(outputs, validation.targets)
    if validation.weights is not None:
        losses = losses * validation.weights
    return {
        "val_loss": losses.mean().item(),
        "val_score": validation.score(outputs, validation.targets),
    }


def forward(
    model: nn.Module,
    panel: Panel,
    *,
    bfloat16: bool = False,
    function: Callable[..., Tensor] | None = None,
) -> Tensor:
    """Run `function` (the model itself by default) over all series in eval mode, without gradients.

    Returns float32 ``[n, ...]`` on the CPU, in the order of the panel.
    """
    function = model if function is None else function
    device = panel.values.device
    was_training = model.training
    model.eval()
    parts: list[Tensor] = []
    order: list[Tensor] = []
    try:
        with torch.inference_mode(), torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            for index in in_order(panel.lengths, _STEPS_AT_ONCE):
                parts.append(function(*panel.take(index)).float())
                order.append(index)
    finally:
        model.train(was_training)
    outputs = torch.cat(parts).cpu()
    return torch.empty_like(outputs).index_copy_(0, torch.cat(order), outputs)
