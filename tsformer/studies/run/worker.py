"""What a worker executes: one task, a fit under its key, which may be requested repeatedly."""

from __future__ import annotations

import faulthandler
import importlib
import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import tsformer
from tsformer._threads import limit_threads
from tsformer.baselines import find, load_class
from tsformer.studies.design.study import Study, Trial
from tsformer.studies.run.foreign import exits_as_errors
from tsformer.studies.run.problem import Problem
from tsformer.studies.run.trial import (
    fit_trial,
    other_series,
    read_back,
    start_run,
    warm_up,
    warm_up_method,
)
from tsformer.tracking import RunStore, TrackedRun
from tsformer.tracking.claims import Claims
from tsformer.tracking.leases import LEASE_SECONDS, beating
from tsformer.tracking.run import RunEnded
from tsformer.training.callbacks import Callback

__all__ = ["MAX_LOSSES", "Task", "TrialResult", "lost", "run_task"]

#: A fit during which its process ended this often is recorded as failed.
MAX_LOSSES = 3


@dataclass(frozen=True)
class Task:
    """A trial to be run, in whichever process."""

    trial: Trial
    study: Study
    claims: Claims
    parent_id: str
    failed: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    threads: int | None = None
    driver: int | None = None
    mark: str = ""
    time_limit: float | None = None
    asked: str = field(default="", init=False)
    library: str = field(default="", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "asked", self.key)
        object.__setattr__(self, "library", self._library())

    def other_versions(self) -> str:
        """Return why this process would fit something else than was asked for; "" if it would not.

        Its fit would be recorded under a key of its own, and its row beside those of other keys.
        """
        if self.key == self.asked:
            return ""
        return (
            f"OtherVersions: this worker has {self._library()}, and the comparison began with "
            f"{self.library}; a fit is found by the version of its library, so both must have the "
            "same: install it on the worker, or copy your own module there"
        )

    def _library(self) -> str:
        method = self.study.method(self.trial.method)
        if method is None:
            return f"tsformer {tsformer.__version__}"
        return str(method.configuration()["library"])

    @property
    def store(self) -> RunStore:
        """The store for its run."""
        return self.claims.store

    @property
    def key(self) -> str:
        """What identifies this fit among all others."""
        return self.study.key(*self.trial)

    def problem(self) -> Problem:
        """Load the data to train and score on."""
        size = self.study.train_size_of(self.trial.variant)
        return Problem.load(self.trial.dataset, self.trial.resample, size, self.trial.seed)


@dataclass(frozen=True)
class TrialResult:
    """The outcome of a trial: a row of the results, or an error.

    `recorded` says whether the MLflow store has its whole run; `elsewhere`, that there is neither
    row nor error so far, since another call is at it.
    """

    trial: Trial
    row: dict[str, Any] | None = None
    error: str = ""
    recorded: bool = True
    seconds: float = 0.0
    elsewhere: bool = False


def run_task(task: Task, callbacks: Sequence[Callback] = ()) -> TrialResult:
    """Run the trial unless the store has it or another call runs it.

    A fit that raises gives a result with its error.
    """
    _prepare_process(task)
    if other := task.other_versions():
        return TrialResult(task.trial, None, other)
    with open(os.devnull, "w") as nowhere:
        _mark(task, nowhere)
        try:
            return _run(task, callbacks, nowhere)
        finally:
            if task.time_limit is not None:
                faulthandler.cancel_dump_traceback_later()
            if task.mark:
                Path(task.mark).unlink(missing_ok=True)


def _mark(task: Task, nowhere: TextIO) -> None:
    """Mark a fit as running; end this process after its time limit."""
    if task.mark:
        Path(task.mark).touch()
    if task.time_limit is not None:
        # A thread of C: a fit that hangs may never release the interpreter.
        faulthandler.dump_traceback_later(task.time_limit, exit=True, file=nowhere)


def _run(task: Task, callbacks: Sequence[Callback], nowhere: TextIO) -> TrialResult:
    """Run the trial of a task in a prepared process."""
    run = None
    begun = time.perf_counter()
    try:
        known, lease_seconds = _look_up(task)
        if known is not None:
            return known
        with exits_as_errors():
            for module in task.modules:
                importlib.import_module(module)
            problem = task.problem()
            if _imported(task) | _warmed(problem) | _compiled(task, problem):
                begun = time.perf_counter()
                _mark(task, nowhere)
        run = _start(task, lease_seconds)
        if not task.claims.confirm(task.key, run):
            return TrialResult(task.trial, elsewhere=True)
        with beating([run]):
            row = fit_trial(task.trial, task.study, problem, run, callbacks)
    except RunEnded:  # whoever ended it has taken it over
        return TrialResult(task.trial, elsewhere=True)
    except Exception as error:  # one failing fit must not cost the others
        message = f"{type(error).__name__}: {error}"
        if run is None:  # nothing was fitted yet, and there is no run to record that
            return _failed(task, message)
        return TrialResult(task.trial, None, message, not run.lost)
    return TrialResult(task.trial, row, "", not run.lost, time.perf_counter() - begun)


