"""Whole fits of the default on real problems, on a GPU and on the processor of the same machine.

Development problems, so that no held-out score is read. The default on the GPU comes first, then on
the processor, then without CUDA graphs.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from tsformer import TSTransformerClassifier, load_dataset

__all__ = ["PROBLEMS", "problem_rows"]

Row = dict[str, Any]

#: The shortest series first.
PROBLEMS = (
    "NATOPS",
    "ProximalPhalanxOutlineCorrect",
    "Adiac",
    "OSULeaf",
    "SelfRegulationSCP1",
    "ACSF1",
)
FIRST, ONE, PLAIN = "three epochs, libraries load", "one model", "one model, without CUDA graphs"


def problem_rows(device: torch.device, *, tiny: bool) -> Iterator[Row]:
    """Yield the accuracy and seconds of each fit, or its error."""
    names = ("BasicMotions",) if tiny else PROBLEMS
    ways: list[tuple[str, torch.device, dict[str, Any]]] = [(ONE, device, {})]
    if device.type == "cuda":
        ways = [(FIRST, device, {"max_epochs": 3}), *ways]
        ways += [(ONE, torch.device("cpu"), {}), (PLAIN, device, {"compile": False})]
    for how, where, params in ways:
        for name in names[:1] if how == FIRST else names:
            row: Row = {"dataset": name, "device": where.type, "fit": how}
            try:
                row |= fit_and_score(name, where, params | ({"max_epochs": 2} if tiny else {}))
            except Exception as error:  # measure the others
                lines = str(error).splitlines() or [""]
                row["error"] = f"{type(error).__name__}: {lines[0]}"
            yield row


def fit_and_score(name: str, device: torch.device, params: dict[str, Any]) -> Row:
    """Fit the default to the train split, and score the test split."""
    X, y = load_dataset(name, split="train")
    X_test, y_test = load_dataset(name, split="test")
    gc.collect()
    model = TSTransformerClassifier(random_state=0, device=str(device), **params)
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    proba = model.predict_proba(X_test)
    predicted = time.perf_counter()
    answers = model.classes_[np.argmax(proba, axis=1)]
    return {
        "accuracy": round(float(np.mean(answers == y_test)), 6),
        "fit_seconds": round(fitted - start, 3),
        "predict_seconds": round(predicted - fitted, 3),
        "n_test": len(y_test),
    }
