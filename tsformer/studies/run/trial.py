"""One trial of a study: fitted, scored once, tracked, and returned as a row of the results."""

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

import tsformer
from tsformer._devices import resolve_device
from tsformer._files import csv_cell
from tsformer.baselines import PanelClassifier
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.series import unobserved
from tsformer.plots import plot_confusion, plot_reliability
from tsformer.studies.design.study import Study, Trial
from tsformer.studies.design.study_file import WHOLE
from tsformer.studies.run.problem import Problem, n_train, series_digest
from tsformer.tracking import MLflowTracker, RunStore, TrackedRun
from tsformer.tracking.run import RunEnded
from tsformer.tracking.scores import classification_scores, label_scores
from tsformer.tracking.settings import without_credentials
from tsformer.tracking.store import commit
from tsformer.tracking.tracker import peak_memory_mb, reset_peak_memory
from tsformer.training.run import Callback, TrainingState, suppress_interruption_warning

#: Tag of a fit: hash of its data set.
SERIES = "tsformer.series"

_SCORES = (
    *("accuracy", "balanced_accuracy", "f1_macro"),
    *("log_loss", "brier_score", "calibration_error"),
)
_COSTS = (
    *("fit_seconds", "fit_cpu_seconds", "seconds_per_epoch", "n_epochs", "n_parameters"),
    *("n_parameters_encoding", "peak_memory_mb", "predict_seconds", "predict_memory_mb"),
)
#: Column of the results -> metric of the MLflow run.
_METRICS = {name: f"test/{name}" for name in _SCORES} | {name: name for name in _COSTS}

#: Columns of the results that are integers.
COUNTS = ("n_epochs", "n_parameters", "n_parameters_encoding")

# Tag of a run: how the series were made readable.
_HELPED = "tsformer.helped"

# Minimum time between checks whether somebody ended the run: each takes some milliseconds.
_CHECK_SECONDS = 5.0


def columns(study: Study) -> list[str]:
    """Return the columns of the results, in order."""
    counted = ["n_train"] if study.train_sizes else []
    trial = ["dataset", name_column(study), *study.varied, *counted, "seed", "resample"]
    others = ["helped"] if study.methods else []
    return [*trial, *_METRICS, *others, "configuration", "version", "commit", "run_id"]


def name_column(study: Study) -> str:
    """Return the column with the names of encodings or methods."""
    return "method" if study.methods else "encoding"


def other_series(trial: Trial, run: Any, store: RunStore) -> str:
    """Return an error if the data set has changed since the fit, else ""."""
    if run.data.tags.get(SERIES) == series_digest(trial.dataset):
        return ""
    return (
        f"{trial.dataset} has changed since run {run.info.run_id} of "
        f"{without_credentials(store.uri)} fitted {trial}: give the data set another name, or "
        "compare in another --experiment"
    )


@contextmanager
def exits_as_errors(*, interrupts: bool) -> Iterator[None]:
    """Raise RuntimeError for `sys.exit`, and with `interrupts` for KeyboardInterrupt."""
    try:
        yield
    except SystemExit as error:
        raise RuntimeError(
            f"its code called sys.exit({error.code!r}), which ended this fit only"
        ) from error
    except KeyboardInterrupt as error:
        if not interrupts:
            raise
        raise RuntimeError(
            "its code raised KeyboardInterrupt, which ended this fit only"
        ) from error


