"""Scores made up for tests, so that what is to be found in them is known."""

from functools import cache

import numpy as np
import pandas as pd

from tsformer.studies.analysis.statistics import Statistics, compare_methods


def results(scores: dict[str, list[float]], seeds: int = 1, spread: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        (f"d{d}", method, seed, score + spread * rng.normal())
        for method, values in scores.items()
        for d, score in enumerate(values)
        for seed in range(seeds)
    ]
    return pd.DataFrame(rows, columns=["dataset", "method", "seed", "score"])


def twelve(seed: int = 0) -> dict[str, list[float]]:
    base = np.random.default_rng(seed).uniform(0.6, 0.8, 12)
    return {
        "worst": list(base - 0.1),
        "best": list(base + 0.05),
        "as good": list(base + 0.05 + 0.001 * (-1) ** np.arange(12)),
    }


@cache
def compared_twelve() -> Statistics:
    """Compare the methods of `twelve` once for all tests: each comparison draws for a second."""
    return compare_methods(results(twelve()))
