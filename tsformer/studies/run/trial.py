"""One fit of a study: trained, scored once, tracked, and turned into a row of the results."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, log_loss

import tsformer
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.estimators.together import fit_together
from tsformer.plots import encoding_color, plot_confusion
from tsformer.studies.problem import Problem
from tsformer.studies.study import Cell, Study
from tsformer.tracking import MLflowTracker, RunStore, TrackedRun
from tsformer.tracking.run import RunEnded
from tsformer.tracking.store import commit
from tsformer.training.callbacks import Callback, TrainingState

__all__ = [
    "COUNTS",
    "columns",
    "fit_cell",
    "fit_cells",
    "plain",
    "read_back",
    "start_run",
    "warm_up",
    "what",
]

# Column of the results -> metric of the run.
_METRICS = {
    "accuracy": "test/accuracy",
    "balanced_accuracy": "test/balanced_accuracy",
    "f1_macro": "test/f1_macro",
    "log_loss": "test/log_loss",
    "fit_seconds": "fit_seconds",
    "seconds_per_epoch": "seconds_per_epoch",
    "n_epochs": "n_epochs",
    "n_parameters": "n_parameters",
    "n_parameters_encoding": "n_parameters_encoding",
    "peak_memory_mb": "peak_memory_mb",
}

#: Columns of the results that hold whole numbers.
COUNTS = ("n_epochs", "n_parameters", "n_parameters_encoding")

# Least time between two looks at whether somebody ended the run: each takes some milliseconds.
_LOOK_SECONDS = 5.0


def columns(study: Study) -> list[str]:
    """Return the columns of the results, in order."""
    what = ["dataset", "encoding", *study.vary, "seed", "resample"]
    return [*what, *_METRICS, "configuration", "version", "commit", "run_id"]


def start_run(cell: Cell, study: Study, store: RunStore, parent: TrackedRun) -> TrackedRun:
    """Make the run of a fit."""
    return store.start(
        str(cell).replace("  ", " "),
        kind="fit",
        key=study.key(*cell),
        parent=parent,
        tags={
            "tsformer.configuration": study.hash_of(cell.variant),
            "mlflow.runColor": encoding_color(cell.encoding),
        },
    )


def fit_cell(
    cell: Cell, study: Study, problem: Problem, run: TrackedRun, callbacks: Sequence[Callback] = ()
) -> dict[str, Any]:
    """Train on the train split, score the test split once, log both, end the run.

    Returns
    -------
    dict
        A row of the results, with the keys `columns`.

    Raises
    ------
    RunEnded
        If somebody ended the run meanwhile.
    """
    with run:
        classifier, tracker = _begin(cell, study, problem, run, callbacks)
        classifier.fit(problem.X_train, problem.y_train)
        return _conclude(cell, study, problem, run, classifier, tracker)


def fit_cells(
    cells: Sequence[Cell],
    study: Study,
    problem: Problem,
    runs: Sequence[TrackedRun],
    callbacks: Sequence[Callback] = (),
) -> list[dict[str, Any]]:
    """Do the same for cells that differ in their seed alone, whose models a GPU trains as one.

    `callbacks` follow the first of them. The seconds of each row are its part of those of all.
    """
    with ExitStack() as stack:
        for run in runs:
            stack.enter_context(run)
        begun = [
            _begin(cell, study, problem, run, callbacks if cell is cells[0] else (), len(cells))
            for cell, run in zip(cells, runs, strict=True)
        ]
        fit_together([classifier for classifier, _ in begun], problem.X_train, problem.y_train)
        return [
            _conclude(cell, study, problem, run, classifier, tracker)
            for cell, run, (classifier, tracker) in zip(cells, runs, begun, strict=True)
        ]


def _begin(
    cell: Cell,
    study: Study,
    problem: Problem,
    run: TrackedRun,
    callbacks: Sequence[Callback],
    n_together: int = 1,
) -> tuple[TSTransformerClassifier, MLflowTracker]:
    """Log what is going to be fitted, and return what fits it."""
    names = ("dataset", "encoding", "seed", "resample")
    configuration = {name: getattr(cell, name) for name in names}
    configuration |= study.configuration(cell.variant)
    run.params(configuration)
    run.json(configuration, "configuration.json")
    parts = {
        "train": (problem.X_train, problem.y_train),
        "test": (problem.X_test, problem.y_test),
    }
    for context, (X, y) in parts.items():
        loader = problem.loader(context)
        run.dataset(X, y, name=cell.dataset, context=context, loader=loader)
    # Its pictures are what the pages show side by side; the fit's time is taken before them.
    tracker = MLflowTracker(mlflow_run=run, pictures=True, n_together=n_together)
    classifier = TSTransformerClassifier(
        cell.encoding,
        **study.parameters_of(cell.variant),
        random_state=cell.seed,
        callbacks=[tracker, _StopWithRun(run), *callbacks],
    )
    return classifier, tracker


def _conclude(
    cell: Cell,
    study: Study,
    problem: Problem,
    run: TrackedRun,
    classifier: TSTransformerClassifier,
    tracker: MLflowTracker,
) -> dict[str, Any]:
    """Score what was fitted and return its row."""
    if classifier.history_.interrupted:
        raise KeyboardInterrupt  # fit keeps what it has; half a training is no result
    scores = _score(classifier, problem, run)
    if run.ended():
        raise RunEnded(f"run {run.run_id} was ended by somebody else")
    return {
        **what(cell, study),
        **scores,
        **tracker.summary_,
        "configuration": study.hash_of(cell.variant),
        "version": tsformer.__version__,
        "commit": commit(),
        "run_id": run.run_id,
    }


def warm_up(problem: Problem) -> None:
    """Fit once for nothing: a process's first fit pays for what later ones find loaded."""
    TSTransformerClassifier("none", d_model=8, n_heads=1, max_epochs=1).fit(
        problem.X_train, problem.y_train
    )


