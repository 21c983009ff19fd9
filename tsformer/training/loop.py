"""The training loop: batches are selected by index, without waiting for the device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter

import torch
from torch import Tensor, nn

from tsformer._threads import threads_for
from tsformer.data.batching import shuffled
from tsformer.data.panel import send
from tsformer.data.stored_panel import AnyPanel
from tsformer.objectives import Pretext
from tsformer.training.callbacks import Callback, History, TrainingState
from tsformer.training.checkpoint import Checkpointer, LoopState
from tsformer.training.cuda_graphs import step_class
from tsformer.training.distributed import Ranks
from tsformer.training.memory import place
from tsformer.training.optimizer import make_optimizer, set_learning_rate
from tsformer.training.plan import TrainingPlan
from tsformer.training.pretrained import set_frozen
from tsformer.training.run import TrainingRun, training_session
from tsformer.training.step import Loss
from tsformer.training.validation import Validation

__all__ = ["execute", "train"]


def train(
    model: nn.Module,
    panel: AnyPanel,
    targets: Tensor,
    loss: Loss | Pretext,
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
    panel : Panel or StoredPanel
        All series, ``n`` of them.
    targets : Tensor [n, ...]
        Targets of the series.
    loss : callable or Pretext
        From outputs ``[B, K]`` and targets ``[B, ...]`` to one loss per series, ``[B]``; or a
        pretraining objective, which needs no targets.
    plan : TrainingPlan
        Budget, optimizer, schedule, precision and device.
    weights : Tensor [n], optional
        Weight of each series' loss; their mean should be 1.
    validation : Validation, optional
        Validation data, scored after each epoch; with ``plan.n_iter_no_change`` they also stop
        training early and select the best epoch.
    callbacks : sequence of Callback
        Called at the start, after each epoch, and at the end.
    history : History, optional
        Rows of earlier epochs of this model, continued in place.

    Returns
    -------
    History
        One row per epoch. After Ctrl-C it is shorter and marked `interrupted`, with a warning.

    Raises
    ------
    NonFiniteLossError
        If the loss of an epoch is not finite.
    ValueError
        If several processes share a training run with an objective, or with frozen parameters.
    """
    state = TrainingState(model, plan, History() if history is None else history)
    return execute(TrainingRun(state, loss, validation, callbacks), panel, targets, weights)


def execute(run: TrainingRun, panel: AnyPanel, targets: Tensor, weights: Tensor | None) -> History:
    """Train the model of `run` in place; see `train`."""
    model, plan = run.state.model, run.state.plan
    model.to(plan.device)
    panel, targets = place(panel, plan.device), targets.to(plan.device)
    weights = None if weights is None else weights.to(plan.device)
    ranks = Ranks.current()
    ranks.check_same(plan.seed, plan.device)
    if ranks.size > 1 and isinstance(run.loss, Pretext):
        raise ValueError(
            f"{ranks.size} processes cannot pretrain: an objective compares the series of a whole "
            "batch; pretrain in one process, then train from its weights in several"
        )
    if ranks.size > 1 and plan.frozen(0):
        raise ValueError(
            f"{ranks.size} processes cannot train with frozen parameters; train in one process, or "
            "without freeze and n_epochs_frozen"
        )
    run.callbacks = run.callbacks if ranks.leads else ()
    # `training_session` is innermost, so that its pass for batch norms is shared too.
    with (
        threads_for(model, plan.batch_size * getattr(model, "max_tokens", 0)),
        ranks.shared_norms(model),
        training_session(run, panel, weights, plan.seed + ranks.rank),
    ):
        _epochs(run, panel, targets, weights, ranks)
    return run.state.history


def _epochs(
    run: TrainingRun, panel: AnyPanel, targets: Tensor, weights: Tensor | None, ranks: Ranks
) -> None:
    state, model, plan = run.state, run.state.model, run.state.plan
    optimizer = make_optimizer(model, plan)
    step = step_class(plan, panel, ranks)(
        model, optimizer, panel, targets, weights, run.loss, plan, ranks
    )
    generator = torch.Generator().manual_seed(plan.seed)
    n_steps = plan.n_epochs * math.ceil(len(panel) / plan.batch_size)
    at = LoopState(run, generator)
    checkpointer = Checkpointer(run, optimizer, at, panel, (targets, weights), ranks)
    checkpointer.resume()
    try:
        while state.epoch < state.n_epochs and not state.stop:
            start = perf_counter()
            model.train()
            if plan.pretrained is not None:
                set_frozen(model, plan.frozen(state.epoch - state.epochs_before))
            at.begin_epoch()
            batches = list(shuffled(len(panel), plan.batch_size, generator))
            ranks.check(min(map(len, batches)))
            # One copy per epoch, since every copy waits for the device.
            rows = torch.split(send(torch.cat(batches), plan.device), [len(b) for b in batches])
            with panel.ahead([step.read(batch) for batch in batches[at.batch :]]) as coming:
                for index in coming:
                    set_learning_rate(optimizer, plan.rate(at.step, n_steps))
                    with run.random.drawing():
                        at.total += step(index, rows[at.batch], number=at.step)
                    at.step, at.batch = at.step + 1, at.batch + 1
                    checkpointer.save_if_due()
            loss = ranks.add_up(at.total).item() / len(panel)
            if not math.isfinite(loss):
                run.raise_non_finite(loss, at.snapshots.kept, panel)
            at.end_epoch()
            run.end_epoch(loss, plan.rate(at.step - 1, n_steps), start, at.snapshots.newest)
            state.stop = ranks.any(state.stop, plan.device) if ranks.size > 1 else state.stop
        checkpointer.save()
    finally:
        if plan.pretrained is not None:
            set_frozen(model, frozenset())
        if run.stopping.best_weights is not None:
            model.load_state_dict(run.stopping.best_weights)
