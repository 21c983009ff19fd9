"""Problem: a data set with one of its splits, loaded once per process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tsformer.data import load_dataset
from tsformer.studies.run.resample import stratified_resample

__all__ = ["Problem"]

# A worker gets the data sets of a study in any order; keeping more could fill its memory.
_KEPT = 16


@dataclass(frozen=True)
class Problem:
    """A data set with a split.

    Tasks carry only the name: a worker loads the data itself and keeps them for the next fit.
    """

    name: str
    resample: int
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray

    @classmethod
    def load(cls, name: str, resample: int = 0) -> Problem:
        """Load by name: the official split for 0, else the stratified resample of that number."""
        split = _official(name)
        if resample:
            split = stratified_resample(*split, seed=resample)
        return cls(name, resample, *split)

    def loader(self, context: str) -> str:
        """Return the expression that loads one part, to be recorded with a run."""
        if not self.resample:
            return f"tsformer.data.load_dataset({self.name!r}, split={context!r})"
        return (
            f"tsformer.studies.run.problem.Problem.load({self.name!r}, {self.resample}).X_{context}"
        )


@lru_cache(maxsize=_KEPT)
def _official(name: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    return (*load_dataset(name, split="train"), *load_dataset(name, split="test"))
