"""Seconds behind the defaults on a GPU: members in turn, batch sizes, random convolutions.

Generated series, so that only time is measured.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from experiments.gpu.methods import Case
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier

__all__ = ["choice_rows"]

Row = dict[str, Any]

MEMBERS = (1, 2, 4)
BATCHES = (16, 64, 256, 1024)
#: Epochs of a fit, and of its warm-up, in which graphs are captured.
_EPOCHS, _WARM_UP = 8, 3


def choice_rows(device: torch.device, *, tiny: bool) -> Iterator[Row]:
    """Yield the seconds of each choice, or its error."""
    epochs = _WARM_UP + 1 if tiny else _EPOCHS
    few = Case(*((16, 1, 30) if tiny else (512, 1, 100)), epochs=epochs)
    many = Case(*((64, 1, 30) if tiny else (10_000, 1, 100)), epochs=epochs)
    _fit_seconds(few, device)  # libraries load
    members, batches = ((2,), (16,)) if tiny else (MEMBERS, BATCHES)
    for n in members:
        yield _row("members in turn", f"{n}", lambda n=n: _fit_seconds(few, device, n_estimators=n))
    for size in batches:
        yield _row("batch size", f"{size}", lambda size=size: _epoch_seconds(many, device, size))
    cpu = torch.device("cpu")
    ways: list[tuple[torch.device, int | str]] = [(device, "auto")]
    ways += [] if tiny else [(cpu, os.cpu_count() or 1), (cpu, 1)]
    for where, n_threads in ways:
        how = where.type if n_threads == "auto" else f"{where.type}, {n_threads} threads"
        for step, seconds in _convolutions(many, where, n_threads).items():
            yield {"choice": f"random convolutions, {step}", "value": how, "seconds": seconds}


def _row(choice: str, value: str, measure: Any) -> Row:
    try:
        return {"choice": choice, "value": value, "seconds": measure()}
    except Exception as error:  # measure the others
        lines = str(error).splitlines() or [""]
        return {"choice": choice, "value": value, "error": f"{type(error).__name__}: {lines[0]}"}


def _fit_seconds(case: Case, device: torch.device, **params: Any) -> float:
    X, y = case.data()
    model = TSTransformerClassifier(
        max_epochs=case.epochs, early_stopping=False, augmentation=None, scaling="channel",
        device=str(device), random_state=0, **params,
    )  # fmt: skip
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


def _epoch_seconds(case: Case, device: torch.device, batch_size: int) -> float:
    X, y = case.data()
    model = TSTransformerClassifier(
        max_epochs=case.epochs, early_stopping=False, augmentation=None, scaling="channel",
        batch_size=batch_size, device=str(device), random_state=0,
    )  # fmt: skip
    seconds = [row["seconds"] for row in model.fit(X, y).history_]
    return float(np.median(seconds[_WARM_UP:]))


def _convolutions(case: Case, device: torch.device, n_threads: int | str) -> dict[str, float]:
    """Return the seconds of fit and prediction, after a fit of a few series."""
    X, y = case.data()
    model = RandomConvolutionClassifier(device=device, n_threads=n_threads, random_state=0)
    model.fit(X[:64], y[:64]).predict(X[:64])  # libraries load
    start = time.perf_counter()
    model.fit(X, y)
    fitted = time.perf_counter()
    model.predict(X)
    return {"fit": fitted - start, "predict": time.perf_counter() - fitted}
