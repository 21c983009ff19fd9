"""Where tasks are done: in this process, in others of this machine, or on a Dask cluster."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import joblib
import torch

from tsformer._optional import require
from tsformer.studies.progress import ProgressReporter
from tsformer.studies.work import MOST_LOSSES, Outcome, Task, lost, run_task, run_together
from tsformer.training.plan import resolve_device

__all__ = ["cluster", "in_processes", "in_this_process", "on_cluster"]

# Rounds in which workers ended and no fit did, nor was one under way, before that is an error.
_MOST_ROUNDS = 3


def in_this_process(tasks: Sequence[Task], progress: ProgressReporter) -> Iterator[Outcome]:
    """Do one task after the other, with a report of every epoch; on a GPU all seeds at once."""
    groups: dict[Any, list[Task]] = {}
    for task in tasks:
        alone = None if _on_gpu(task) else task.cell.seed
        groups.setdefault((task.cell._replace(seed=0), alone), []).append(task)
    for group in groups.values():
        progress.fit_start(group[0].cell)
        if len(group) == 1:
            yield run_task(group[0], [progress])
        else:
            yield from run_together(group, [progress])


def _on_gpu(task: Task) -> bool:
    device = task.study.configuration(task.cell.variant)["device"]
    return resolve_device(device).type == "cuda"


def in_processes(tasks: Sequence[Task], jobs: int) -> Iterator[Outcome]:
    """Do tasks in `jobs` processes of this machine, each with its share of the cores as threads.

    A worker that is killed takes the others with it. What was under way is done again; a fit that
    was under way twice is then done with no other beside it, so that a third loss is its own.
    """
    threads = max(torch.get_num_threads() // jobs, 1)
    with tempfile.TemporaryDirectory(prefix="tsformer-") as folder:
        waiting = {
            task.cell: replace(
                task, threads=threads, driver=os.getpid(), mark=str(Path(folder, str(i)))
            )
            for i, task in enumerate(tasks)
        }
        losses: Counter[Any] = Counter()
        rounds = 0
        while waiting:
            together = [task for cell, task in waiting.items() if losses[cell] < MOST_LOSSES - 1]
            batch = together or list(waiting.values())[:1]
            try:
                # One job would be this process.
                with joblib.parallel_config("loky", n_jobs=jobs if together else 2):
                    parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
                for outcome in _outcomes(parallel, batch):
                    rounds = 0
                    del waiting[outcome.cell]
                    yield outcome
            except BrokenProcessPool as error:
                under_way = [task for task in batch if Path(task.mark).exists()]
                rounds = 0 if under_way else rounds + 1
                if rounds >= _MOST_ROUNDS:
                    raise RuntimeError(f"the workers end before they begin: {error}") from error
                for task in under_way:
                    Path(task.mark).unlink()
                    losses[task.cell] += 1
                    _mark_lost(task)
                    if losses[task.cell] >= MOST_LOSSES:
                        del waiting[task.cell]
                        yield lost(task)


@contextmanager
def cluster(scheduler: str) -> Iterator[Any]:
    """Connect to a Dask scheduler, "tcp://host:port".

    Raises
    ------
    ConnectionError
        If there is none.
    ImportError
        If the extra `dask` is missing.
    """
    distributed = require("distributed", extra="dask", purpose="a comparison on a cluster")
    try:
        client = distributed.Client(scheduler, timeout=5, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {scheduler!r}; start one with `dask scheduler`, and "
            f"give its address, as in tcp://127.0.0.1:8786. ({type(error).__name__}: {error})"
        ) from error
    with client:
        yield client


def on_cluster(tasks: Sequence[Task], client: Any) -> Iterator[Outcome]:
    """Do tasks on the workers of a Dask cluster, which come and go as they like.

    Dask itself does a task again that lost its worker, and gives up after four such losses; which
    are not all the task's own, since a worker is lost with all that it was given.
    """
    distributed = require("distributed", extra="dask", purpose="a comparison on a cluster")
    waiting = {task.cell: task for task in tasks}
    rounds = 0
    while waiting:
        try:
            with joblib.parallel_config("dask", client=client, wait_for_workers_timeout=60):
                parallel = joblib.Parallel(
                    return_as="generator_unordered",
                    batch_size=1,
                    pre_dispatch="all",  # whoever joins later finds work
                )
            for outcome in _outcomes(parallel, list(waiting.values())):
                rounds = 0
                del waiting[outcome.cell]
                yield outcome
        except distributed.KilledWorker as error:
            rounds += 1
            if rounds >= _MOST_ROUNDS:
                raise RuntimeError(
                    f"the cluster loses one worker after the other: {error}"
                ) from error


def _outcomes(parallel: joblib.Parallel, tasks: Sequence[Task]) -> Iterator[Outcome]:
    outcomes = parallel(joblib.delayed(run_task)(task) for task in tasks)
    try:
        # `yield from` would pass closing on, and with it joblib's warning.
        for outcome in outcomes:  # noqa: UP028
            yield outcome
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tasks left undone: Ctrl-C asks for that
            outcomes.close()


def _mark_lost(task: Task) -> None:
    try:
        task.store.count_lost(task.key, task.session)
    except Exception as error:  # its run stays RUNNING until a driver finds the store again
        warnings.warn(f"the run of {task.cell} was not ended: {error}", stacklevel=2)
