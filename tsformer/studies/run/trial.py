"""One trial of a study: fitted, scored once, tracked, and returned as a row of the results."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pandas as pd

import tsformer
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.vectorized import fit_vectorized
from tsformer.plots import encoding_color, plot_confusion, plot_reliability
from tsformer.studies.design.study import Study, Trial
from tsformer.studies.run.problem import Problem
from tsformer.tracking import MLflowTracker, RunStore, TrackedRun
from tsformer.tracking.run import RunEnded
from tsformer.tracking.scores import classification_scores
from tsformer.tracking.store import commit
from tsformer.training.callbacks import Callback, TrainingState

__all__ = [
    "COUNTS",
    "columns",
    "describe",
    "fit_trial",
    "fit_trials",
    "plain",
    "read_back",
    "start_run",
    "warm_up",
]

# Column of the results -> metric of the MLflow run.
_METRICS = {
    "accuracy": "test/accuracy",
    "balanced_accuracy": "test/balanced_accuracy",
    "f1_macro": "test/f1_macro",
    "log_loss": "test/log_loss",
    "brier_score": "test/brier_score",
    "calibration_error": "test/calibration_error",
    "fit_seconds": "fit_seconds",
    "seconds_per_epoch": "seconds_per_epoch",
    "n_epochs": "n_epochs",
    "n_parameters": "n_parameters",
    "n_parameters_encoding": "n_parameters_encoding",
    "peak_memory_mb": "peak_memory_mb",
}

#: Columns of the results that are integers.
COUNTS = ("n_epochs", "n_parameters", "n_parameters_encoding")

# Minimum time between checks whether somebody ended the run: each takes some milliseconds.
_CHECK_SECONDS = 5.0


def columns(study: Study) -> list[str]:
    """Return the columns of the results, in order."""
    trial = ["dataset", "encoding", *study.vary, "seed", "resample"]
    return [*trial, *_METRICS, "configuration", "version", "commit", "run_id"]


def start_run(
    trial: Trial, study: Study, store: RunStore, parent: TrackedRun, tags: Mapping[str, str]
) -> TrackedRun:
    """Create the MLflow run of a trial, with the tags that claim it."""
    return store.start(
        str(trial).replace("  ", " "),
        kind="fit",
        key=study.key(*trial),
        parent=parent,
        tags={
            "tsformer.configuration": study.hash_of(trial.variant),
            "mlflow.runColor": encoding_color(trial.encoding),
            **tags,
        },
    )


def fit_trial(
    trial: Trial,
    study: Study,
    problem: Problem,
    run: TrackedRun,
    callbacks: Sequence[Callback] = (),
) -> dict[str, Any]:
    """Train on the train split, score the test split once, log both, and end the run.

    Returns
    -------
    dict
        A row of the results with the keys of `columns`.

    Raises
    ------
    RunEnded
        If somebody ended the run in the meantime.
    """
    with run:
        classifier, tracker = _begin(trial, study, problem, run, callbacks)
        classifier.fit(problem.X_train, problem.y_train)
        return _score_and_describe(trial, study, problem, run, classifier, tracker)


def fit_trials(
    trials: Sequence[Trial],
    study: Study,
    problem: Problem,
    runs: Sequence[TrackedRun],
    callbacks: Sequence[Callback] = (),
) -> list[dict[str, Any]]:
    """Run trials that differ only in their seed, training their models together on a GPU.

    `callbacks` observe the first trial. The seconds of each row are its share of the total.
    """
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(run)
        begun = [
            _begin(trial, study, problem, run, callbacks if trial is trials[0] else (), len(trials))
            for trial, run in zip(trials, runs, strict=True)
        ]
        fit_vectorized([classifier for classifier, _ in begun], problem.X_train, problem.y_train)
        return [
            _score_and_describe(trial, study, problem, run, classifier, tracker)
            for trial, run, (classifier, tracker) in zip(trials, runs, begun, strict=True)
        ]


def _begin(
    trial: Trial,
    study: Study,
    problem: Problem,
    run: TrackedRun,
    callbacks: Sequence[Callback],
    n_together: int = 1,
) -> tuple[TSTransformerClassifier, MLflowTracker]:
    """Log the configuration and data, and return the unfitted classifier and its tracker."""
    names = ("dataset", "encoding", "seed", "resample")
    configuration = {name: getattr(trial, name) for name in names}
    configuration |= study.configuration(trial.variant)
    run.params(configuration)
    run.json(configuration, "configuration.json")
    parts = {
        "train": (problem.X_train, problem.y_train),
        "test": (problem.X_test, problem.y_test),
    }
    for context, (X, y) in parts.items():
        loader = problem.loader(context)
        run.dataset(X, y, name=trial.dataset, context=context, loader=loader)
    # MLflow shows these figures side by side; they are drawn after the fit has been timed.
    tracker = MLflowTracker(mlflow_run=run, pictures=True, n_together=n_together)
    classifier = TSTransformerClassifier(
        trial.encoding,
        **study.parameters_of(trial.variant),
        random_state=trial.seed,
        callbacks=[tracker, _StopWithRun(run), *callbacks],
    )
    return classifier, tracker


def _score_and_describe(
    trial: Trial,
    study: Study,
    problem: Problem,
    run: TrackedRun,
    classifier: TSTransformerClassifier,
    tracker: MLflowTracker,
) -> dict[str, Any]:
    """Score the fitted classifier and return its row."""
    if classifier.history_.interrupted:
        raise KeyboardInterrupt  # fit keeps its state, but an incomplete fit is no result
    scores = _score(classifier, problem, run)
    if run.ended():
        raise RunEnded(f"run {run.run_id} was ended by somebody else")
    return {
        **describe(trial, study),
        **scores,
        **tracker.summary_,
        "configuration": study.hash_of(trial.variant),
        "version": tsformer.__version__,
        "commit": commit(),
        "run_id": run.run_id,
    }


def warm_up(problem: Problem) -> None:
    """Fit once and discard it: a process's first fit pays for what later ones find loaded."""
    TSTransformerClassifier("none", d_model=8, n_heads=1, max_epochs=1).fit(
        problem.X_train, problem.y_train
    )


