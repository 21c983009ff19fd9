"""Several models of one shape, trained as one, in processes, or one after another."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import joblib
import torch
from torch import Tensor, nn

from tsformer.data.panel import Panel
from tsformer.training.callbacks import Callback, History
from tsformer.training.distributed import Ranks
from tsformer.training.ensemble.stack import ModelStack
from tsformer.training.ensemble.vectorized import train_vectorized
from tsformer.training.loop import NonFiniteLossError, Validation, train
from tsformer.training.memory import exceeds_device_memory
from tsformer.training.plan import TrainingPlan
from tsformer.training.seeds import seeded
from tsformer.training.step import Loss

__all__ = ["train_ensemble", "why_not_vectorizable"]

#: Series in the call that tries out whether models can be run as one.
_TRIED = 2


def train_ensemble(
    models: Sequence[nn.Module],
    panel: Panel,
    targets: Tensor,
    loss: Loss,
    plans: Sequence[TrainingPlan],
    *,
    weights: Tensor | None = None,
    validation: Validation | None = None,
    callbacks: Sequence[Sequence[Callback]] = (),
    histories: Sequence[History] = (),
    n_jobs: int | None = 1,
    vectorized: bool | None = None,
) -> list[History]:
    """Train several models in place, on the same series.

    On a GPU models that differ only in their weights and seeds train as one: their parameters
    have a leading member axis, and a step of all takes little longer than a step of one. On a
    CPU, which has nothing to spare, they train one after another, or in `n_jobs` processes. Either
    way each has the batches that it would have alone, and without random draws ends as it would
    alone, to rounding.

    Parameters
    ----------
    models : sequence of nn.Module
        As for `train`.
    panel, targets, loss, weights, validation
        As for `train`; all models share them. Processes need a `loss` that can be pickled.
    plans : sequence of TrainingPlan
        One for each model. What trains as one has plans that differ only in their seeds.
    callbacks : sequence of sequences of Callback, optional
        Those of each model. A callback that several share is called for one model after another.
    histories : sequence of History, optional
        Rows of earlier epochs of each model, to go on with in place.
    n_jobs : int, optional
        Processes on a CPU, with an even share of the threads; None is 1, -1 a process a core.
    vectorized : bool, optional
        Whether to train as one. By default where the device is a GPU and nothing is in the way;
        what is, is told in a warning.

    Returns
    -------
    list of History
        One for each model; after Ctrl-C only for those that were begun, the first at least.

    Raises
    ------
    NonFiniteLossError
        If the loss of a model is no longer finite. Those before it are trained.
    ValueError
        If the sequences differ in length, `vectorized` is asked for and cannot be, or callbacks are
        to be called in other processes.

    Examples
    --------
    >>> import torch.nn.functional as F
    >>> from tsformer import ModelConfig, TSTransformer
    >>> config = ModelConfig(n_channels=1, n_outputs=1, max_len=9, d_model=8, n_heads=2)
    >>> models = [TSTransformer(config) for _ in range(2)]
    >>> panel = Panel(torch.randn(6, 9, 1), torch.full((6,), 9))
    >>> options = {"n_epochs": 2, "batch_size": 3, "learning_rate": 0.01, "weight_decay": 0.0}
    >>> plans = [TrainingPlan(**options, device=torch.device("cpu"), seed=i) for i in range(2)]
    >>> loss = lambda outputs, targets: (outputs[:, 0] - targets).square()
    >>> histories = train_ensemble(models, panel, torch.randn(6), loss, plans, vectorized=True)
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
            f"train_ensemble needs one plan, one history and one sequence of callbacks per "
            f"model; got {counts}"
        )
    on_gpu = plans[0].device.type == "cuda"
    if vectorized or (vectorized is None and on_gpu and len(models) > 1):
        reason = why_not_vectorizable(models, panel, plans, callbacks, histories)
        if reason is None:
            return train_vectorized(
                models,
                panel,
                targets,
                loss,
                plans,
                weights=weights,
                validation=validation,
                callbacks=callbacks,
                histories=histories,
            )
        if vectorized:
            raise ValueError(f"these {len(models)} models cannot train as one: {reason}")
        warnings.warn(
            f"{len(models)} members train one after another, not as one: {reason}", stacklevel=2
        )
    data = {"targets": targets, "loss": loss, "weights": weights, "validation": validation}
    n_processes = 1 if on_gpu else min(joblib.effective_n_jobs(n_jobs), len(models))
    if n_processes == 1:
        return _in_turn(models, panel, plans, callbacks, histories, data)
    if any(callbacks):
        raise ValueError(
            f"n_jobs={n_jobs} trains in other processes, where callbacks would be called on copies "
            "of themselves that are lost; use n_jobs=1 with callbacks, of which verbose=1 is one"
        )
    return _in_processes(models, panel, plans, histories, data, n_processes)


