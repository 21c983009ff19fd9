"""Where tasks run: in this process, in several on this machine, or on a Dask cluster."""

from __future__ import annotations

import os
import tempfile
import time
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
from tsformer.studies.run.progress import ProgressReporter
from tsformer.studies.run.worker import (
    MAX_LOSSES,
    Task,
    TrialResult,
    lost,
    run_task,
    timed_out,
)

__all__ = ["cluster", "in_processes", "in_this_process", "on_cluster"]

# Consecutive rounds in which workers ended without any fit running or ending, before an error.
_MAX_ROUNDS = 3


def in_this_process(tasks: Sequence[Task], progress: ProgressReporter) -> Iterator[TrialResult]:
    """Run one task after the other, reporting every epoch."""
    for task in tasks:
        progress.fit_start(task.trial)
        yield run_task(task, [progress])


def in_processes(
    tasks: Sequence[Task], jobs: int, time_limit: float | None = None
) -> Iterator[TrialResult]:
    """Run tasks in `jobs` processes on this machine, each with its share of the cores as threads.

    When a worker is killed, its whole pool ends. Fits that were running are repeated; one that was
    running twice is then run alone, so that a third loss can only be its own fault. A worker ends
    itself if its fit takes longer than `time_limit` seconds; that fit has failed.
    """
    threads = max(torch.get_num_threads() // jobs, 1)
    with tempfile.TemporaryDirectory(prefix="tsformer-") as folder:
        waiting = {
            task.trial: replace(
                task,
                threads=threads,
                driver=os.getpid(),
                mark=str(Path(folder, str(i))),
                time_limit=time_limit,
            )
            for i, task in enumerate(tasks)
        }
        losses: Counter[Any] = Counter()
        rounds = 0
        while waiting:
            together = [task for trial, task in waiting.items() if losses[trial] < MAX_LOSSES - 1]
            batch = together or list(waiting.values())[:1]
            try:
                # With one job joblib would use this process: with one of two at work it does not.
                at_once = jobs if together else 1
                with joblib.parallel_config("loky", n_jobs=max(at_once, 2)):
                    parallel = joblib.Parallel(
                        return_as="generator_unordered",
                        batch_size=1,
                        pre_dispatch=1 if at_once == 1 else "2 * n_jobs",
                    )
                for result in _results(parallel, batch):
                    rounds = 0
                    del waiting[result.trial]
                    yield result
            except BrokenProcessPool as error:
                under_way = [task for task in batch if Path(task.mark).exists()]
                rounds = 0 if under_way else rounds + 1
                if rounds >= _MAX_ROUNDS:
                    raise RuntimeError(f"workers end before they start a fit: {error}") from error
                for task in under_way:
                    seconds = time.time() - Path(task.mark).stat().st_mtime
                    Path(task.mark).unlink()
                    losses[task.trial] += 1
                    _mark_lost(task)
                    if time_limit is not None and seconds >= time_limit:
                        del waiting[task.trial]
                        yield timed_out(task)
                    elif losses[task.trial] >= MAX_LOSSES:
                        del waiting[task.trial]
                        yield lost(task)


@contextmanager
def cluster(scheduler: str) -> Iterator[Any]:
    """Connect to a Dask scheduler, "tcp://host:port", or "tls://host:port" with certificates."""
    distributed = require("distributed", extra="dask", purpose="running a comparison on a cluster")
    try:
        client = distributed.Client(scheduler, timeout=5, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:  # TypeError: tls:// without a certificate
        raise ConnectionError(
            f"no Dask scheduler lets this process in at {scheduler!r}; start one as "
            "docs/cluster.md shows and give its address, such as tcp://127.0.0.1:8786, or "
            "tls://host:8786, for which DASK_CONFIG must name the folder of the cluster's "
            f"certificate. ({type(error).__name__}: {error})"
        ) from error
    with client:
        yield client


def on_cluster(tasks: Sequence[Task], client: Any) -> Iterator[TrialResult]:
    """Run tasks on the workers of a Dask cluster, which may join and leave at any time.

    Dask itself repeats a task whose worker was lost, and gives up after four losses. Not all of
    these are the task's fault, since a worker is lost with every task assigned to it.
    """
    distributed = require("distributed", extra="dask", purpose="running a comparison on a cluster")
    waiting = {task.trial: task for task in tasks}
    rounds = 0
    while waiting:
        try:
            with joblib.parallel_config("dask", client=client, wait_for_workers_timeout=60):
                parallel = joblib.Parallel(
                    return_as="generator_unordered",
                    batch_size=1,
                    pre_dispatch="all",  # so that workers that join later find work
                )
            for result in _results(parallel, list(waiting.values())):
                rounds = 0
                del waiting[result.trial]
                yield result
        except distributed.KilledWorker as error:
            rounds += 1
            if rounds >= _MAX_ROUNDS:
                raise RuntimeError(f"the cluster keeps losing workers: {error}") from error


def _results(parallel: joblib.Parallel, tasks: Sequence[Task]) -> Iterator[TrialResult]:
    results = parallel(joblib.delayed(run_task)(task) for task in tasks)
    try:
        # `yield from` would forward closing, and with it joblib's warning.
        for result in results:  # noqa: UP028
            yield result
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about unfinished tasks: Ctrl-C intends that
            results.close()


def _mark_lost(task: Task) -> None:
    try:
        task.claims.look_up(task.key)  # which marks what it left behind
    except Exception as error:  # its run stays RUNNING until a driver reaches the store again
        warnings.warn(f"the run of {task.trial} could not be ended: {error}", stacklevel=2)
