"""Explanations of test series as pictures of a run."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from tsformer.plots import plot_relevance
from tsformer.tracking.run import TrackedRun

__all__ = ["log_explanations"]


def log_explanations(
    run: TrackedRun, estimator: Any, X: Any, y: Any, n_per_class: int, times: Any = None
) -> None:
    """Draw the first series of each class as ``explanations/LABEL/NUMBER.png``."""
    if n_per_class < 1 or not hasattr(estimator, "explain"):
        return
    series, labels = estimator._read(X, times, reset=False), np.asarray(y)
    for label in np.unique(labels):
        for row in np.flatnonzero(labels == label)[:n_per_class].tolist():
            alone = series.take(np.arange(len(series)) == row)

            def draw(alone: Any = alone, row: int = row, label: Any = label) -> Any:
                length = int(alone.lengths[0])
                predicted = estimator.predict(alone)[0]
                return plot_relevance(
                    alone.values[0, :length].T,
                    estimator.explain(alone)[0],
                    times=None if alone.times is None else alone.times[0, :length],
                    channels=alone.channels,
                    title=f"series {row}, labelled {label}: why {predicted}",
                )

            folder = re.sub(r"[^\w.-]", "_", str(label))
            run.figure(draw, f"explanations/{folder}/{row}.png")
