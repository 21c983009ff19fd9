"""Fewer passes over many series at twice the learning rate, against what was before.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/many_series.py \
        [--problems PROBLEM ...] [--seeds 0] [--jobs 2]

Of LSST and PenDigits only the train splits are read: 70 % of each train and the rest is scored, and
so of scikit-learn's digits, read row by row. Generated problems score 3,000 more series. "curves"
are warped templates of 20 classes with a random start, noise and a bump that says nothing;
"devices" are seven kinds of short loads that differ in length, height, ripple and number, with
other loads beside them. Seconds are of the processor.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier, load_dataset

Problem = tuple[npt.NDArray[Any], npt.NDArray[Any]]
PROBLEMS = {"LSST": 1721, "digits": 1257, "PenDigits": 5245, "devices": 6000, "curves": 10_000}
METHODS = ("random convolutions", "before", "a third", "now")
#: Events, steps and height (mean, deviation) of each kind of device; shape and ripple of an event.
DEVICES: list[tuple[tuple[int, int], tuple[int, int], tuple[float, float], str, float]] = [
    ((1, 4), (1, 3), (2.0, 0.8), "flat", 0.0),
    ((1, 3), (2, 5), (2.2, 0.8), "flat", 0.0),
    ((1, 3), (6, 14), (0.8, 0.4), "falling", 0.0),
    ((1, 3), (6, 14), (0.9, 0.4), "flat", 0.15),
    ((3, 9), (1, 2), (1.0, 0.4), "flat", 0.0),
    ((1, 2), (16, 40), (0.4, 0.2), "flat", 0.08),
    ((1, 2), (10, 30), (0.5, 0.25), "cycles", 0.05),
]


def devices(n: int, seed: int) -> Problem:
    """Make the loads of one device each in 96 steps, ``[n, 1, 96]``, standardised; and its kind."""
    rng, length = np.random.default_rng(seed), 96
    X, y = np.zeros((n, length)), rng.integers(0, len(DEVICES), n)
    for series, kind in zip(X, y, strict=True):
        events, steps, height, shape, ripple = DEVICES[kind]
        for _ in range(rng.integers(*events, endpoint=True)):
            start = rng.integers(length)
            t = np.arange(rng.integers(*steps, endpoint=True))[: length - start]
            load = np.full(len(t), abs(rng.normal(*height)) + 0.1)
            if shape == "falling":
                load *= 1 - t / (len(t) + 1)
            elif shape == "cycles":
                load *= 0.6 + 0.4 * (t // 4 % 2)
            series[start : start + len(t)] += load * (1 + ripple * rng.normal(size=len(t)))
        if rng.random() < 0.5:
            _, steps, height, _, _ = DEVICES[rng.integers(len(DEVICES))]
            start, n_steps = rng.integers(length), rng.integers(*steps, endpoint=True)
            series[start : start + n_steps] += 0.5 * (abs(rng.normal(*height)) + 0.1)
        series += 0.03 * rng.normal(size=length) * (rng.random() < 0.7)
    X = (X - X.mean(axis=1, keepdims=True)) / (X.std(axis=1, keepdims=True) + 1e-8)
    return X[:, None], y


def curves(n: int, seed: int) -> Problem:
    """Make warped and shifted templates in 100 steps, ``[n, 1, 100]``, and their classes."""
    steps, length = np.linspace(0, 1, 400), 100
    waves = [np.sin(np.pi * (k + 1) * steps + k) / (k + 1) ** 0.5 for k in range(8)]
    templates = np.random.default_rng(20).standard_normal((20, 8)) @ np.stack(waves)
    rng = np.random.default_rng(seed)
    y = rng.integers(0, len(templates), n)
    speed = np.exp(0.4 * rng.standard_normal((n, 5)))
    at = np.linspace(0, 4, length)
    left = np.minimum(at.astype(int), 3)
    place = np.cumsum(speed[:, left] * (1 - at + left) + speed[:, left + 1] * (at - left), axis=1)
    start, span = rng.uniform(0, 0.3, (n, 1)), rng.uniform(0.5, 0.7, (n, 1))
    place = start + span * place / place[:, -1:]
    X = np.stack([np.interp(p, steps, templates[k]) for p, k in zip(place, y, strict=True)])
    centre, height = rng.uniform(0, length, (n, 1)), 2 * rng.standard_normal((n, 1))
    X += height * np.exp(-0.5 * ((np.arange(length) - centre) / 5) ** 2)
    return (X + 0.5 * rng.standard_normal(X.shape))[:, None], y


def read(problem: str, seed: int) -> tuple[Problem, Problem]:
    """Return the series that train and those that are scored."""
    if problem in ("devices", "curves"):
        make, n = globals()[problem], PROBLEMS[problem]
        X, y = make(n + 3000, seed)
        return (X[:n], y[:n]), (X[n:], y[n:])
    if problem == "digits":
        X, y = load_digits(return_X_y=True)
        X = X[:, None]
    else:
        X, y = load_dataset(problem, split="train")
    X, X_scored, y, y_scored = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
    return (X, y), (X_scored, y_scored)


def fit(problem: str, method: str, seed: int) -> dict[str, Any]:
    """Fit one method and score it."""
    torch.set_num_threads(1)
    (X, y), scored = read(problem, seed)
    classifier: Any = TSTransformerClassifier(random_state=seed)
    if method == "random convolutions":
        classifier = RandomConvolutionClassifier(random_state=seed)
    elif method == "a third":
        classifier.set_params(max_epochs=-(-54_000 // len(y)))
    elif method == "before":
        epochs = min(80, -(-160_000 // len(y)))
        classifier.set_params(max_epochs=epochs, learning_rate=0.002, early_stopping=len(y) >= 5000)
    used = time.process_time()
    classifier.fit(X, y)
    used = time.process_time() - used
    return {
        "problem": problem,
        "method": method,
        "seed": seed,
        "epochs": getattr(classifier, "n_iter_", None),
        "train_accuracy": round(classifier.score(X[:1500], y[:1500]), 4),
        "accuracy": round(classifier.score(*scored), 4),
        "cpu_seconds": round(used, 1),
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "many_series")
    options = parser.parse_args(argv)
    cells = (
        (problem, method, seed)
        for seed in options.seeds
        for problem in options.problems
        for method in options.methods
    )
    path = options.out / "many_series.csv"
    fits = fit_missing(path, ["problem", "method", "seed"], cells, fit, options.jobs)
    table = fits.groupby(["problem", "method"])[["accuracy", "cpu_seconds"]].mean().unstack()
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
