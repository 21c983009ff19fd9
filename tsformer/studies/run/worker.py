"""What a worker does: one task, a fit under its key, which may be asked for again at any time."""

from __future__ import annotations

import importlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tsformer.studies.fit import fit_cell, fit_cells, read_back, start_run, warm_up
from tsformer.studies.problem import Problem
from tsformer.studies.study import Cell, Study
from tsformer.tracking import RunStore, TrackedRun
from tsformer.tracking.run import RunEnded
from tsformer.training.callbacks import Callback

__all__ = ["MOST_LOSSES", "Outcome", "Task", "lost", "run_task", "run_together"]

#: A fit that took its process with it so often is recorded as failed.
MOST_LOSSES = 3


@dataclass(frozen=True)
class Task:
    """A fit to be done, wherever it is.

    Attributes
    ----------
    cell, study
        What to fit.
    store : RunStore
        Where its run goes.
    parent_id : str
        The study's run, "" if the store failed.
    session : str
        The call of `compare` that asks for it.
    modules : tuple of str
        Modules whose import registers the encodings.
    threads : int or None
        Threads for torch; None leaves them as they are.
    driver : int or None
        The process that started this worker for itself, and that it must not outlive.
    mark : str
        A file that is there while the fit is under way.
    """

    cell: Cell
    study: Study
    store: RunStore
    parent_id: str
    session: str
    modules: tuple[str, ...] = ()
    threads: int | None = None
    driver: int | None = None
    mark: str = ""

    @property
    def key(self) -> str:
        """What tells this fit from all others."""
        return self.study.key(*self.cell)


@dataclass(frozen=True)
class Outcome:
    """What came of a task: a row of the results, or an error."""

    cell: Cell
    row: dict[str, Any] | None = None
    error: str = ""
    recorded: bool = True
    seconds: float = 0.0


def run_task(task: Task, callbacks: Sequence[Callback] = ()) -> Outcome:
    """Do the fit, unless the store has it. A fit that raises becomes an Outcome with its error."""
    _prepare_process(task)
    if task.mark:
        Path(task.mark).touch()
    run = None
    begun = time.perf_counter()
    try:
        earlier, losses = _look(task)
        if earlier is not None:
            return Outcome(task.cell, earlier)
        if losses >= MOST_LOSSES:
            return lost(task)
        for module in task.modules:
            importlib.import_module(module)
        problem = Problem.load(task.cell.dataset, task.cell.resample)
        if _warmed(problem):
            begun = time.perf_counter()
        run = start_run(task.cell, task.study, task.store, TrackedRun(None, task.parent_id))
        row = fit_cell(task.cell, task.study, problem, run, callbacks)
    except RunEnded as ended:  # a later driver does the fit; that it was this one's is of no use
        return Outcome(task.cell, None, f"RunEnded: {ended}")
    except Exception as error:  # one fit that fails must not cost the others
        message = f"{type(error).__name__}: {error}"
        if run is None:  # nothing was fitted yet, and no run could say so by itself
            return _failed(task, message)
        return Outcome(task.cell, None, message, not run.lost)
    finally:
        if task.mark:
            Path(task.mark).unlink(missing_ok=True)
    return Outcome(task.cell, row, "", not run.lost, time.perf_counter() - begun)


def run_together(tasks: Sequence[Task], callbacks: Sequence[Callback] = ()) -> list[Outcome]:
    """Do fits that differ in their seed alone as one, where that goes well; else each by itself.

    What the store has already, and what fails, is left to `run_task`, which knows what to do.
    """
    new = [task for task in tasks if _look(task) == (None, 0)]
    done: list[Outcome] = []
    if len(new) > 1:
        task = new[0]
        parent = TrackedRun(None, task.parent_id)
        try:
            problem = Problem.load(task.cell.dataset, task.cell.resample)
            _warmed(problem)
            runs = [start_run(each.cell, each.study, each.store, parent) for each in new]
            begun = time.perf_counter()
            rows = fit_cells([each.cell for each in new], task.study, problem, runs, callbacks)
        except Exception as error:
            warnings.warn(
                f"{len(new)} seeds of {task.cell.encoding} on {task.cell.dataset} could not be "
                f"fitted as one, and are fitted one by one: {type(error).__name__}: {error}",
                stacklevel=2,
            )
        else:
            seconds = (time.perf_counter() - begun) / len(new)
            done = [
                Outcome(each.cell, row, "", not run.lost, seconds)
                for each, row, run in zip(new, rows, runs, strict=True)
            ]
    found = {outcome.cell for outcome in done}
    return [*done, *(run_task(task, callbacks) for task in tasks if task.cell not in found)]


def lost(task: Task) -> Outcome:
    """Record as failed a fit that takes its process with it."""
    error = (
        f"ProcessLost: its worker process ended {MOST_LOSSES} times in the middle of this fit; a "
        "worker that runs out of memory is killed so"
    )
    return _failed(task, error)


def _failed(task: Task, error: str) -> Outcome:
    """Record as failed a fit that has no run of its own yet."""
    run = start_run(task.cell, task.study, task.store, TrackedRun(None, task.parent_id))
    run.tags({"tsformer.error": error})
    run.end("FAILED")
    return Outcome(task.cell, None, error, not run.lost)


def _warmed(problem: Problem) -> bool:
    """Fit for nothing in a process that never fitted: its first fit would look slow."""
    if _WARM:
        return False
    warm_up(problem)
    _WARM.append(True)
    return True


def _look(task: Task) -> tuple[dict[str, Any] | None, int]:
    """Return the row of this fit if the store has it, and how many processes it cost so far."""
    try:
        found = task.store.runs("FINISHED", {"tsformer.key": task.key})
        if found:
            return read_back(task.cell, task.study, found[0]), 0
        return None, task.store.count_lost(task.key, task.session)
    except Exception:  # a store that is away: fit, and the run that cannot be made warns
        return None, 0


def _prepare_process(task: Task) -> None:
    if task.threads is not None and torch.get_num_threads() != task.threads:
        torch.set_num_threads(task.threads)
    if task.driver is not None and task.driver not in _FOLLOWED:
        _FOLLOWED.add(task.driver)
        # Ctrl-C reaches the whole group; the driver alone decides what becomes of its workers.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_follow, args=(task.driver,), daemon=True).start()


#: The driver of this process, once its end is watched for; whether the process fitted before.
_FOLLOWED: set[int] = set()
_WARM: list[bool] = []


def _follow(driver: int) -> None:
    """End this process with its driver, or its fit would meet the one of the next driver."""
    while os.getppid() == driver:
        time.sleep(0.5)
    os._exit(1)
