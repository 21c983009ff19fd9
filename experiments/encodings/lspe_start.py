"""Whether a larger code at the start helps `lspe` behind the linear stem: development problems.

    TSFORMER_DATA=/folder/of/the/archive python experiments/encodings/lspe_start.py [--seeds 0 1]

Width 32. 60 epochs are 120 to 720 optimizer steps on these problems, "auto" at least 1,000. Fits
are scored on the test split: these problems serve to choose defaults. Appends each fit to
lspe_start.csv and resumes from it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from tsformer import TSTransformerClassifier, load_dataset

DATASETS = ["ArrowHead", "FaceFour", "ECG200", "Lightning2", "NATOPS", "Handwriting"]
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "fixed": ("fixed", {}),
    "lspe": ("lspe", {}),
    "lspe, init_std=0.2": ("lspe", {"init_std": 0.2}),
}
BUDGETS = {"60 epochs": 60, "auto": "auto"}
KEYS = ["budget", "seed", "dataset", "variant"]


def fit(budget: str, seed: int, dataset: str, variant: str) -> dict[str, object]:
    """Train on the train split and score the test split."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    X_test, y_test = load_dataset(dataset, split="test")
    encoding, params = VARIANTS[variant]
    used = time.process_time()
    classifier = TSTransformerClassifier(
        encoding,
        encoding_params=params,
        stem="linear",
        d_model=32,
        max_epochs=BUDGETS[budget],
        random_state=seed,
    ).fit(X, y)
    return {
        **dict(zip(KEYS, (budget, seed, dataset, variant), strict=True)),
        "accuracy": round(classifier.score(X_test, y_test), 6),
        "cpu_seconds": round(time.process_time() - used, 1),
        "date": time.strftime("%Y-%m-%d"),
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--budgets", nargs="+", choices=BUDGETS, default=list(BUDGETS))
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "lspe_start")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = itertools.product(options.budgets, options.seeds, DATASETS, VARIANTS)
    fits = fit_missing(options.out / "lspe_start.csv", KEYS, cells, fit, options.jobs)
    print(fits.pivot_table("accuracy", ["budget", "dataset"], "variant").round(3).to_string())


if __name__ == "__main__":
    main()