def fit_trial(
    trial: Trial,
    study: Study,
    problem: Problem,
    run: TrackedRun,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Train on the train split, score the test split once, log both, and end the run."""
    with run, exits_as_errors(interrupts=not callbacks), suppress_interruption_warning():
        _log_inputs(trial, study, problem, run)
        if study.method(trial.method).transformer:
            return _fit_transformer(trial, study, problem, run, callbacks)
        return _fit_other(trial, study, problem, run)


def _fit_transformer(
    trial: Trial,
    study: Study,
    problem: Problem,
    run: TrackedRun,
    callbacks: Sequence[Callback],
) -> dict[str, Any]:
    """Fit and score the transformer, and return its row."""
    # MLflow shows these figures side by side; they are drawn after the fit has been timed.
    tracker = MLflowTracker(mlflow_run=run, pictures=True)
    classifier = TSTransformerClassifier(
        study.encoding_of(trial.method),
        **study.parameters_of(trial.variant, trial.method),
        random_state=trial.seed,
        callbacks=[tracker, _StopWithRun(run), *callbacks],
    )
    used = _cpu_seconds()
    classifier.fit(problem.X_train, problem.y_train, groups=problem.groups_train)
    cost = {"fit_cpu_seconds": _cpu_seconds() - used}
    if classifier.history_.interrupted:
        raise KeyboardInterrupt  # fit keeps its state, but an incomplete fit is no result
    run.metrics(cost)
    scores = _score(classifier, problem, run, resolve_device(classifier.device))
    return _row(trial, study, run, {**scores, **tracker.summary_, **cost})


def _fit_other(trial: Trial, study: Study, problem: Problem, run: TrackedRun) -> dict[str, Any]:
    """Fit and score a classifier other than the transformer, and return its row."""
    method = study.method(trial.method)
    classifier = PanelClassifier(method.estimator, method.given, trial.seed)
    # Other libraries stay on the CPU.
    device = resolve_device(method.parameters.get("device", "auto") if method.ours else "cpu")
    with unobserved():
        reset_peak_memory(device)
        begun, used = time.perf_counter(), _cpu_seconds()
        classifier.fit(problem.X_train, problem.y_train, groups=problem.groups_train)
        fit = {
            "fit_seconds": time.perf_counter() - begun,
            "fit_cpu_seconds": _cpu_seconds() - used,
            "peak_memory_mb": peak_memory_mb(device),
        }
        if _interrupted(classifier.estimator_):
            raise KeyboardInterrupt
        run.metrics(fit)
        scores = _score(classifier, problem, run, device)
    run.tags({_HELPED: classifier.helped_})
    return _row(trial, study, run, {**scores, **fit}, helped=classifier.helped_)


def _cpu_seconds() -> float:
    """Return the processor time of this process and its ended children."""
    return sum(os.times()[:4])


def _interrupted(estimator: Any) -> bool:
    """Return whether Ctrl-C ended a fit: our estimators keep an incomplete model."""
    if not any(each.__module__.startswith("tsformer.") for each in type(estimator).__mro__):
        return False  # other libraries use these names too
    part = getattr(estimator, "transformer_", estimator)  # of an ensemble
    if part is None:  # below the gate there is no transformer to train
        return estimator.time_limit is None and not estimator.unexplained_ < estimator.gate
    return any(history.interrupted for history in getattr(part, "histories_", ()))


def _row(
    trial: Trial,
    study: Study,
    run: TrackedRun,
    values: Mapping[str, float],
    *,
    helped: str = "",
) -> dict[str, Any]:
    if run.ended():
        raise RunEnded(f"run {run.run_id} was ended by somebody else")
    return {
        **describe(trial, study),
        **dict.fromkeys(_METRICS, np.nan),
        **values,
        **({"helped": helped} if study.methods else {}),
        "configuration": study.hash_of(trial.variant, trial.method),
        "version": tsformer.__version__,
        "commit": commit(),
        "run_id": run.run_id,
    }


def _log_inputs(trial: Trial, study: Study, problem: Problem, run: TrackedRun) -> None:
    """Log the configuration of a trial and its data."""
    named: dict[str, Any] = {"dataset": trial.dataset}
    named |= {"method": trial.method} if study.methods else {}
    if study.method(trial.method).transformer:
        named["encoding"] = study.encoding_of(trial.method)
    named |= {"seed": trial.seed, "resample": trial.resample}
    if problem.train_size != WHOLE:
        named |= {"train_size": problem.train_size, "n_train": len(problem.y_train)}
    configuration = study.configuration(trial.variant, trial.method)
    run.json({**named, **configuration}, "configuration.json")
    # A parameter of another class may be called `dataset` or `seed`.
    others = configuration.pop("parameters", {})
    apart = {(f"parameters.{k}" if k in named else k): v for k, v in others.items()}
    run.params({**named, **configuration, **apart})
    parts = {
        "train": (problem.X_train, problem.y_train),
        "test": (problem.X_test, problem.y_test),
    }
    for context, (X, y) in parts.items():
        loader = problem.loader(context)
        run.dataset(X, y, name=trial.dataset, context=context, loader=loader)
    run.tags({SERIES: series_digest(trial.dataset)})


def read_back(trial: Trial, study: Study, run: Any) -> dict[str, Any]:
    """Return the row of a fit that finished earlier; metrics its run lacks are NaN."""
    metrics = {name: run.data.metrics.get(metric, np.nan) for name, metric in _METRICS.items()}
    others = {}
    if study.methods:
        others = {"helped": run.data.tags.get(_HELPED, "")}
    return {
        **describe(trial, study),
        **metrics,
        **others,
        "configuration": run.data.tags["tsformer.configuration"],
        "version": run.data.tags["tsformer.version"],
        "commit": run.data.tags.get("tsformer.commit", ""),
        "run_id": run.info.run_id,
    }


def _score(
    classifier: TSTransformerClassifier | PanelClassifier,
    problem: Problem,
    run: TrackedRun,
    device: torch.device,
) -> dict[str, float]:
    """Predict the test split once, log the predictions, return scores and costs."""
    classes = classifier.classes_
    reset_peak_memory(device)
    begun = time.perf_counter()
    probabilities = _probabilities(classifier, problem.X_test)
    if probabilities is None:
        predicted = classifier.predict(problem.X_test)
    else:
        predicted = classes[probabilities.argmax(axis=1)]
    cost = {
        "predict_seconds": time.perf_counter() - begun,
        "predict_memory_mb": peak_memory_mb(device),
    }
    labels = {"true": problem.y_test, "predicted": predicted}
    table = pd.DataFrame({name: [*map(csv_cell, values)] for name, values in labels.items()})
    if probabilities is None:
        scores = label_scores(problem.y_test, predicted)
    else:
        scores = classification_scores(problem.y_test, probabilities, classes)
        for label, column in zip(classes, probabilities.T, strict=True):
            table[f"p({label})"] = column
    run.metrics({_METRICS[name]: value for name, value in {**scores, **cost}.items()})
    run.text(table.to_csv(index_label="case", lineterminator="\n"), "predictions.csv")
    run.figure(lambda: plot_confusion(problem.y_test, predicted, classes), "confusion.png")
    if probabilities is not None:
        run.figure(
            lambda: plot_reliability(problem.y_test, probabilities, classes), "reliability.png"
        )
    return {**scores, **cost}


def _probabilities(
    classifier: TSTransformerClassifier | PanelClassifier, X: Any
) -> npt.NDArray[np.float64] | None:
    """Return the probabilities of a classifier, or None without any."""
    ours = isinstance(classifier, TSTransformerClassifier)
    try:
        return classifier.predict_proba(X) if ours or classifier.has_probabilities_ else None
    except AttributeError:
        if ours or classifier.has_probabilities_:  # it learns that it has none
            raise
        return None


def describe(trial: Trial, study: Study) -> dict[str, Any]:
    """Return the columns of the results that identify a trial."""
    varied = study.variants[trial.variant]
    counted = {}
    if study.train_sizes:
        size = study.train_size_of(trial.variant)
        counted = {"n_train": n_train(trial.dataset, trial.resample, size)}
    return {
        "dataset": trial.dataset,
        name_column(study): trial.method,
        **{name: plain(value) for name, value in varied.items()},
        **counted,
        "seed": trial.seed,
        "resample": trial.resample,
    }


def plain(value: Any) -> Any:
    """Return a value that fits into one cell of a table."""
    return json.dumps(value) if isinstance(value, (dict, list, tuple)) else value


class _StopWithRun(Callback):
    """Stop training when a resumed comparison ended its run."""

    def __init__(self, run: TrackedRun):
        self.run = run
        self._next_check = time.monotonic() + _CHECK_SECONDS

    def on_epoch_end(self, state: TrainingState) -> None:
        if time.monotonic() >= self._next_check:
            if self.run.ended():
                raise RunEnded(f"run {self.run.run_id} was ended by somebody else")
            self._next_check = time.monotonic() + _CHECK_SECONDS
