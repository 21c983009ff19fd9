"""One trial of a study, in any process: fitted, scored once, tracked, and returned as a row."""

import importlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import torch

import tsformer
from tsformer._devices import resolve_device
from tsformer._files import csv_cell
from tsformer._warnings import warn_caller
from tsformer.baselines.reader import PanelClassifier
from tsformer.baselines.resolve import TRANSFORMER, load_class
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.series_estimator import unobserved
from tsformer.plots import encoding_colors, plot_confusion, plot_reliability
from tsformer.studies.design.methods import Method
from tsformer.studies.design.study import WHOLE, Study, Trial
from tsformer.studies.run.lock import STUDY_TAG
from tsformer.studies.run.problem import Problem, n_train, series_digest, taken
from tsformer.tracking import MLflowTracker, RunStore, TrackedRun
from tsformer.tracking.options import without_credentials
from tsformer.tracking.scoring import classification_scores, label_scores
from tsformer.tracking.store import commit
from tsformer.tracking.tracker import peak_memory_mb, reset_peak_memory
from tsformer.training.training_run import Callback, suppress_interruption_warning

SCORE_COLUMNS = (
    *("accuracy", "balanced_accuracy", "f1_macro"),
    *("log_loss", "brier_score", "calibration_error"),
)
COST_COLUMNS = (
    *("fit_seconds", "fit_cpu_seconds", "seconds_per_epoch", "n_epochs", "n_parameters"),
    *("n_parameters_encoding", "peak_memory_mb", "predict_seconds", "predict_memory_mb"),
)
#: Column of the results -> metric of the MLflow run.
_METRICS = {name: f"test/{name}" for name in SCORE_COLUMNS} | {name: name for name in COST_COLUMNS}
#: Columns of the results that are integers.
COUNTS = ("n_epochs", "n_parameters", "n_parameters_encoding")
# Tags of a fit: hash of its data set, and how the series were made readable.
_SERIES, _HELPED = "tsformer.series", "tsformer.helped"


def result_columns(study: Study) -> list[str]:
    """Return the columns of the results, in order."""
    return list(row_of(study.trials()[0], study, "", {}, {"tsformer.version": ""}))


def name_column(study: Study) -> str:
    """Return the column with the names of encodings or methods."""
    return "method" if study.methods else "encoding"


def describe(trial: Trial, study: Study) -> dict[str, Any]:
    """Return the columns of the results that identify a trial."""
    row: dict[str, Any] = {"dataset": trial.dataset, name_column(study): trial.method}
    row |= {name: plain(value) for name, value in study.variants[trial.variant].items()}
    if study.train_sizes:
        size = study.train_size_of(trial.variant)
        row["n_train"] = n_train(trial.dataset, trial.resample, size)
    return {**row, "seed": trial.seed, "resample": trial.resample}


def plain(value: Any) -> Any:
    """Return a value that fits into one cell of a table."""
    return json.dumps(value) if isinstance(value, (dict, list, tuple)) else value


def row_of(
    trial: Trial, study: Study, run_id: str, metrics: Mapping[str, float], tags: Mapping[str, str]
) -> dict[str, Any]:
    """Return the row of a fit from its run; metrics that the run lacks are NaN."""
    return {
        **describe(trial, study),
        **{name: metrics.get(metric, np.nan) for name, metric in _METRICS.items()},
        **({"helped": tags.get(_HELPED, "")} if study.methods else {}),
        "configuration": study.hash_of(trial.variant, trial.method),
        "version": tags["tsformer.version"],
        "commit": tags.get("tsformer.commit", ""),
        "run_id": run_id,
    }


def stored_row(trial: Trial, study: Study, run: Any, store: RunStore) -> dict[str, Any]:
    """Return the row of a run in the store; ValueError if the data set has changed since."""
    if run.data.tags.get(_SERIES) != series_digest(trial.dataset):
        where = f"run {run.info.run_id} of {without_credentials(store.uri)} fitted {trial}"
        advice = "give the data set another name, or compare in another --experiment"
        raise ValueError(f"{trial.dataset} has changed since {where}: {advice}")
    return row_of(trial, study, run.info.run_id, run.data.metrics, run.data.tags)


@dataclass(frozen=True)
class TrialResult:
    """A row of the results, or an error; `recorded` if the MLflow store has the whole run."""

    trial: Trial
    row: dict[str, Any] | None = None
    error: str = ""
    recorded: bool = True


