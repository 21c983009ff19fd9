"""Run tasks in this process, in worker processes of this machine, or on a Dask cluster."""

from __future__ import annotations

import faulthandler
import os
import re
import signal
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from joblib.externals.loky import ProcessPoolExecutor

from tsformer._optional import require
from tsformer._threads import limit_threads, share_of_threads
from tsformer._warnings import warn_caller
from tsformer.studies.run.lock import end_left_over
from tsformer.studies.run.progress import ProgressReporter
from tsformer.studies.run.trial import Task, TrialResult, failed, run_task

#: Attempts at a fit whose process ends: memory may have been short for a moment.
_ATTEMPTS = 2
_SECONDS_FOR_WORKERS = 60
#: Limit of imports and compilation before a fit with a time limit.
_PREPARATION_SECONDS = 300
#: Libraries read their number of threads when they are loaded.
_THREAD_VARIABLES = (
    *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS"),
)


def one_by_one(
    tasks: Sequence[Task], workers: Workers, progress: ProgressReporter
) -> Iterator[TrialResult]:
    """Run one task after the other; methods of other libraries may crash, so in a worker."""
    for task in tasks:
        progress.fit_start(task.trial)
        method = task.study.method(task.trial.method)
        # A worker cannot import classes of the main script.
        if method.ours or method.estimator.startswith("__main__."):
            yield run_task(task, [progress])
        else:
            yield from workers.run([task])


class Workers:
    """Worker processes on this machine, each with its share of the cores as threads."""

    def __init__(self, jobs: int, time_limit: float | None = None):
        self.jobs = jobs
        self.time_limit = time_limit

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="tsformer-")
        logs = [Path(self._folder.name, str(i)) for i in range(self.jobs)]
        self._workers = [Worker(log, self.jobs, self.time_limit) for log in logs]
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._workers:
            worker.stop()
        self._folder.cleanup()

    def run(self, tasks: Sequence[Task]) -> Iterator[TrialResult]:
        """Yield the result of each task as it ends."""
        waiting, idle, losses = deque(tasks), list(self._workers), Losses()
        running: dict[Future[TrialResult], tuple[Worker, Task]] = {}
        while waiting or running:
            while waiting and idle:
                worker, task = idle.pop(), waiting.popleft()
                running[worker.submit(task)] = worker, task
            # With mlflow imported, Ctrl-C does not interrupt a wait without a timeout.
            for future in wait(running, timeout=1, return_when=FIRST_COMPLETED).done:
                worker, task = running.pop(future)
                idle.append(worker)
                try:
                    yield future.result()
                except BrokenProcessPool as error:
                    late = worker.timed_out()
                    worker.stop()
                    again = losses.repeat(task)
                    if late:
                        name = task.trial.method
                        limit = f"{name} had not ended after {self.time_limit:g} seconds"
                        yield failed(task, f"FitTimeLimit: {limit}")
                    elif again:
                        waiting.append(task)
                    else:
                        yield lost(task, error)


class Worker:
    """One worker process, started with its first task."""

    def __init__(self, log: Path, jobs: int, time_limit: float | None):
        self.log = log
        self.jobs = jobs
        self.time_limit = time_limit
        self._executor: Any = None

    def submit(self, task: Task) -> Future[TrialResult]:
        """Start a task."""
        if self._executor is None:
            threads = share_of_threads(self.jobs)["most"]
            self._executor = ProcessPoolExecutor(
                max_workers=1,
                initializer=_prepare,
                initargs=(os.getpid(), threads),
                env={name: os.environ.get(name, str(threads)) for name in _THREAD_VARIABLES},
            )
        try:
            future: Future[TrialResult] = self._executor.submit(
                _run_within, self.time_limit, self.log, task
            )
        except BrokenProcessPool:  # the process was killed between two tasks
            self.stop()
            return self.submit(task)
        return future

    def timed_out(self) -> bool:
        """Return whether the process ended itself."""
        return self.log.exists() and self.log.read_text().startswith("Timeout")

    def stop(self) -> None:
        """End the process."""
        if self._executor is not None:
            self._executor.shutdown(kill_workers=True)
            self._executor = None
            self.log.unlink(missing_ok=True)


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


def _run_within(seconds: float | None, log: Path, task: Task) -> TrialResult:
    """Run a task in a worker; end the process after some seconds, and log why."""
    if seconds is None:
        return run_task(task)
    with log.open("w") as file:

        def limit(seconds: float) -> None:
            # A thread of C: a fit that hangs may never release the interpreter.
            faulthandler.dump_traceback_later(seconds, exit=True, file=file)

        limit(seconds + _PREPARATION_SECONDS)
        try:
            return run_task(task, on_begin=lambda: limit(seconds))
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def cluster(scheduler: str) -> Iterator[Any]:
    """Connect to a Dask scheduler, "tcp://host:port", or "tls://host:port" with certificates."""
    distributed = require("distributed", extra="dask", purpose="running a comparison on a cluster")

    class Client(distributed.Client):  # type: ignore[name-defined]
        def start(self, **options: Any) -> None:
            try:
                super().start(**options)
            except BaseException:
                # The garbage collector may do so in the next client, which then hangs.
                self.close()
                raise

    try:
        client = Client(scheduler, timeout=5, set_as_default=False)
    except (OSError, TypeError, ValueError) as error:  # TypeError: tls:// without a certificate
        raise ConnectionError(
            f"no Dask scheduler accepts connections at {scheduler!r}; start one as in "
            "docs/cluster.md and pass its address, such as tcp://127.0.0.1:8786. For tls://, set "
            "DASK_CONFIG to the folder of the cluster's certificate. "
            f"({type(error).__name__}: {error})"
        ) from error
    with client:
        yield client


def on_cluster(tasks: Sequence[Task], client: Any) -> Iterator[TrialResult]:
    """Run tasks on the workers of a Dask cluster, which may join and leave at any time."""
    distributed = require("distributed", extra="dask", purpose="running a comparison on a cluster")
    client.wait_for_workers(1, timeout=_SECONDS_FOR_WORKERS)
    running = {client.submit(run_task, task, pure=False): task for task in tasks}
    completed, losses = distributed.as_completed(list(running), loop=client.loop), Losses()
    try:
        for future in completed:
            task = running.pop(future)
            try:
                yield future.result()
            except distributed.KilledWorker as error:
                if losses.repeat(task):
                    again = client.submit(run_task, task, pure=False)
                    running[again] = task
                    completed.add(again)
                else:
                    yield lost(task, error)
    finally:
        client.cancel(list(running))


class Losses(Counter[str]):
    """How often each fit was lost with its process."""

    def repeat(self, task: Task) -> bool:
        """End the run of a lost fit; return whether to fit again."""
        try:
            end_left_over(task.store, task.study.name, {task.key})
        except Exception as error:  # its run stays RUNNING until a driver reaches the store again
            warn_caller(f"the run of {task.trial} could not be ended: {error}")
        self[task.key] += 1
        return self[task.key] < _ATTEMPTS


def lost(task: Task, error: Exception) -> TrialResult:
    """Record a fit as failed after its worker process ended in each attempt."""
    codes = re.search(r"exit codes of the workers are \{(.*)\}", str(error))
    return failed(
        task,
        f"ProcessLost: the process of {task.trial.method} ended in {_ATTEMPTS} attempts "
        f"({codes[1] if codes else error}), by its own code or for lack of memory",
    )
