"""How long to train on many series: accuracy against seconds, by passes and batch size.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/large_data.py [--jobs 2]

The largest problems of the archive, of which the train split alone is read: 70 % of it, by class,
trains, and the rest is scored. And generated ones of 10,000 and 100,000 series: each of 20 classes
is a smooth curve that is read at a speed that varies, from a random start, in noise, and beside
a bump that says nothing. A budget is the number of series that the optimizer sees, with repetition,
and of series in a batch; "auto" is the default of the classifier, and "early stopping" the same
with a tenth of the series held out for it. Adds a row per fit to large_data.csv as soon as the fit
ends; running the script again resumes with the fits that are missing. Seconds are those of the
processor.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier, load_dataset
from tsformer.estimators.base import AUTO_EARLY_STOPPING_CASES
from tsformer.tracking.store import commit

NAME = "large_data"
ARCHIVE = ("FaceAll", "MelbournePedestrian", "LSST", "PenDigits")
#: Generated problems: how many series train.
GENERATED = {"generated 10,000": 10_000, "generated 100,000": 100_000}
PROBLEMS = (*ARCHIVE, *GENERATED)
N_CLASSES, LENGTH, N_SCORED = 20, 100, 3000

#: Series that the optimizer sees, and series in a batch.
BUDGETS = [(seen, batch) for seen in (40_000, 160_000) for batch in (16, 64)] + [(400_000, 64)]
#: No series is seen more often than so, nor is only so small a part of them seen.
MOST_PASSES, FEWEST_PASSES = 110, 0.5

Split = tuple[Any, npt.NDArray[Any], Any, npt.NDArray[Any]]


def generated(n: int, seed: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.intp]]:
    """Make series ``[n, 1, LENGTH]`` and their classes; classes are the same for every seed."""
    steps = np.linspace(0, 1, 400)
    curves = np.random.default_rng(20).standard_normal((N_CLASSES, 8))
    waves = np.stack([np.sin(np.pi * (k + 1) * steps + k) / (k + 1) ** 0.5 for k in range(8)])
    templates = curves @ waves
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, n)
    speed = np.exp(0.4 * rng.standard_normal((n, 5)))
    at = np.linspace(0, 4, LENGTH)
    left = np.minimum(at.astype(int), 3)
    speeds = speed[:, left] * (1 - (at - left)) + speed[:, left + 1] * (at - left)
    place = np.cumsum(speeds, axis=1)
    start, span = rng.uniform(0, 0.3, (n, 1)), rng.uniform(0.5, 0.7, (n, 1))
    place = start + span * place / place[:, -1:]
    X = np.stack([np.interp(p, steps, templates[k]) for p, k in zip(place, y, strict=True)])
    centre, height = rng.uniform(0, LENGTH, (n, 1)), 2 * rng.standard_normal((n, 1))
    X += height * np.exp(-0.5 * ((np.arange(LENGTH) - centre) / 5) ** 2)
    X += 0.5 * rng.standard_normal(X.shape)
    return X[:, None].astype(np.float32), y


def split_of(problem: str, seed: int) -> Split:
    """Return what trains and what is scored."""
    if problem in GENERATED:
        n = GENERATED[problem]
        X, y = generated(n + N_SCORED, seed)
        return X[:n], y[:n], X[n:], y[n:]
    X, y = load_dataset(problem, split="train")
    train, scored = train_test_split(
        np.arange(len(y)), test_size=0.3, stratify=y, random_state=seed
    )
    return X[train], y[train], X[scored], y[scored]


def fit(problem: str, method: str, seen: int, batch: int, seed: int) -> dict[str, Any]:
    """Fit one method and score it; `seen` and `batch` are 0 where they are not set."""
    torch.set_num_threads(1)
    X, y, X_scored, y_scored = split_of(problem, seed)
    classifier: Any
    if method == "random convolutions":
        classifier = RandomConvolutionClassifier(random_state=seed)
    elif method == "budget":
        classifier = TSTransformerClassifier(
            max_epochs=max(round(seen / len(y)), 1),
            batch_size=batch,
            early_stopping=False,
            random_state=seed,
        )
    else:
        stops = "auto" if method == "auto" else True
        classifier = TSTransformerClassifier(early_stopping=stops, random_state=seed)
    start = time.process_time()
    classifier.fit(X, y)
    seconds = time.process_time() - start
    history = getattr(classifier, "history_", [])
    return {
        "problem": problem,
        "method": method,
        "seen": seen,
        "batch": batch,
        "seed": seed,
        "n_train": len(y),
        "passes": len(history),
        "accuracy": round(float((classifier.predict(X_scored) == y_scored).mean()), 5),
        "cpu_seconds": round(seconds, 1),
        "date": time.strftime("%Y-%m-%d"),
        "commit": commit(),
    }


def cells(problems: Sequence[str], seeds: int) -> Iterator[tuple[str, str, int, int, int]]:
    """Yield all fits, those of one seed before the next."""
    for seed in range(seeds):
        for problem in problems:
            n = GENERATED.get(problem, 0) or len(split_of(problem, seed)[1])
            if problem in ARCHIVE:  # of more series the ridge classifier takes long
                yield problem, "random convolutions", 0, 0, seed
            for seen, batch in BUDGETS:
                if FEWEST_PASSES <= seen / n <= MOST_PASSES and (seen <= 160_000 or n >= 50_000):
                    yield problem, "budget", seen, batch, seed
            yield problem, "auto", 0, 0, seed
            if n < AUTO_EARLY_STOPPING_CASES:  # where it is not the default
                yield problem, "early stopping", 0, 0, seed


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, NAME)
    return parser.parse_args(argv)


def table_of(rows: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy and seconds of each budget, by problem, as means over seeds."""
    keys = ["problem", "method", "seen", "batch"]
    groups = rows.groupby(keys, sort=False)
    table = groups[["passes", "accuracy", "cpu_seconds"]].mean()
    return table.assign(seeds=groups["seed"].nunique())


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    keys = ["problem", "method", "seen", "batch", "seed"]
    path = options.out / f"{NAME}.csv"
    rows = fit_missing(path, keys, cells(options.problems, options.seeds), fit, options.jobs)
    print(table_of(rows).round(4).to_string())


if __name__ == "__main__":
    main()
