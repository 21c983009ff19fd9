"""Run fits in this process, in worker processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import faulthandler
import itertools
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import Any

from joblib.externals.loky import ProcessPoolExecutor

from tsformer._optional import require
from tsformer._threads import limit_threads, share_of_threads
from tsformer.studies.design.study import Trial
from tsformer.studies.run.events import Progress, ProgressReporter
from tsformer.studies.run.lock import end_left_over
from tsformer.studies.run.results import ResultStore
from tsformer.studies.run.trial import Task, TrialResult, run_task

#: Limit of imports and compilation before a fit with a time limit.
_PREPARATION_SECONDS = 300
_SECONDS_FOR_WORKERS = 60
#: Libraries read their number of threads when they are loaded.
_THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
)


@dataclass(eq=False)
class Fits:
    """Runs the fits of one comparison, each in a process if it may crash or several run.

    The end of a process fails its fit; Dask repeats it on other workers before.
    """

    parent_id: str
    listener: Callable[[Progress], None] | None = None
    jobs: int = 1
    time_limit: float | None = None
    client: Any = None

    def __post_init__(self) -> None:
        self.pools: list[Any] = [self.new_pool() for _ in range(self.jobs)]

    def new_pool(self) -> Any:
        """Return a pool of one worker, whose process starts with its first task."""
        threads = share_of_threads(self.jobs)["most"]
        return ProcessPoolExecutor(
            max_workers=1,
            initializer=_prepare,
            initargs=(os.getpid(), threads),
            env={name: os.environ.get(name, str(threads)) for name in _THREAD_VARIABLES},
        )

    def close(self) -> None:
        """End the worker processes."""
        for pool in self.pools:
            pool.shutdown(kill_workers=True)

    def n_parallel(self) -> int:
        """Return the number of fits that run at once."""
        return sum(self.client.nthreads().values()) if self.client else self.jobs

    def run(
        self,
        trials: list[Trial],
        to: ResultStore,
        is_late: Callable[[Trial], bool] | None = None,
    ) -> Iterator[Trial]:
        """Fit the trials that have no result, with `is_late` until it is true of the next."""
        skipped, waiting = set(trials) & set(to.rows), set(to.waiting())
        self.progress = ProgressReporter(self.listener, trials, skipped, self.n_parallel)
        left = [trial for trial in trials if trial in waiting]
        while left:
            n = self.n_parallel() if is_late else len(left)
            in_time = itertools.takewhile(lambda trial: not (is_late and is_late(trial)), left[:n])
            tasks = [Task(trial, to.study, to.store, self.parent_id) for trial in in_time]
            if not tasks:
                return
            left = left[len(tasks) :]
            for result in self.results_of(tasks):
                accuracy = result.row["accuracy"] if result.row else None
                for trial in to.add(result):
                    self.progress.send("fit-end", trial, accuracy=accuracy, error=result.error)
                yield result.trial

    def results_of(self, tasks: Sequence[Task]) -> Iterator[TrialResult]:
        """Yield the result of each task as it ends."""
        one_by_one = self.client is None and self.time_limit is None and self.jobs == 1
        losses: tuple[type[Exception], ...] = (BrokenProcessPool,)
        idle = list(self.pools)
        if self.client is not None:  # its workers may join and leave at any time
            losses += (require("distributed", extra="dask", purpose="a cluster").KilledWorker,)
            self.client.wait_for_workers(1, timeout=_SECONDS_FOR_WORKERS)
            idle = [self.client.get_executor(pure=False)] * len(tasks)
        waiting, running = deque(tasks), dict[Future[TrialResult], tuple[Any, Task]]()
        try:
            while waiting or running:
                while waiting and idle:
                    task = waiting.popleft()
                    method = task.method
                    if one_by_one:
                        self.progress.send("fit-start", task.trial)
                    # Other libraries may crash. A worker cannot import the main script.
                    if one_by_one and (method.ours or method.estimator.startswith("__main__.")):
                        yield run_task(task, [self.progress])
                    else:
                        pool = idle.pop()
                        running[pool.submit(run_within, self.time_limit, task)] = pool, task
                # With mlflow imported, Ctrl-C does not interrupt a wait without a timeout.
                for future in wait(running, timeout=1, return_when=FIRST_COMPLETED).done:
                    pool, task = running.pop(future)
                    try:
                        yield future.result()
                    except losses as error:
                        if pool in self.pools:
                            self.pools.remove(pool)
                            self.pools.append(pool := self.new_pool())
                        end_left_over(task.store, task.study.name, {task.key})
                        name, limit = task.trial.method, self.time_limit
                        told = " ".join(str(error).split())  # in one line, with the exit code
                        reason = f"ProcessLost: the process of {name} ended: {told}"
                        if limit is not None and "EXIT(1)" in told:  # of `faulthandler`
                            reason = f"FitTimeLimit: {name} had not ended after {limit:g} seconds"
                        yield task.failed(reason)
                    idle.append(pool)
        finally:
            for future in running:
                future.cancel()


def _prepare(driver: int, threads: int) -> None:
    """Prepare a worker process."""

    def follow() -> None:
        while os.getppid() == driver:
            time.sleep(0.5)
        os._exit(1)

    limit_threads(threads)
    # Ctrl-C reaches the whole process group; the driver decides when its workers end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=follow, daemon=True).start()


def run_within(seconds: float | None, task: Task) -> TrialResult:
    """Run a task; end the process after some seconds of its fit."""
    if seconds is None:
        return run_task(task)
    with open(os.devnull, "w") as file:
        # A thread of C: a fit that hangs may never release the interpreter.
        limit = partial(faulthandler.dump_traceback_later, exit=True, file=file)
        limit(seconds + _PREPARATION_SECONDS)
        try:
            return run_task(task, on_begin=partial(limit, seconds))
        finally:
            faulthandler.cancel_dump_traceback_later()


def cluster(scheduler: str) -> Any:
    """Connect to a Dask scheduler, "tcp://host:port", or "tls://host:port" with certificates."""
    distributed = require("distributed", extra="dask", purpose="running a comparison on a cluster")

    class Client(distributed.Client):  # type: ignore[name-defined]
        def start(self, **options: Any) -> None:
            try:
                super().start(**options)
            except BaseException:
                self.close()  # else the next client may hang
                raise

    try:
        return Client(scheduler, timeout=5, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:  # TypeError: tls:// without a certificate
        cause = f"no Dask scheduler at {scheduler!r} ({error!r})"
        raise ConnectionError(f"{cause}: see docs/cluster.md, for tls:// DASK_CONFIG") from error
