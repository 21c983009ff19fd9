"""A task, in any process: look up its fit, or start a run and fit."""

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tsformer._warnings import warn_caller
from tsformer.baselines import PanelClassifier, find, load_class
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.series import unobserved
from tsformer.plots import encoding_colors
from tsformer.studies.design.methods import Method
from tsformer.studies.design.study import Study, Trial
from tsformer.studies.run.lock import STUDY_TAG
from tsformer.studies.run.problem import Problem
from tsformer.studies.run.trial import exits_as_errors, fit_trial, other_series, read_back
from tsformer.tracking import RunStore, TrackedRun
from tsformer.training.run import Callback


@dataclass(frozen=True)
class Task:
    """A trial, with everything that another process needs to run it."""

    trial: Trial
    study: Study
    store: RunStore
    parent_id: str
    key: str = field(default="", init=False)
    library: str = field(default="", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.study.key(*self.trial))
        object.__setattr__(self, "library", self._library())

    def other_versions(self) -> str:
        """Return the error of a worker whose libraries differ from the driver's, else ""."""
        if self.study.key(*self.trial) == self.key:
            return ""
        return (
            f"OtherVersions: this worker has {self._library()}, and the comparison began with "
            f"{self.library}; a fit is found by the version of its library, so both must have the "
            "same: install it on the worker, or copy your own module there"
        )

    def _library(self) -> str:
        library = self.study.method(self.trial.method).configuration()["library"]
        return ", ".join([library, *self.study.code_of(self.trial.method)])


@dataclass(frozen=True)
class TrialResult:
    """A row of the results, or an error; `recorded` if the MLflow store has the whole run."""

    trial: Trial
    row: dict[str, Any] | None = None
    error: str = ""
    recorded: bool = True


def run_task(
    task: Task,
    callbacks: Sequence[Callback] = (),
    *,
    on_begin: Callable[[], None] = lambda: None,
) -> TrialResult:
    """Return the result of a task; fit unless the store has a finished run.

    Only the driver passes callbacks. `on_begin` is called after imports and compilation.
    """
    run = None
    try:
        with exits_as_errors(interrupts=not callbacks):
            for module in task.study.imports:
                importlib.import_module(module)
            if error := task.other_versions():
                return TrialResult(task.trial, None, error)
            try:  # a cluster repeats fits, and another study may have finished it
                runs = task.store.runs("FINISHED", {"tsformer.key": task.key})
            except Exception:  # the store is unreachable: the run that cannot be created warns
                runs = []
            if runs:
                error = other_series(task.trial, runs[0], task.store)
                row = None if error else read_back(task.trial, task.study, runs[0])
                return TrialResult(task.trial, row, error)
            trial, size = task.trial, task.study.train_size_of(task.trial.variant)
            problem = Problem.load(trial.dataset, trial.resample, size, trial.seed)
            method = task.study.method(trial.method)
            load_class(method.estimator)  # before it is timed
            _warm_up(method, problem)
        run = _start(task)
        on_begin()
        row = fit_trial(task.trial, task.study, problem, run, callbacks)
    except Exception as error:  # one failing fit must not cost the others
        message = f"{type(error).__name__}: {error}"
        if run is None:
            return failed(task, message)
        return TrialResult(task.trial, None, message, not run.lost)
    return TrialResult(task.trial, row, "", not run.lost)


def failed(task: Task, error: str) -> TrialResult:
    """Record a fit as failed that has no run yet, or a lost one."""
    run = _start(task)
    run.tags({"tsformer.error": error})
    run.end("FAILED")
    return TrialResult(task.trial, None, error, not run.lost)


def _start(task: Task) -> TrackedRun:
    """Create the run of a fit."""
    trial, study = task.trial, task.study
    return task.store.start(
        str(trial).replace("  ", " "),
        kind="fit",
        key=study.key(*trial),
        parent=TrackedRun(None, task.parent_id),
        tags={
            "tsformer.configuration": study.hash_of(trial.variant, trial.method),
            "mlflow.runColor": encoding_colors(study.names)[trial.method],
            STUDY_TAG: study.name,
        },
    )


#: Warm-ups of this process, so that the first fit is timed like later fits.
_WARM: set[tuple[str, str, bool]] = set()
#: Size of the fit in which a method compiles.
_FEW_CLASSES, _FEW_SERIES = 4, 3


def _warm_up(method: Method, problem: Problem) -> None:
    """Fit before the first timed fit: ours in a process, a method that compiles for its shape."""
    baseline, ours = find(method.estimator), ("tsformer", "", False)
    if method.ours and ours not in _WARM:
        classifier = TSTransformerClassifier("none", d_model=8, n_heads=1, max_epochs=1)
        classifier.fit(problem.X_train, problem.y_train)
        _WARM.add(ours)
    variant = (method.class_name, repr(method.parameters), len(problem.X_train[0]) > 1)
    if not baseline.compiled or variant in _WARM:
        return
    y = problem.y_train
    some = np.unique(y)[:_FEW_CLASSES]
    few = np.concatenate([np.flatnonzero(y == label)[:_FEW_SERIES] for label in some])
    try:
        with unobserved():
            quick = PanelClassifier(method.estimator, {**method.given, **baseline.quick}, 0)
            X = [problem.X_train[i] for i in few]
            quick.fit(X, y[few]).predict(X)
    except Exception as error:  # the fit on all series may succeed
        warn_caller(
            f"the first fit of {method.name} includes the time of compiling it, since a fit on "
            f"{len(few)} series failed: {type(error).__name__}: {error}"
        )
    _WARM.add(variant)
