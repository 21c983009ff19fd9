"""The training loop: batches are selected by index, without waiting for the device."""

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import Any

import joblib
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tsformer._precision import plain_torch
from tsformer._threads import share_of_threads, threads
from tsformer.data.panel import AnyPanel, send, shuffled
from tsformer.objectives import Pretext
from tsformer.training.checkpoint import CheckpointFile, fingerprint, resume_run, save_run
from tsformer.training.cuda_graphs import step_class
from tsformer.training.distributed import Ranks
from tsformer.training.inference import place
from tsformer.training.plan import TrainingPlan
from tsformer.training.step import Loss, TrainingStep
from tsformer.training.training_run import (
    Callback,
    History,
    NonFiniteLossError,
    TrainingRun,
    TrainingState,
    Validation,
    mark_interrupted,
)


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
    panel, targets : Panel or StoredPanel of ``n`` series, Tensor [n, ...]
        All series and their targets.
    loss : callable or Pretext
        From outputs ``[B, K]`` and targets ``[B, ...]`` to one loss per series, ``[B]``; or a
        pretraining objective, which needs no targets.
    plan : TrainingPlan
        Budget, optimizer, schedule, precision and device.
    weights : Tensor [n], optional
        Weight of each series' loss; their mean should be 1.
    validation : Validation, optional
        Scored after each epoch; selects the best with ``plan.n_iter_no_change``.
    callbacks : sequence of Callback
        Called at the start, after each epoch, and at the end.
    history : History, optional
        Rows of earlier epochs of this model, continued in place.

    Returns
    -------
    History
        One row per epoch. Ctrl-C marks it `interrupted`, with a warning, but in the first epoch.

    Raises
    ------
    NonFiniteLossError, ValueError
        If the loss of an epoch is not finite; if several processes share a run with an objective or
        frozen parameters.
    """
    if next(model.parameters()).device != plan.device:  # a move visits all modules, for 0.5 ms
        model.to(plan.device)
    history = History() if history is None else history
    ranks = Ranks.current()
    state = TrainingState(model, plan, history, epochs_before=len(history))
    panel, targets = place(panel, plan.device), targets.to(plan.device)
    weights = None if weights is None else weights.to(plan.device)
    callbacks = callbacks if ranks.rank == 0 else ()
    run = TrainingRun(state, panel, targets, loss, weights, validation, callbacks, ranks)
    with (
        plain_torch(),
        threads(model=model, n_tokens=plan.batch_size * getattr(model, "max_tokens", 0)),
        ExitStack() as stack,
    ):
        if ranks.size > 1:
            stack.enter_context(ranks.sharing(model, plan, loss, len(panel)))
        for callback in callbacks:
            callback.on_train_begin(state)
            stack.callback(callback.on_train_end, state)
        history.interrupted, history.best_epoch = False, None
        try:
            _epochs(run)
        except KeyboardInterrupt:
            if state.epoch == 0:  # nothing is learned yet
                raise
            mark_interrupted(history, f"{state.epoch} of {state.n_epochs} epochs")
        finally:
            if plan.pretrained is not None:
                set_frozen(model, frozenset())
            if run.best is not None:
                model.load_state_dict(run.best[1])
            model.eval()
        if history.best_epoch is None:
            run.update_averages()
    return history


def train_ensemble(
    models: Sequence[nn.Module],
    panel: AnyPanel,
    targets: Tensor,
    loss: Loss | Pretext,
    plans: Sequence[TrainingPlan],
    *,
    weights: Tensor | None = None,
    validation: Validation | None = None,
    callbacks: Sequence[Sequence[Callback]] = (),
    histories: Sequence[History] = (),
    n_jobs: int | None = 1,
) -> list[History]:
    """Train several models in place, each as in a training run of its own.

    Parameters
    ----------
    models, panel, targets, loss, plans, weights, validation
        As for `train`, with a plan per model. Processes need a `loss` that can be pickled.
    callbacks, histories : sequences, optional
        Callbacks and rows of earlier epochs of each model.
    n_jobs : int, optional
        Processes on a CPU, each with an equal share of the threads, which changes the rounding;
        None means 1, -1 one per core.

    Returns
    -------
    list of History
        One per model; after Ctrl-C only for the models trained so far.

    Raises
    ------
    NonFiniteLossError, ValueError
        If the loss of a model is not finite, with the models before it trained; if the sequences
        differ in length, or callbacks would be called in other processes.

    Examples
    --------
    >>> from tsformer import ModelConfig, TSTransformer
    >>> from tsformer.data.panel import Panel
    >>> config = ModelConfig(n_channels=1, n_outputs=1, max_len=9, d_model=8, n_heads=2)
    >>> models = [TSTransformer(config) for _ in range(2)]
    >>> panel = Panel(torch.randn(6, 9, 1), torch.full((6,), 9))
    >>> options = {"n_epochs": 2, "batch_size": 3, "learning_rate": 0.01, "weight_decay": 0.0}
    >>> plans = [TrainingPlan(**options, device=torch.device("cpu"), seed=i) for i in range(2)]
    >>> loss = lambda outputs, targets: (outputs[:, 0] - targets).square()
    >>> [len(rows) for rows in train_ensemble(models, panel, torch.randn(6), loss, plans)]
    [2, 2]
    """
    histories = list(histories) or [History() for _ in models]
    callbacks = list(callbacks) or [() for _ in models]
    shared: dict[str, Any] = {"weights": weights, "validation": validation}
    jobs = [
        ((model, panel, targets, loss, plan), shared | {"history": rows, "callbacks": calls})
        for model, plan, rows, calls in zip(models, plans, histories, callbacks, strict=True)
    ]
    on_gpu = plans[0].device.type == "cuda"
    n_processes = 1 if on_gpu else min(joblib.effective_n_jobs(n_jobs), len(models))
    trained: Iterable[Any] = (train(*arguments, **options) for arguments, options in jobs)
    if n_processes > 1:
        if not all(callback.stateless for calls in callbacks for callback in calls):
            raise ValueError(
                f"n_jobs={n_jobs} trains in other processes, which cannot call callbacks, also of "
                "verbose=1; use n_jobs=1"
            )
        share, job = share_of_threads(n_processes), joblib.delayed(_in_child)
        trained = joblib.Parallel(n_processes, return_as="generator")(
            job(share, *arguments, **options) for arguments, options in jobs
        )
    done: list[History] = []
    try:
        for model, history, result in zip(models, histories, trained, strict=True):
            done.append(history)
            if n_processes == 1:
                if history.interrupted:
                    break
                continue
            learned, rows, error = result
            model.load_state_dict(learned)
            model.eval()
            history[:] = rows
            history.interrupted, history.best_epoch = rows.interrupted, rows.best_epoch
            if error is not None:
                raise error
    except KeyboardInterrupt:
        if not done:  # nothing is learned yet
            raise
        mark_interrupted(done[-1], f"{len(done)} of {len(models)} members")
    return done


def _in_child(
    share: dict[str, Any], model: nn.Module, *arguments: Any, **options: Any
) -> tuple[dict[str, Tensor], History, NonFiniteLossError | None]:
    """Train one member in a child process."""
    error = None
    try:
        with threads(**share):
            train(model, *arguments, **options)
    except NonFiniteLossError as raised:
        error = raised
    return model.state_dict(), options["history"], error


def _epochs(run: TrainingRun) -> None:
    """Train until the plan ends, early stopping or a callback stops, or the loss is not finite."""
    state, model, plan, panel = run.state, run.state.model, run.state.plan, run.panel
    optimizer = make_optimizer(model, plan)
    graphed = plan.compile == "cuda-graphs"
    cls = step_class(plan, panel, run.ranks) if graphed else TrainingStep
    step = cls(model, optimizer, panel, run.targets, run.weights, run.loss, plan, run.ranks)
    file = None
    if plan.checkpoint_dir is not None:
        file = CheckpointFile(plan.checkpoint_dir, fingerprint(run), plan.checkpoint_minutes)
        if plan.resume:
            resume_run(run, optimizer, file)
    while len(state.history) < state.n_epochs and not state.stop:
        start = perf_counter()
        model.train()
        if plan.pretrained is not None:
            set_frozen(model, plan.frozen)
        if run.batch == 0:
            run.total = torch.zeros_like(run.total)
        batches = list(shuffled(len(panel), plan.batch_size, run.generator))
        n_steps = state.plan.n_epochs * len(batches)  # a callback may shorten the plan
        # One copy per epoch, since every copy waits for the device.
        rows = send(torch.cat(batches), plan.device).tensor_split(len(batches))
        left = [run.ranks.part(b) if step.divided else b for b in batches[run.batch :]]
        with panel.ahead(left) as coming:
            for index in coming:
                set_learning_rate(optimizer, plan.rate(run.step, n_steps))
                with run.random.drawing():
                    run.total += step(index, rows[run.batch], number=run.step)
                run.step, run.batch = run.step + 1, run.batch + 1
                if file is not None and file.due():
                    save_run(run, optimizer, file)
        loss = run.ranks.add_up(run.total).item() / len(panel)
        if not math.isfinite(loss):
            run.raise_non_finite(loss)
        run.end_epoch(loss, plan.rate(run.step - 1, n_steps), start)
        if run.ranks.size > 1:
            flag = torch.tensor(float(state.stop), device=plan.device)
            state.stop = bool(run.ranks.add_up(flag).item())
    if file is not None:
        save_run(run, optimizer, file)


def make_optimizer(model: nn.Module, plan: TrainingPlan) -> torch.optim.AdamW:
    """Return fused AdamW; it decays the weights of linear and convolution layers."""
    layers = [m for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d))]
    decayed = {id(layer.weight) for layer in layers}
    slow, graphed = plan.pretrained, plan.compile == "cuda-graphs"
    parameters: dict[tuple[bool, bool], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        key = slow is not None and name in slow.names, id(parameter) not in decayed
        parameters.setdefault(key, []).append(parameter)
    rate = plan.learning_rate
    groups = [
        {
            "params": parameters[is_slow, plain],
            # A captured step reads its learning rate from a tensor.
            "lr": torch.tensor(rate, device=plan.device) if graphed else rate,
            "lr_scale": slow.lr_scale if slow is not None and is_slow else 1.0,
            "weight_decay": 0.0 if plain else plan.weight_decay,
        }
        for is_slow, plain in sorted(parameters)
    ]
    return torch.optim.AdamW(groups, fused=True, capturable=graphed)


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, times the factor of each group."""
    for group in optimizer.param_groups:
        scaled = rate * group["lr_scale"]
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(scaled)
        else:
            group["lr"] = scaled


def set_frozen(model: nn.Module, names: frozenset[str]) -> None:
    """Freeze parameters and the averages of their batch norms; unfreeze all others."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in names)
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and f"{name}.weight" in names:
            module.eval()
