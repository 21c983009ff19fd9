"""Count the functions that `fit` and `predict_proba` enter, their calls, and how often X is read.

python tools/functions_entered.py [--list] [--seconds]  # each function; seconds beside the epochs
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from time import process_time
from timeit import repeat
from types import FrameType
from typing import Any

import numpy as np

import tsformer

_PACKAGE = str(Path(tsformer.__file__).parent)


class ReadArray:
    """An array read by slices that counts the rows it returned."""

    def __init__(self, array: np.ndarray[Any, Any]):
        self._array, self.shape, self.dtype, self.n_rows = array, array.shape, array.dtype, 0

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        rows = self._array[index]
        self.n_rows += len(rows)
        return rows


def calls_of(call: Callable[[], object]) -> Counter[str]:
    """Count the calls of each named function of the package; comprehensions are no functions."""
    calls: Counter[str] = Counter()

    def note(frame: FrameType, event: str, arg: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_PACKAGE) and code.co_name[0] != "<":
            calls[f"{code.co_filename[len(_PACKAGE) + 1 :]} {code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return calls


def reads_of(call: Callable[[Any], object], X: np.ndarray[Any, Any]) -> int:
    """Count how often `call` reads an X that is read by slices."""
    read = ReadArray(X)
    call(read)
    return read.n_rows // len(X)


def counts() -> dict[str, tuple[Counter[str], int]]:
    """Return the calls and the reads of X of a fit of two epochs and of a prediction."""
    X, y = np.random.default_rng(0).normal(size=(24, 1, 50)), [0, 1] * 12
    classifier = tsformer.TSTransformerClassifier(max_epochs=2, random_state=0).fit(X, y)
    methods: dict[str, Callable[[Any], object]] = {
        "fit": lambda X: classifier.fit(X, y),
        "predict_proba": classifier.predict_proba,
    }
    return {
        name: (calls_of(lambda method=method: method(X)), reads_of(method, X))  # type: ignore[misc]
        for name, method in methods.items()
    }


def seconds(max_epochs: int) -> float:
    """Return the median processor seconds of 40 fits."""
    X, y = np.random.default_rng(0).normal(size=(24, 1, 50)), [0, 1] * 12
    classifier = tsformer.TSTransformerClassifier(max_epochs=max_epochs, random_state=0)
    return float(np.median(repeat(lambda: classifier.fit(X, y), "", process_time, 40, 1)))


if __name__ == "__main__":
    if "--seconds" in sys.argv:
        print(f"fit beside training: {1.25 * seconds(1) - 0.25 * seconds(5):.4f} s")
    for name, (calls, n_reads) in counts().items():
        print(f"{name}: {len(calls)} functions, {calls.total()} calls, X read {n_reads} times")
        for function, n in calls.most_common() if "--list" in sys.argv else ():
            print(f"{n:6} {function}")
