"""One fit of a study: trained, scored once, tracked, and turned into a row of the results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score, log_loss

import tsformer
from tsformer.data import load_dataset
from tsformer.estimators.classifier import TSTransformerClassifier
from tsformer.plots import encoding_color, plot_confusion
from tsformer.studies.progress import ProgressReporter
from tsformer.studies.study import Cell, Study
from tsformer.tracking import MLflowTracker, RunStore, TrackedRun

__all__ = ["COLUMNS", "COUNTS", "Problem", "fit_cell", "read_back", "warm_up"]

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

#: Columns of the results, in order, and those of them that hold whole numbers.
COLUMNS = ("dataset", "encoding", "seed", *_METRICS, "configuration", "version", "run_id")
COUNTS = ("n_epochs", "n_parameters", "n_parameters_encoding")


@dataclass(frozen=True)
class Problem:
    """A data set with its official split."""

    name: str
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray

    @classmethod
    def load(cls, name: str) -> Problem:
        """Load it by name."""
        return cls(name, *load_dataset(name, split="train"), *load_dataset(name, split="test"))


def fit_cell(
    cell: Cell,
    study: Study,
    problem: Problem,
    store: RunStore,
    parent: TrackedRun,
    progress: ProgressReporter,
) -> dict[str, Any]:
    """Train on the train split, score the test split once, log both.

    Returns
    -------
    dict
        A row of the results, with the keys `COLUMNS`.
    """
    dataset, encoding, seed = cell
    run = store.start(
        f"{dataset} {encoding} {seed}",
        kind="fit",
        key=study.key(*cell),
        parent=parent,
        tags={
            "tsformer.configuration": study.hash,
            "mlflow.runColor": encoding_color(encoding),
        },
    )
    with run:
        configuration = {**cell._asdict(), **study.configuration()}
        run.params(configuration)
        run.json(configuration, "configuration.json")
        run.dataset(problem.X_train, problem.y_train, name=dataset, context="train")
        run.dataset(problem.X_test, problem.y_test, name=dataset, context="test")
        tracker = MLflowTracker(mlflow_run=run)
        classifier = TSTransformerClassifier(
            encoding, **study.parameters, random_state=seed, callbacks=[tracker, progress]
        )
        classifier.fit(problem.X_train, problem.y_train)
        if classifier.history_.interrupted:
            raise KeyboardInterrupt  # fit keeps what it has; half a training is no result
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
    return {
        **cell._asdict(),
        **scores,
        **tracker.summary_,
        "configuration": study.hash,
        "version": tsformer.__version__,
        "run_id": run.run_id,
    }


def warm_up(problem: Problem) -> None:
    """Fit once for nothing: a process's first fit pays for what later ones find loaded."""
    TSTransformerClassifier("none", d_model=8, n_heads=1, max_epochs=1).fit(
        problem.X_train, problem.y_train
    )


def read_back(cell: Cell, run: Any) -> dict[str, Any]:
    """Return the row of a fit that an earlier call finished; what its run lacks is NaN."""
    metrics = {name: run.data.metrics.get(metric, np.nan) for name, metric in _METRICS.items()}
    return {
        **cell._asdict(),
        **metrics,
        "configuration": run.data.tags["tsformer.configuration"],
        "version": run.data.tags["tsformer.version"],
        "run_id": run.info.run_id,
    }
