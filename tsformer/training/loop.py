"""The training loop: batches are selected by index, without waiting for the device."""

import math
from collections.abc import Sequence
from time import perf_counter
from typing import Any

import joblib
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tsformer._threads import share_of_threads, threads, threads_for
from tsformer.data.panel import AnyPanel, send, shuffled
from tsformer.objectives import Pretext
from tsformer.training.checkpoint import Checkpointer
from tsformer.training.cuda_graphs import step_class
from tsformer.training.distributed import Ranks
from tsformer.training.inference import place
from tsformer.training.plan import Pretrained, TrainingPlan
from tsformer.training.run import (
    Callback,
    History,
    LoopState,
    NonFiniteLossError,
    TrainingRun,
    TrainingState,
    Validation,
    mark_interrupted,
    training_session,
)
from tsformer.training.step import Loss, OneProcess, TrainingStep


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
        Scored after each epoch; with ``plan.n_iter_no_change`` it also stops training early and
        selects the best epoch.
    callbacks : sequence of Callback
        Called at the start, after each epoch, and at the end.
    history : History, optional
        Rows of earlier epochs of this model, continued in place.

    Returns
    -------
    History
        One row per epoch. After Ctrl-C it is shorter and marked `interrupted`, with a warning; in
        the first epoch Ctrl-C raises KeyboardInterrupt.

    Raises
    ------
    NonFiniteLossError
        If the loss of an epoch is not finite.
    ValueError
        If several processes share a training run with an objective, or with frozen parameters.
    """
    state = TrainingState(model, plan, History() if history is None else history)
    return _execute(TrainingRun(state, loss, validation, callbacks), panel, targets, weights)


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
    """Train several models in place, on the same series.

    They train one after another, or on a CPU in `n_jobs` processes. Each gets the weights of a
    separate training run; in a process up to rounding, since the number of threads is lower.

    Parameters
    ----------
    models, panel, targets, loss, weights, validation
        As for `train`; all but `models` are shared. Processes need a `loss` that can be pickled.
    plans : sequence of TrainingPlan
        One per model.
    callbacks : sequence of sequences of Callback, optional
        Callbacks of each model. A shared callback is called for one model after another.
    histories : sequence of History, optional
        Rows of earlier epochs of each model, continued in place.
    n_jobs : int, optional
        Processes on a CPU, each with an equal share of the threads; None means 1, -1 one per core.

    Returns
    -------
    list of History
        One per model; after Ctrl-C only for the models trained so far. In the first epoch of the
        first model Ctrl-C raises KeyboardInterrupt.

    Raises
    ------
    NonFiniteLossError
        If the loss of a model is no longer finite. The models before it are trained.
    ValueError
        If the sequences differ in length, or if callbacks would have to be called in other
        processes.

    Examples
    --------
    >>> import torch.nn.functional as F
    >>> from tsformer import ModelConfig, TSTransformer
    >>> from tsformer.data.panel import Panel
    >>> config = ModelConfig(n_channels=1, n_outputs=1, max_len=9, d_model=8, n_heads=2)
    >>> models = [TSTransformer(config) for _ in range(2)]
    >>> panel = Panel(torch.randn(6, 9, 1), torch.full((6,), 9))
    >>> options = {"n_epochs": 2, "batch_size": 3, "learning_rate": 0.01, "weight_decay": 0.0}
    >>> plans = [TrainingPlan(**options, device=torch.device("cpu"), seed=i) for i in range(2)]
    >>> loss = lambda outputs, targets: (outputs[:, 0] - targets).square()
    >>> histories = train_ensemble(models, panel, torch.randn(6), loss, plans)
    >>> [len(history) for history in histories]
    [2, 2]
    """
    histories = list(histories) or [History() for _ in models]
    callbacks = list(callbacks) or [() for _ in models]
    counts = {
        "models": len(models),
        "plans": len(plans),
        "callbacks": len(callbacks),
        "histories": len(histories),
    }
    if len(set(counts.values())) > 1 or not models:
        raise ValueError(
            "train_ensemble needs one plan, one history and one sequence of callbacks per model; "
            f"got {counts}"
        )
    runs = [
        TrainingRun(TrainingState(model, plan, history), loss, validation, own)
        for model, plan, history, own in zip(models, plans, histories, callbacks, strict=True)
    ]
    on_gpu = plans[0].device.type == "cuda"
    n_processes = 1 if on_gpu else min(joblib.effective_n_jobs(n_jobs), len(models))
    if n_processes > 1:
        if any(not callback.stateless for own in callbacks for callback in own):
            raise ValueError(
                f"n_jobs={n_jobs} trains in other processes, which would only call copies of the "
                "callbacks; use n_jobs=1 with callbacks, including verbose=1"
            )
        return _in_processes(runs, panel, targets, weights, n_processes)
    done: list[History] = []
    try:
        for run in runs:
            done.append(_execute(run, panel, targets, weights))
            if run.state.history.interrupted:
                break
    except KeyboardInterrupt:
        if not done:  # nothing is learned yet
            raise
        mark_interrupted(done[-1], f"{len(done)} of {len(runs)} members")
    return done


def _in_processes(
    runs: Sequence[TrainingRun],
    panel: AnyPanel,
    targets: Tensor,
    weights: Tensor | None,
    n_processes: int,
) -> list[History]:
    share = share_of_threads(n_processes)
    parallel = joblib.Parallel(n_processes, return_as="generator")
    jobs = (joblib.delayed(_in_child)(run, panel, targets, weights, share) for run in runs)
    done: list[History] = []
    try:
        for run, (weights_learned, learned, error) in zip(runs, parallel(jobs), strict=True):
            model, history = run.state.model, run.state.history
            model.load_state_dict(weights_learned)
            model.eval()
            history[:] = learned
            history.interrupted, history.best_epoch = learned.interrupted, learned.best_epoch
            done.append(history)
            if error is not None:
                raise error
    except KeyboardInterrupt:
        if not done:
            raise
        mark_interrupted(done[-1], f"{len(done)} of {len(runs)} members")
    return done


def _in_child(
    run: TrainingRun,
    panel: AnyPanel,
    targets: Tensor,
    weights: Tensor | None,
    share: dict[str, Any],
) -> tuple[dict[str, Tensor], History, NonFiniteLossError | None]:
    """Train one member in a child process."""
    error = None
    try:
        with threads(**share):
            _execute(run, panel, targets, weights)
    except NonFiniteLossError as raised:
        error = raised
    return run.state.model.state_dict(), run.state.history, error


def _execute(run: TrainingRun, panel: AnyPanel, targets: Tensor, weights: Tensor | None) -> History:
    """Train the model of `run` in place; see `train`."""
    model, plan = run.state.model, run.state.plan
    model.to(plan.device)
    panel, targets = place(panel, plan.device), targets.to(plan.device)
    weights = None if weights is None else weights.to(plan.device)
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    ranks = Ranks.current() if several else OneProcess()
    run.callbacks = run.callbacks if ranks.leads else ()
    # `training_session` is innermost, so that its pass for batch norms is shared too.
    with (
        threads_for(model, plan.batch_size * getattr(model, "max_tokens", 0)),
        ranks.sharing(model, plan, run.loss, len(panel)),
        training_session(run, panel, weights, ranks),
    ):
        _epochs(run, panel, targets, weights, ranks)
    return run.state.history


def _epochs(
    run: TrainingRun, panel: AnyPanel, targets: Tensor, weights: Tensor | None, ranks: OneProcess
) -> None:
    state, model, plan = run.state, run.state.model, run.state.plan
    optimizer = make_optimizer(model, plan)
    cls = step_class(plan, panel, ranks) if plan.graphed else TrainingStep
    step = cls(model, optimizer, panel, targets, weights, run.loss, plan, ranks)
    generator = torch.Generator().manual_seed(plan.seed)
    at = LoopState(run, generator)
    checkpointer = None
    if plan.checkpoint_dir is not None:
        folder, others = plan.checkpoint_dir, (targets, weights)
        checkpointer = Checkpointer(folder, run, optimizer, at, panel, others, ranks)
        checkpointer.resume()
    try:
        while state.epoch < state.n_epochs and not state.stop:
            start = perf_counter()
            model.train()
            if plan.pretrained is not None:
                set_frozen(model, plan.frozen)
            at.begin_epoch()
            batches = list(shuffled(len(panel), plan.batch_size, generator))
            n_steps = state.plan.n_epochs * len(batches)  # a callback may shorten the plan
            # One copy per epoch, since every copy waits for the device.
            rows = torch.split(send(torch.cat(batches), plan.device), [len(b) for b in batches])
            with panel.ahead([step.read(batch) for batch in batches[at.batch :]]) as coming:
                for index in coming:
                    set_learning_rate(optimizer, plan.rate(at.step, n_steps))
                    with run.random.drawing():
                        at.total += step(index, rows[at.batch], number=at.step)
                    at.step, at.batch = at.step + 1, at.batch + 1
                    if checkpointer is not None:
                        checkpointer.save_if_due()
            loss = ranks.add_up(at.total).item() / len(panel)
            if not math.isfinite(loss):
                run.raise_non_finite(loss, at.kept, panel)
            at.end_epoch()
            run.end_epoch(loss, plan.rate(at.step - 1, n_steps), start, at.kept[-1][1])
            state.stop = ranks.any(state.stop, plan.device)
        if checkpointer is not None:
            checkpointer.save()
    finally:
        if plan.pretrained is not None:
            set_frozen(model, frozenset())
        if run.stopping.best_weights is not None:
            model.load_state_dict(run.stopping.best_weights)


def make_optimizer(model: nn.Module, plan: TrainingPlan) -> torch.optim.AdamW:
    """Return fused AdamW over the groups of `decay_groups`."""
    graphed = plan.graphed
    optimizer = torch.optim.AdamW(
        decay_groups(model, plan.pretrained),
        # A captured step reads its learning rate from a tensor.
        lr=torch.tensor(plan.learning_rate, device=plan.device) if graphed else plan.learning_rate,
        weight_decay=plan.weight_decay,
        fused=True,
        capturable=graphed,
    )
    for group in optimizer.param_groups if graphed else ():
        group["lr"] = group["lr"].clone()  # groups may have different rates
    return optimizer


def decay_groups(model: nn.Module, pretrained: Pretrained | None = None) -> list[dict[str, Any]]:
    """Group parameters: decayed weights of linear and convolution layers, and all others."""
    decayed = [
        m.weight for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d))
    ]
    chosen = {id(p) for p in decayed}
    rest = [p for p in model.parameters() if id(p) not in chosen]
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": rest, "weight_decay": 0.0}]
    if pretrained is None:
        return groups
    slow = {id(p) for name, p in model.named_parameters() if name in pretrained.names}
    scaled = [
        {**group, "params": [p for p in group["params"] if id(p) in slow]}
        | {"lr_scale": pretrained.lr_scale}
        for group in groups
    ]
    plain = [
        {**group, "params": [p for p in group["params"] if id(p) not in slow]} for group in groups
    ]
    return [group for group in (*plain, *scaled) if group["params"]]


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate, times the factor of each group."""
    for group in optimizer.param_groups:
        own = rate * group.get("lr_scale", 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def set_frozen(model: nn.Module, names: frozenset[str]) -> None:
    """Freeze parameters and the averages of their batch norms; unfreeze all others."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in names)
    for name, module in model.named_modules():
        if isinstance(module, _BatchNorm) and f"{name}.weight" in names:
            module.eval()