@dataclass(frozen=True)
class Task:
    """A trial, with everything that another process needs to run it."""

    trial: Trial
    study: Study
    store: RunStore
    parent_id: str
    key: str = field(default="", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", self.study.key(*self.trial))

    @property
    def method(self) -> Method:
        """The method of the trial."""
        return self.study.method(self.trial.method)

    @property
    def problem_args(self) -> tuple[str, int, str, int]:
        """The arguments of `Problem.load`."""
        dataset, _, seed, variant, resample = self.trial
        return dataset, resample, self.study.train_size_of(variant), seed

    def start(self) -> TrackedRun:
        """Create the run of the fit."""
        trial, study = self.trial, self.study
        tags = {
            "tsformer.configuration": study.hash_of(trial.variant, trial.method),
            "mlflow.runColor": encoding_colors(study.names)[trial.method],
            STUDY_TAG: study.name,
        }
        name, parent = str(trial).replace("  ", " "), TrackedRun(None, self.parent_id)
        return self.store.start(name, kind="fit", key=self.key, parent=parent, tags=tags)

    def failed(self, error: str) -> TrialResult:
        """Record the fit as failed: it has no run yet, or a lost one."""
        run = self.start()
        run.tags({"tsformer.error": error})
        run.end("FAILED")
        return TrialResult(self.trial, None, error, not run.lost)

    def fit(
        self, problem: Problem, run: TrackedRun, callbacks: Sequence[Callback] = ()
    ) -> dict[str, Any]:
        """Train on the train split, score the test split once, log both, and end the run."""
        method, trial, study = self.method, self.trial, self.study
        # MLflow shows these figures side by side; they are drawn after the fit has been timed.
        tracker = MLflowTracker(mlflow_run=run, pictures=True)
        estimator, params = method.estimator, study.parameters_of(trial.variant, trial.method)
        if method.transformer:
            estimator, params["encoding"] = TRANSFORMER, study.encoding_of(trial.method)
            params["callbacks"] = [tracker, *callbacks]
        with run, suppress_interruption_warning(), unobserved():
            # Other libraries stay on the CPU.
            device = resolve_device(params.get("device", "auto") if method.ours else "cpu")
            classifier = PanelClassifier(estimator, params, trial.seed)
            self.log_inputs(problem, run)
            reset_peak_memory(device)
            begun, used = time.perf_counter(), sum(os.times()[:4])  # with ended children
            classifier.fit(problem.X_train, problem.y_train, groups=problem.groups_train)
            cost = {
                "fit_seconds": time.perf_counter() - begun,
                "fit_cpu_seconds": sum(os.times()[:4]) - used,
                "peak_memory_mb": peak_memory_mb(device),
            }
            if method.ours and was_interrupted(classifier.estimator_):
                raise KeyboardInterrupt  # fit keeps its state, but an incomplete fit is no result
            run.metrics({k: value for k, value in cost.items() if k not in tracker.summary_})
            _score(classifier, problem, run, device)
            tags = {_HELPED: classifier.helped_} if study.methods else {}
            run.tags(tags)
            tags |= {"tsformer.version": tsformer.__version__, "tsformer.commit": commit()}
            return row_of(trial, study, run.run_id, run.scores, tags)

    def log_inputs(self, problem: Problem, run: TrackedRun) -> None:
        """Log the configuration of the trial and its data."""
        trial, study = self.trial, self.study
        named: dict[str, Any] = {"dataset": trial.dataset}
        named |= {"method": trial.method} if study.methods else {}
        named |= {"encoding": study.encoding_of(trial.method)} if self.method.transformer else {}
        named |= {"seed": trial.seed, "resample": trial.resample}
        if (size := self.problem_args[2]) != WHOLE:
            named |= {"train_size": size, "n_train": len(problem.y_train)}
        configuration = study.configuration(trial.variant, trial.method)
        run.json({**named, **configuration}, "configuration.json")
        # A parameter of another class may be called `dataset` or `seed`.
        params = configuration.pop("parameters", {})
        apart = {(f"parameters.{k}" if k in named else k): v for k, v in params.items()}
        run.params({**named, **configuration, **apart})
        for context in ("train", "test"):
            X, y = (getattr(problem, f"{name}_{context}") for name in "Xy")
            loader = f"tsformer.studies.run.problem.Problem.load{self.problem_args}.X_{context}"
            run.dataset(X, y, name=trial.dataset, context=context, loader=loader)
        run.tags({_SERIES: series_digest(trial.dataset)})


def was_interrupted(estimator: Any) -> bool:
    """Return whether Ctrl-C ended a fit: our estimators keep an incomplete model."""
    transformer = getattr(estimator, "transformer_", estimator)  # of an ensemble
    if transformer is None:  # below the gate
        return estimator.time_limit is None and not estimator.unexplained_ < estimator.gate
    return any(history.interrupted for history in getattr(transformer, "histories_", ()))


def _score(
    classifier: PanelClassifier, problem: Problem, run: TrackedRun, device: torch.device
) -> None:
    """Predict the test split once; log the predictions, their scores and costs."""
    classes, p, true = classifier.classes_, None, problem.y_test
    reset_peak_memory(device)
    begun = time.perf_counter()
    try:
        if classifier.has_probabilities_:
            p = classifier.predict_proba(problem.X_test)
    except AttributeError:
        if classifier.has_probabilities_:  # an error of another cause
            raise
    predicted = classifier.predict(problem.X_test) if p is None else classes[p.argmax(axis=1)]
    seconds, memory = time.perf_counter() - begun, peak_memory_mb(device)
    table = pd.DataFrame({"true": true, "predicted": predicted}, dtype=object).map(csv_cell)
    run.figure(lambda: plot_confusion(true, predicted, classes), "confusion.png")
    scores = label_scores(true, predicted) if p is None else classification_scores(true, p, classes)
    if p is not None:
        table[[f"p({label})" for label in classes]] = p
        run.figure(lambda: plot_reliability(true, p, classes), "reliability.png")
    scores |= {"predict_seconds": seconds, "predict_memory_mb": memory}
    run.metrics({_METRICS[name]: value for name, value in scores.items()})
    run.text(table.to_csv(index_label="case", lineterminator="\n"), "predictions.csv")


def run_task(
    task: Task,
    callbacks: Sequence[Callback] = (),
    *,
    on_begin: Callable[[], None] = lambda: None,
) -> TrialResult:
    """Return the result of a task; call `on_begin` after imports and compilation."""
    study, trial, run = task.study, task.trial, None
    try:
        for module in study.imports:
            importlib.import_module(module)
        if study.key(*trial) != task.key:
            here = study.configuration(trial.variant, trial.method)
            versions = f"this worker has {here.get('library', here)}, and the comparison another"
            return TrialResult(
                trial, error=f"OtherVersions: {versions}; install that on the worker"
            )
        try:  # a cluster repeats fits, and another study may have finished it
            runs = task.store.runs("FINISHED", {"tsformer.key": task.key})
        except Exception:  # the store is unreachable: the run that cannot be created warns
            runs = []
        if runs:
            return TrialResult(trial, stored_row(trial, study, runs[0], task.store))
        problem = Problem.load(*task.problem_args)
        load_class(task.method.estimator)  # before it is timed
        _warm_up(task.method, problem)
        run = task.start()
        on_begin()
        return TrialResult(trial, task.fit(problem, run, callbacks), "", not run.lost)
    except (Exception, SystemExit) as error:  # one failing fit must not cost the others
        message = f"{type(error).__name__}: {error}"
        return TrialResult(trial, None, message, not run.lost) if run else task.failed(message)


#: Warm-ups of this process, so that the first fit is timed like later fits.
WARMED_UP: set[object] = set()


@unobserved()
def _warm_up(method: Method, problem: Problem) -> None:
    """Fit before the first timed fit: ours in a process, a method that compiles for its shape."""
    baseline, X, y = method.baseline, problem.X_train, problem.y_train
    if method.ours and "ours" not in WARMED_UP:
        TSTransformerClassifier("none", d_model=8, n_heads=1, max_epochs=1).fit(X, y)
        WARMED_UP.add("ours")
    variant = (baseline.path, repr(method.parameters), len(X[0]) > 1)
    if not baseline.compiled or variant in WARMED_UP:
        return
    few = np.concatenate([np.flatnonzero(y == label)[:3] for label in np.unique(y)[:4]])
    try:
        quick = PanelClassifier(method.estimator, {**method.overrides, **baseline.quick}, 0)
        quick.fit(taken(X, few), y[few]).predict(taken(X, few))
    except Exception as error:  # the fit on all series may succeed
        warn_caller(f"the first fit of {method.name} includes its compilation, since {error}")
    WARMED_UP.add(variant)
