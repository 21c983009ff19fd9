"""Train several models on the same data, in turn or in processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import joblib
from torch import Tensor, nn

from tsformer._threads import share_of_threads, threads
from tsformer.data.stored_panel import AnyPanel
from tsformer.objectives import Pretext
from tsformer.training.callbacks import Callback, History, TrainingState
from tsformer.training.loop import execute
from tsformer.training.plan import TrainingPlan
from tsformer.training.run import NonFiniteLossError, TrainingRun, mark_interrupted
from tsformer.training.step import Loss
from tsformer.training.validation import Validation

__all__ = ["train_ensemble"]


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
    models : sequence of nn.Module
        As for `train`.
    panel, targets, loss, weights, validation
        As for `train`; shared by all models. Processes need a `loss` that can be pickled.
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
        One per model; after Ctrl-C only for the models trained so far, at least the first.

    Raises
    ------
    NonFiniteLossError
        If the loss of a model is no longer finite. The models before it are trained.
    ValueError
        If the sequences differ in length, or if callbacks would have to be called in other
        processes.

    Examples
    --------
    >>> import torch
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
    if n_processes == 1:
        return _in_turn(runs, panel, targets, weights)
    if any(not callback.stateless for own in callbacks for callback in own):
        raise ValueError(
            f"n_jobs={n_jobs} trains in other processes, which would only call copies of the "
            "callbacks; use n_jobs=1 with callbacks, including verbose=1"
        )
    return _in_processes(runs, panel, targets, weights, n_processes)


def _in_turn(
    runs: Sequence[TrainingRun], panel: AnyPanel, targets: Tensor, weights: Tensor | None
) -> list[History]:
    done: list[History] = []
    for run in runs:
        done.append(execute(run, panel, targets, weights))
        if run.state.history.interrupted:
            break
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
        progress = f"{len(done)} of {len(runs)} members"
        if not done:
            runs[0].state.model.eval()
            done.append(runs[0].state.history)
        mark_interrupted(done[-1], progress, stacklevel=4)
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
            execute(run, panel, targets, weights)
    except NonFiniteLossError as raised:
        error = raised
    return run.state.model.state_dict(), run.state.history, error
