"""Classifiers of somebody else's, which a study names by dotted paths."""

import ctypes
import os
import sys
import time
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from tsformer.baselines import UnreadableSeries


class Nearest(ClassifierMixin, BaseEstimator):
    """Answers with the label of the nearest row; has neither probabilities nor a random_state."""

    def __init__(self, power: float = 2.0):
        self.power = power

    def fit(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> Self:
        self.X_, self.y_ = X, y
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        apart = (np.abs(X[:, None] - self.X_) ** self.power).sum(-1)
        return np.asarray(self.y_[apart.argmin(1)])


class Raises(Nearest):
    def fit(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> Self:
        raise ArithmeticError("no such luck")


class OneChannel(Nearest):
    def fit(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> Self:
        if X.shape[1] > 30:  # several channels, side by side
            raise UnreadableSeries("these series have 12 channels")
        return super().fit(X, y)


class Ignores(Nearest):
    """Has a random_state and draws from the global generator all the same."""

    def __init__(self, random_state: int | None = None):
        self.random_state = random_state

    def predict_proba(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        drawn = np.random.random((len(X), len(self.classes_)))  # noqa: NPY002
        return np.asarray(drawn / drawn.sum(1, keepdims=True))


class Counts(Nearest):
    """Remembers how many series each fit in this process had."""

    fitted: ClassVar[list[int]] = []

    def fit(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> Self:
        self.fitted.append(len(X))
        return super().fit(X, y)


class NeedsMany(Counts):
    """Cannot be fitted to a few series."""

    def fit(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> Self:
        if len(X) < 20:
            raise ValueError("too few")
        return super().fit(X, y)


class Waits(Nearest):
    """Waits in its fit for a file, so that tests can kill it there."""

    def __init__(self, file: str = "", power: float = 2.0):
        super().__init__(power)
        self.file = file

    def fit(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> Self:
        Path(f"{self.file}-{os.getpid()}").touch()
        end = time.monotonic() + 600
        while not Path(self.file).exists():
            if time.monotonic() > end:
                raise TimeoutError(self.file)
            time.sleep(0.05)
        return super().fit(X, y)


def waiting(file: Path) -> dict[str, dict[str, Any]]:
    """Return three methods; the fits of the second and third wait for a file."""
    waits = {"estimator": "foreign_classifiers.Waits", "file": str(file)}
    # Fits of the same parameters would be the same fit.
    first = {"estimator": "foreign_classifiers.Nearest"}
    return {"first": first, "second": waits, "third": {**waits, "power": 3.0}}


def in_fits(file: Path) -> list[int]:
    """Return the processes whose fits have begun to wait for a file."""
    return [int(path.name.rpartition("-")[2]) for path in file.parent.glob(f"{file.name}-*")]


class Ends(Nearest):
    """Ends its fit, or its process, in the way that is named."""

    def __init__(self, how: str = "exit"):
        self.how = how

    def fit(self, X: npt.NDArray[Any], y: npt.NDArray[Any]) -> Self:
        match self.how:
            case "exit":
                sys.exit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case "recurse":
                return self.fit(X, y)
            case "hang":
                time.sleep(600)
            case "segfault":
                ctypes.string_at(0)
        return super().fit(X, y)

    def predict(self, X: npt.NDArray[Any]) -> npt.NDArray[Any]:
        sys.exit("no more")
