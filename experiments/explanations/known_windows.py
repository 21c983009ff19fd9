"""Where explanations are right and where they fail, on problems with known decisive values.

    python experiments/explanations/known_windows.py [--seeds 3] [--commit]

Adds one row per problem, seed and method to explanations_known.csv. docs/results/explanations.md
defines the columns.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from tsformer import TSTransformerClassifier
from tsformer.data import make_window_task
from tsformer.explain import METHODS

#: The decisive values of each problem.
PROBLEMS = {
    "window": "a sine that begins upwards or downwards, anywhere in the first of three channels",
    "twice": "the same, and once more in the second channel: either alone is enough",
    "absent": "a sine, or nothing; the explained series have no sine, so no value is decisive",
    "strided": "the first problem of twice the length, by a stem that skips every second step",
    "default": "the first problem, by a model of the default size",
}
N_TRAIN, N_TEST = 200, 100
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 30, "learning_rate": 0.01}
SMALL |= {"scaling": "channel"}  # a deleted value becomes the mean of its channel


def draw(problem: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return series, their classes and which values are decisive."""
    if problem == "strided":
        return make_window_task(n, 64, window=16, random_state=seed)
    X, y, decisive = make_window_task(n, random_state=seed)
    if problem == "twice":
        again, labels, second = make_window_task(2 * n, noise=0.0, random_state=seed + 1)
        for label in np.unique(y):
            rows, pool = np.flatnonzero(y == label), np.flatnonzero(labels == label)
            X[rows, 1] += again[pool[: len(rows)], 0]
            decisive[rows, 1] |= second[pool[: len(rows)], 0]
    if problem == "absent":
        noise = np.random.default_rng(seed).normal(0, 0.3, X.shape)
        nothing = y == "down first"
        X[nothing], decisive[nothing] = noise[nothing], False
        y = np.where(nothing, "nothing", "a sine")
    return X, y, decisive


@cache
def solved(problem: str, seed: int) -> TSTransformerClassifier:
    torch.set_num_threads(1)
    X, y, _ = draw(problem, N_TRAIN, 100 + seed)
    if problem == "default":
        # A deleted value becomes the mean of its channel.
        return TSTransformerClassifier(scaling="channel", random_state=seed).fit(X, y)
    strides = (2, 1) if problem == "strided" else (1, 1)
    params = {"strides": strides, "downsampling": "stride"}
    return TSTransformerClassifier(**SMALL, stem_params=params, random_state=seed).fit(X, y)


def measure(problem: str, seed: int, method: str) -> dict[str, object]:
    clf = solved(problem, seed)
    X, y, decisive = draw(problem, N_TEST, 200 + seed)
    predicted = clf.predict(X)
    correct = predicted == y
    if problem == "absent":
        correct &= y == "nothing"
    X, decisive = X[correct], decisive[correct]
    column = np.searchsorted(clf.classes_, predicted[correct])
    begun = perf_counter()
    relevance = clf.explain(X, method)
    seconds = perf_counter() - begun
    flat = relevance.reshape(len(X), -1).argmax(axis=1)
    _, step = np.unravel_index(flat, X.shape[1:])
    rows = np.arange(len(X))
    positive = relevance.clip(min=0)
    size = np.abs(relevance)
    empty = np.broadcast_to(clf.preprocessor_.mean.numpy()[:, None], X.shape)
    change = (clf._scores(X) - clf._scores(empty)).mean(dim=0).numpy()[rows, column]
    numbers = {
        "accuracy": (predicted == y).mean(),
        "hit": decisive.reshape(len(X), -1)[rows, flat].mean(),
        "hit_time": decisive.any(axis=1)[rows, step].mean(),
        "inside": positive[decisive].sum() / positive.sum(),
        "change": change.mean(),
        "missed": np.abs(relevance.sum(axis=(1, 2)) - change).max(),
        "uneven": size[..., ::2].sum() / size.sum(),
    }
    return {
        "problem": problem,
        "seed": seed,
        "method": method,
        "n_explained": len(X),
        **{name: round(float(number), 4) for name, number in numbers.items()},
        "seconds": round(seconds, 2),
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3, help="number of models of each problem")
    add_output_options(parser, "explanations_known")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = [
        (problem, seed, method)
        for seed in range(options.seeds)
        for problem in PROBLEMS
        for method in METHODS
    ]
    keys = ["problem", "seed", "method"]
    rows = fit_missing(options.out / "explanations_known.csv", keys, cells, measure, 1)
    columns = ["accuracy", "hit", "hit_time", "inside", "change", "missed", "uneven"]
    print(rows.groupby(["problem", "method"], sort=False)[columns].mean().round(3).to_string())


if __name__ == "__main__":
    main()
