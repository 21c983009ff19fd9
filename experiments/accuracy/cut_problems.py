"""Series that differ in length and in size: development problems that were made so.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/cut_problems.py [--jobs 2]

None of the development problems has series of unequal length, or of sizes that say nothing or are
far apart. Four things are done to some of them, to the train and the test split alike:

- "cut": of each series a piece is left, a quarter of its length or more, and anywhere in it;
- "tempo": each series is resampled to a quarter of its steps or more;
- "units": each series is multiplied by a number of its own, the exponential of a normal one of
  deviation 1.2;
- "loads": so it is, and by a number of its class; those of all classes are spread evenly over four
  decades, as the currents of devices are.

A fit sees the changed train split and is scored on the changed test split: the problems are those
on which recipes may be chosen by their test splits. One row per fit goes to cut_problems.csv as
soon as the fit ends; running the script again resumes with the fits that are missing.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments.output import add_output_options, fit_missing
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier, load_dataset
from tsformer.tracking.store import commit

NAME = "cut_problems"
DATASETS = ["ACSF1", "FaceFour", "Lightning2", "OSULeaf", "Worms"]
CHANGES = ("cut", "tempo", "units", "loads")
#: Where the default is compared with one scaling for all.
SCALINGS = {"scaling channels": ("units", "loads"), "scaling series": ("loads",)}
METHODS: dict[str, tuple[type[Any], dict[str, Any]]] = {
    "default": (TSTransformerClassifier, {}),
    "no pooling": (TSTransformerClassifier, {"stem_params": {"downsampling": "stride"}}),
    "scaling channels": (TSTransformerClassifier, {"scaling": "channel"}),
    "scaling series": (TSTransformerClassifier, {"scaling": "series"}),
    "random convolutions": (RandomConvolutionClassifier, {}),
}
SHORTEST = 0.25
SPREAD_OF_UNITS = 1.2
DECADES_OF_LOADS = 4.0

Labels = npt.NDArray[np.str_]
Series = npt.NDArray[np.floating[Any]]


def changed(X: Sequence[Series], y: Labels, change: str, seed: int) -> list[Series]:
    """Return series ``[C, L]`` of labels ``y`` cut, resampled, or of other sizes."""
    rng = np.random.default_rng(seed)
    classes, of_class = np.unique(y, return_inverse=True)
    # The same for both splits, whatever their seed.
    loads = np.random.default_rng(0).permutation(np.linspace(0, DECADES_OF_LOADS, len(classes)))
    made = []
    for x, k in zip(X, of_class, strict=True):
        length = x.shape[1]
        n_left = max(round(rng.uniform(SHORTEST, 1) * length), 8)
        if change == "cut":
            start = rng.integers(0, length - n_left + 1)
            made.append(x[:, start : start + n_left])
        elif change == "tempo":
            steps, asked = np.arange(length), np.linspace(0, length - 1, n_left)
            made.append(np.stack([np.interp(asked, steps, channel) for channel in x]))
        else:
            load = 10 ** loads[k] if change == "loads" else 1.0
            made.append(load * x * np.exp(SPREAD_OF_UNITS * rng.standard_normal()))
    return made


def fit(method: str, dataset: str, change: str, seed: int) -> dict[str, object]:
    """Fit to the changed train split and score the changed test split."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    X_test, y_test = load_dataset(dataset, split="test")
    kind, options = METHODS[method]
    start = time.process_time()
    classifier = kind(random_state=seed, **options).fit(changed(X, y, change, 1), y)
    seconds = time.process_time() - start
    accuracy = float((classifier.predict(changed(X_test, y_test, change, 2)) == y_test).mean())
    return {
        "method": method,
        "dataset": dataset,
        "change": change,
        "seed": seed,
        "accuracy": round(accuracy, 6),
        "cpu_seconds": round(seconds, 1),
        "version": tsformer.__version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=list(CHANGES))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, NAME)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = itertools.product(options.methods, options.datasets, options.changes, options.seeds)
    cells = (cell for cell in cells if cell[2] in SCALINGS.get(cell[0], CHANGES))
    keys = ["method", "dataset", "change", "seed"]
    fits = fit_missing(options.out / f"{NAME}.csv", keys, cells, partial(fit), options.jobs)
    table = fits.pivot_table("accuracy", ["change", "dataset"], "method", aggfunc="mean")
    print(table.round(3).to_string())
    print(table.groupby("change").mean().round(3).to_string())


if __name__ == "__main__":
    main()
