"""How to scale series whose sizes are decades apart: by held-out parts of train splits.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/far_sizes.py [--jobs 2]

Of the problems of the archive PLAID and LSST have such series, and both are among those that are
kept for a recipe that is final. So nothing here reads their test splits: the train split is divided
at random, by class, and what was fitted to seven tenths is scored on the rest. One row per fit goes
to far_sizes.csv as soon as the fit ends; running the script again resumes with the fits that are
missing.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.metrics import log_loss
from sklearn.model_selection import StratifiedShuffleSplit

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments.output import add_output_options, fit_missing
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier, load_dataset
from tsformer.data.containers import to_arrays
from tsformer.tracking.store import commit

NAME = "far_sizes"
DATASETS = ["PLAID", "LSST"]
METHODS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    'scaling="channel"': (TSTransformerClassifier, {"scaling": "channel"}),
    'scaling="series"': (TSTransformerClassifier, {"scaling": "series"}),
    'scaling="series+size"': (TSTransformerClassifier, {"scaling": "series+size"}),
    "random convolutions": (RandomConvolutionClassifier, {}),
}
HELD_OUT = 0.3


def fit(method: str, dataset: str, seed: int) -> dict[str, object]:
    """Fit to a part of the train split and score the rest."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    series = to_arrays(X)
    divide = StratifiedShuffleSplit(1, test_size=HELD_OUT, random_state=seed)
    seen, held_out = next(divide.split(np.zeros(len(y)), y))
    kind, options = METHODS[method]
    start = time.process_time()
    classifier = kind(random_state=seed, **options).fit([series[i] for i in seen], y[seen])
    seconds = time.process_time() - start
    proba = classifier.predict_proba([series[i] for i in held_out])
    right = classifier.classes_[proba.argmax(axis=1)] == y[held_out]
    return {
        "dataset": dataset,
        "method": method,
        "seed": seed,
        "accuracy": round(float(right.mean()), 6),
        "log_loss": round(log_loss(y[held_out], proba, labels=classifier.classes_), 4),
        "cpu_seconds": round(seconds, 1),
        "version": tsformer.__version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, NAME)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = (
        (method, dataset, seed)
        for seed, dataset, method in itertools.product(
            options.seeds, options.datasets, options.methods
        )
    )
    keys = ["method", "dataset", "seed"]
    fits = fit_missing(options.out / f"{NAME}.csv", keys, cells, fit, options.jobs)
    print(fits.pivot_table("accuracy", "method", "dataset").round(3).to_string())


if __name__ == "__main__":
    main()