def lost(task: Task) -> TrialResult:
    """Record a fit as failed during which its process kept ending."""
    error = (
        f"ProcessLost: its worker process ended {MAX_LOSSES} times during this fit, as it does "
        "when the system kills it for using too much memory"
    )
    return _failed(task, error)


def timed_out(task: Task) -> TrialResult:
    """Record a fit as failed that took longer than its limit."""
    return _failed(task, f"FitTimeLimit: the fit had not ended after {task.time_limit:g} seconds")


def _failed(task: Task, error: str) -> TrialResult:
    """Record a fit as failed that has no run of its own yet."""
    run = _start(task)
    run.tags({"tsformer.error": error})
    run.end("FAILED")
    return TrialResult(task.trial, None, error, not run.lost)


def _start(task: Task, lease_seconds: float = LEASE_SECONDS) -> TrackedRun:
    """Create the run of a fit, which claims it."""
    parent = TrackedRun(None, task.parent_id)
    tags = task.claims.tags(lease_seconds)
    return start_run(task.trial, task.study, task.store, parent, tags)


def _warmed(problem: Problem) -> bool:
    """Warm up a process that has not fitted before: its first fit would look slow."""
    if _WARM:
        return False
    warm_up(problem)
    _WARM.append(True)
    return True


def _imported(task: Task) -> bool:
    """Import the class of a method, which may take longer than its fit; whether that was done."""
    method = task.study.method(task.trial.method)
    if method is None or method.estimator in _IMPORTED:
        return False
    load_class(method.estimator)
    _IMPORTED.add(method.estimator)
    return True


def _compiled(task: Task, problem: Problem) -> bool:
    """Let a method compile what it needs, once a process for one channel and once for several."""
    method = task.study.method(task.trial.method)
    if method is None or not find(method.estimator).compiled:
        return False
    which = (method.class_name, repr(method.parameters), len(problem.X_train[0]) > 1)
    if which in _COMPILED:
        return False
    warm_up_method(method, problem)
    _COMPILED.add(which)
    return True


def _look_up(task: Task) -> tuple[TrialResult | None, float]:
    """Return the result of this fit if there is nothing to fit here, and the lease to claim it."""
    try:
        known = task.claims.look_up(task.key)
        row = known.finished and read_back(task.trial, task.study, known.finished)
    except Exception:  # the store is unreachable: fit anyway; the run that cannot be created warns
        return None, LEASE_SECONDS
    if row:
        # Of a driver on another machine, while this one ran.
        said = other_series(task.trial, known.finished, task.claims.store)
        found = TrialResult(task.trial, None, said) if said else TrialResult(task.trial, row)
        return found, known.lease_seconds
    result = None
    new = [run for run in known.failed if run.info.run_id not in task.failed]
    if new:  # in another call, since this one began
        error = new[-1].data.tags.get("tsformer.error", "the run has no message")
        result = TrialResult(task.trial, None, error)
    elif known.held:
        result = TrialResult(task.trial, elsewhere=True)
    elif known.losses >= MAX_LOSSES:
        result = lost(task)
    return result, known.lease_seconds


def _prepare_process(task: Task) -> None:
    if task.threads is not None:
        limit_threads(task.threads)
    if task.driver is not None and task.driver not in _FOLLOWED:
        _FOLLOWED.add(task.driver)
        # Ctrl-C reaches the whole process group; only the driver decides what its workers do.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_follow, args=(task.driver,), daemon=True).start()


#: The driver of this process, once it is being watched; whether the process has fitted before;
#: what it has imported and compiled.
_FOLLOWED: set[int] = set()
_WARM: list[bool] = []
_IMPORTED: set[str] = set()
_COMPILED: set[tuple[str, str, bool]] = set()


def _follow(driver: int) -> None:
    """End this process with its driver: nobody would read what its fit gives."""
    while os.getppid() == driver:
        time.sleep(0.5)
    os._exit(1)