def read_back(cell: Cell, study: Study, run: Any) -> dict[str, Any]:
    """Return the row of a fit that was finished before; what its run lacks is NaN."""
    metrics = {name: run.data.metrics.get(metric, np.nan) for name, metric in _METRICS.items()}
    return {
        **what(cell, study),
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
    scores = {
        "accuracy": float(accuracy_score(problem.y_test, predicted)),
        "balanced_accuracy": float(balanced_accuracy_score(problem.y_test, predicted)),
        "f1_macro": float(f1_score(problem.y_test, predicted, average="macro")),
        "log_loss": float(log_loss(problem.y_test, probabilities, labels=classes)),
    }
    run.metrics({_METRICS[name]: value for name, value in scores.items()})
    table = pd.DataFrame({"true": problem.y_test, "predicted": predicted})
    for label, column in zip(classes, probabilities.T, strict=True):
        table[f"p({label})"] = column
    run.text(table.to_csv(index_label="case", lineterminator="\n"), "predictions.csv")
    run.figure(lambda: plot_confusion(problem.y_test, predicted, classes), "confusion.png")
    return scores


def what(cell: Cell, study: Study) -> dict[str, Any]:
    """Return what tells a fit from the others of its study, by column of the results."""
    varied = study.variants[cell.variant]
    return {
        "dataset": cell.dataset,
        "encoding": cell.encoding,
        **{name: plain(value) for name, value in varied.items()},
        "seed": cell.seed,
        "resample": cell.resample,
    }


def plain(value: Any) -> Any:
    """Return what one cell of a table can hold."""
    return json.dumps(value) if isinstance(value, (dict, list, tuple)) else value


class _StopWithRun(Callback):
    """Stops the training when somebody ends its run: a driver that was stopped, or started anew."""

    def __init__(self, run: TrackedRun):
        self.run = run
        self._next_look = time.monotonic() + _LOOK_SECONDS

    def on_epoch_end(self, state: TrainingState) -> None:
        if time.monotonic() >= self._next_look:
            if self.run.ended():
                raise RunEnded(f"run {self.run.run_id} was ended by somebody else")
            self._next_look = time.monotonic() + _LOOK_SECONDS
