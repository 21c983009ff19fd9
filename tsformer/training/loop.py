"""The training loop: data staged once, batches by index, no waiting for the device inside."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor, nn

from tsformer.data.batching import shuffled
from tsformer.data.panel import Panel, send
from tsformer.training.batch_norm import update_bn
from tsformer.training.callbacks import Callback, History, TrainingState, running
from tsformer.training.distributed import Ranks
from tsformer.training.inference import forward
from tsformer.training.keeping import Checkpointer
from tsformer.training.optimizer import make_optimizer
from tsformer.training.plan import TrainingPlan
from tsformer.training.position import LoopState, Snapshot
from tsformer.training.seeds import seeded
from tsformer.training.step import Loss
from tsformer.training.stepping import make_step, place, set_rate

__all__ = ["NonFiniteLossError", "Validation", "train"]


class NonFiniteLossError(RuntimeError):
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
        Called as ``model(x [B, L, C], mask [B, L] | None, times [B, L] | None)``; moved to the
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
    NonFiniteLossError
        If the loss of an epoch is not finite.
    """
    device = plan.device
    model.to(device)
    panel, targets = place(panel, device), targets.to(device)
    weights = None if weights is None else weights.to(device)
    state = TrainingState(model, plan, History() if history is None else history)
    ranks = Ranks.current()
    ranks.check_same(plan.seed, device)
    callbacks = callbacks if ranks.leads else ()
    with seeded(plan.seed + ranks.rank, device), running(callbacks, state):
        try:
            try:
                with ranks.shared_norms(model):
                    _run(state, panel, targets, loss, weights, validation, callbacks, ranks)
            except KeyboardInterrupt:
                state.history.interrupted = True
                warnings.warn(
                    f"training was interrupted after {state.epoch} of {state.n_epochs} epochs; "
                    "what was trained so far is kept",
                    stacklevel=2,
                )
            if state.history.best_epoch is None:  # else they are those that validation judged
                update_bn(model, panel, plan)
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
    ranks: Ranks,
) -> None:
    model, plan, history = state.model, state.plan, state.history
    history.interrupted, history.best_epoch = False, None
    optimizer = make_optimizer(model, plan)
    step = make_step(model, optimizer, panel, targets, weights, loss, plan, ranks)
    generator = torch.Generator().manual_seed(plan.seed)
    n_steps = plan.n_epochs * math.ceil(len(panel) / plan.batch_size)
    at = LoopState(model, state.epoch, generator, plan.device)
    judged = () if validation is None else (validation.panel,)
    others = () if validation is None else (validation.targets, validation.weights)
    keeper = Checkpointer(
        state, optimizer, at, (panel, *judged), (targets, weights, *others), ranks
    )
    keeper.resume()
    try:
        while state.epoch < state.n_epochs and not state.stop:
            start = perf_counter()
            model.train()
            at.begin_epoch()
            batches = list(shuffled(panel.lengths, plan.batch_size, generator))
            ranks.check(min(map(len, batches)))
            parts = [ranks.part(batch) for batch in batches]
            # One copy an epoch: one a step would each wait for the device.
            rows = send(torch.cat(parts), plan.device).split([len(part) for part in parts])
            for i in range(at.batch, len(batches)):
                set_rate(optimizer, plan.rate(at.step, n_steps))
                at.total += step(parts[i], rows[i], len(batches[i]) / ranks.size)
                at.step, at.batch = at.step + 1, i + 1
                keeper.keep_if_due()
            row = {
                "epoch": state.epoch + 1,
                "loss": ranks.add_up(at.total).item() / len(panel),
                "lr": plan.rate(at.step - 1, n_steps),
                "seconds": 0.0,
            }
            if not math.isfinite(row["loss"]):
                kept = return_to_last_good(model, at.snapshots, panel, plan)
                raise NonFiniteLossError(
                    f"the training loss became {row['loss']} in epoch {row['epoch']} of "
                    f"{state.n_epochs}; the weights of epoch {kept} are kept. A lower "
                    f"learning_rate (it was {plan.learning_rate:g}) usually helps"
                )
            at.end_epoch(state.epoch + 1)
            if validation is not None:
                row |= validate(model, validation, loss, plan)
            row["seconds"] = perf_counter() - start
            history.append(row)
            if validation is not None and plan.n_iter_no_change is not None:
                if row["val_loss"] < at.best_loss:
                    at.best, at.best_loss = at.snapshots[-1][1], row["val_loss"]
                    history.best_epoch = state.epoch
                elif (
                    state.epoch - (history.best_epoch or state.epochs_before)
                    >= plan.n_iter_no_change
                ):
                    state.stop = True
            for callback in callbacks:
                callback.on_epoch_end(state)
            state.stop = ranks.any(state.stop, plan.device) if ranks.size > 1 else state.stop
        keeper.keep()
    finally:
        if history.best_epoch is not None:
            model.load_state_dict(at.best)


def return_to_last_good(
    model: nn.Module, snapshots: Sequence[Snapshot], panel: Panel, plan: TrainingPlan
) -> int:
    """Load the newest weights whose outputs are finite; return their epoch.

    An epoch's last step can spoil the weights after all its losses were taken, so that not even
    an epoch with a finite loss ends in weights that are known to be good.
    """
    for epoch, weights in reversed(snapshots):
        model.load_state_dict(weights)
        if forward(model, panel, bfloat16=plan.bfloat16, device=plan.device).isfinite().all():
            return epoch
    return snapshots[0][0]


def validate(
    model: nn.Module, validation: Validation, loss: Loss, plan: TrainingPlan
) -> dict[str, float]:
    outputs = forward(model, validation.panel, bfloat16=plan.bfloat16, device=plan.device)
    outputs = outputs.to(plan.device)
    losses = loss(outputs, validation.targets)
    if validation.weights is not None:
        losses = losses * validation.weights
    return {
        "val_loss": losses.mean().item(),
        "val_score": validation.score(outputs, validation.targets),
    }