def why_not_vectorizable(
    models: Sequence[nn.Module],
    panel: Panel,
    plans: Sequence[TrainingPlan],
    callbacks: Sequence[Sequence[Callback]],
    histories: Sequence[History],
) -> str | None:
    """Return why these models cannot train as one, or None if they can.

    The parameters are those of `train_ensemble`.
    """
    plan = plans[0]
    if any(replace(other, seed=plan.seed) != plan for other in plans):
        return "their plans differ in more than the seed"
    if len({len(history) for history in histories}) > 1:
        return "some have trained longer before"
    if len({_shape(model) for model in models}) > 1:
        return "their shapes differ"
    each = [id(callback) for own in callbacks for callback in own]
    if len(set(each)) < len(each):
        return "callbacks follow one training at a time"
    if plan.checkpoint_dir is not None:
        return "a checkpoint holds one training"
    if plan.compile:
        return f"compile={plan.compile!r} is of one model"
    if Ranks.current().size > 1:
        return "several processes share each of them"
    if exceeds_device_memory(panel.n_bytes, plan.device):
        return f"the data do not fit on {plan.device} and go there batch by batch"
    return _no_vmap(models, panel, plan)


def _shape(model: nn.Module) -> str:
    """Return what two models must share to be run as one."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    shapes = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    return f"{type(model)} {getattr(model, 'config', None)} {shapes}"


def _no_vmap(models: Sequence[nn.Module], panel: Panel, plan: TrainingPlan) -> str | None:
    """Try a few series: an encoding of the user's own may do what vmap cannot."""
    for model in models:
        model.to(plan.device).train()
    index = torch.arange(min(_TRIED, len(panel)))
    inputs: Any = tuple(
        None if x is None else x.to(plan.device).expand(len(models), *x.shape)
        for x in panel.take(index)
    )
    with seeded(plan.seed, plan.device):
        stack = ModelStack(models)
        try:
            failure = stack.try_out(inputs)
        finally:
            stack.release()
    return None if failure is None else f"torch.vmap cannot run the model: {failure}"


def _in_turn(
    models: Sequence[nn.Module],
    panel: Panel,
    plans: Sequence[TrainingPlan],
    callbacks: Sequence[Sequence[Callback]],
    histories: Sequence[History],
    data: dict[str, Any],
) -> list[History]:
    done: list[History] = []
    for model, plan, own, history in zip(models, plans, callbacks, histories, strict=True):
        done.append(train(model, panel, plan=plan, callbacks=own, history=history, **data))
        if history.interrupted:
            break
    return done


def _in_processes(
    models: Sequence[nn.Module],
    panel: Panel,
    plans: Sequence[TrainingPlan],
    histories: Sequence[History],
    data: dict[str, Any],
    n_processes: int,
) -> list[History]:
    n_threads = max(torch.get_num_threads() // n_processes, 1)
    parallel = joblib.Parallel(n_processes, return_as="generator")
    jobs = (
        joblib.delayed(_alone)(model, panel, plan, history, data, n_threads)
        for model, plan, history in zip(models, plans, histories, strict=True)
    )
    done: list[History] = []
    try:
        for model, history, (state, trained, error) in zip(
            models, histories, parallel(jobs), strict=True
        ):
            model.load_state_dict(state)
            model.eval()
            history[:] = trained
            history.interrupted, history.best_epoch = trained.interrupted, trained.best_epoch
            done.append(history)
            if error is not None:
                raise error
    except KeyboardInterrupt:
        warnings.warn(
            f"training was interrupted after {len(done)} of {len(models)} members; what was "
            "trained so far is kept",
            stacklevel=3,
        )
        if not done:
            models[0].eval()
            done.append(histories[0])
        done[-1].interrupted = True
    return done


def _alone(
    model: nn.Module,
    panel: Panel,
    plan: TrainingPlan,
    history: History,
    data: dict[str, Any],
    n_threads: int,
) -> tuple[dict[str, Tensor], History, NonFiniteLossError | None]:
    """Train one member in a process of its own."""
    torch.set_num_threads(n_threads)
    error = None
    try:
        train(model, panel, plan=plan, history=history, **data)
    except NonFiniteLossError as diverged:
        error = diverged
    return model.state_dict(), history, error