def read_back(trial: Trial, study: Study, run: Any) -> dict[str, Any]:
    """Return the row of a fit that finished earlier; metrics its run lacks are NaN."""
    metrics = {name: run.data.metrics.get(metric, np.nan) for name, metric in _METRICS.items()}
    return {
        **describe(trial, study),
        **metrics,
        "configuration": run.data.tags["tsformer.configuration"],
        "version": run.data.tags["tsformer.version"],
        "commit": run.data.tags.get("tsformer.commit", ""),
        "run_id": run.info.run_id,
    }


def _score(
    classifier: TSTransformerClassifier, problem: Problem, run: TrackedRun
) -> dict[str, float]:
    classes = classifier.classes_
    probabilities = classifier.predict_proba(problem.X_test)
    predicted = classes[probabilities.argmax(axis=1)]
    scores = classification_scores(problem.y_test, probabilities, classes)
    run.metrics({_METRICS[name]: value for name, value in scores.items()})
    table = pd.DataFrame({"true": problem.y_test, "predicted": predicted})
    for label, column in zip(classes, probabilities.T, strict=True):
        table[f"p({label})"] = column
    run.text(table.to_csv(index_label="case", lineterminator="\n"), "predictions.csv")
    run.figure(lambda: plot_confusion(problem.y_test, predicted, classes), "confusion.png")
    run.figure(lambda: plot_reliability(problem.y_test, probabilities, classes), "reliability.png")
    return scores


def describe(trial: Trial, study: Study) -> dict[str, Any]:
    """Return what identifies a trial within its study, by column of the results."""
    varied = study.variants[trial.variant]
    return {
        "dataset": trial.dataset,
        "encoding": trial.encoding,
        **{name: plain(value) for name, value in varied.items()},
        "seed": trial.seed,
        "resample": trial.resample,
    }


def plain(value: Any) -> Any:
    """Return a value that fits into one cell of a table."""
    return json.dumps(value) if isinstance(value, (dict, list, tuple)) else value


class _StopWithRun(Callback):
    """Stops training when somebody ended its run: a driver that was stopped or restarted."""

    def __init__(self, run: TrackedRun):
        self.run = run
        self._next_check = time.monotonic() + _CHECK_SECONDS

    def on_epoch_end(self, state: TrainingState) -> None:
        if time.monotonic() >= self._next_check:
            if self.run.ended():
                raise RunEnded(f"run {self.run.run_id} was ended by somebody else")
            self._next_check = time.monotonic() + _CHECK_SECONDS
