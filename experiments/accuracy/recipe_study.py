"""What raises accuracy: variants of the default recipe, paired, on 22 development problems.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/recipe_study.py \
        [--variants VARIANT ...] [--seeds 0 1] [--jobs 2]

Fits see the train split and are scored on the test split: these problems serve to choose recipes.
Appends each fit to recipe_study.csv and resumes from it; a trial run also keeps the probabilities
of the test series, for averages of several models.

A variant is adopted if it gains at least half a point on average over two seeds, no more than a
third of the problems are worse, and none by more than five points without a reason that is named.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import log_loss

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments.output import COMMITTED, add_output_options, fit_missing
from tsformer import TSTransformerClassifier, load_dataset

DATASETS = [
    "ACSF1",
    "Adiac",
    "ArrowHead",
    "ArticularyWordRecognition",
    "Car",
    "ECG200",
    "FaceFour",
    "FingerMovements",
    "Fish",
    "Ham",
    "HandMovementDirection",
    "Handwriting",
    "Herring",
    "Lightning2",
    "NATOPS",
    "OSULeaf",
    "ProximalPhalanxOutlineAgeGroup",
    "ProximalPhalanxOutlineCorrect",
    "ProximalPhalanxTW",
    "SelfRegulationSCP1",
    "Worms",
    "WormsTwoClass",
]
# What differs from the default. The levers of the default are left out one at a time.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no augmentation": {"augmentation": None},
    "no warping": {"augmentation": "cutmix"},
    "no mixing": {"augmentation": "warp"},
    "every second series mixed": {"augmentation_params": {"cutmix": {"p": 0.5}}},
    "no norm before the head": {"head_norm": None},
    "no differences": {"views": "values"},
    "no residual layer": {"stem_params": {"n_residual": 0}},
    "scaling by channel": {"scaling": "channel"},
    "60 passes": {"max_epochs": 60},
    "no pooling": {"stem_params": {"downsampling": "stride"}},
}
NAMES = list(VARIANTS)


def fit(variant: str, dataset: str, seed: int, folder: Path | None) -> dict[str, object]:
    """Train on the train split, score the test split, and keep its probabilities in `folder`."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    X_test, y_test = load_dataset(dataset, split="test")
    start, used = time.perf_counter(), time.process_time()
    classifier = TSTransformerClassifier(random_state=seed, **VARIANTS[variant]).fit(X, y)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    members = classifier.predict_proba_members(X_test)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(
            folder / f"{variant}-{dataset}-{seed}.npz",
            members=members,
            temperatures=classifier.temperatures_,
        )
    proba = members.mean(axis=0)
    return {
        "variant": variant,
        "dataset": dataset,
        "seed": seed,
        "accuracy": round(float((classifier.classes_[proba.argmax(axis=1)] == y_test).mean()), 6),
        "log_loss": round(log_loss(y_test, proba, labels=classifier.classes_), 4),
        "fit_seconds": round(seconds, 1),
        "cpu_seconds": round(used, 1),
        "tsformer": tsformer.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def summary(fits: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Return for each variant its mean paired gain over the baseline, where both were fitted."""
    scores = fits.pivot_table("accuracy", "variant", ["dataset", "seed"])
    rows = {}
    for variant, row in scores.iterrows():
        gain = (row - scores.loc[baseline]).dropna().groupby("dataset").mean()
        fitted = fits[fits.variant == variant]
        rows[variant] = {
            "accuracy": fitted.groupby("dataset").accuracy.mean().mean(),
            "gain": gain.mean(),
            "standard_error": gain.sem(),
            "better": int((gain > 0).sum()),
            "worse": int((gain < 0).sum()),
            "worst": gain.min(),
            "fits": len(fitted),
        }
    return pd.DataFrame(rows).T


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--variants", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--baseline", choices=NAMES, default="default")
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "recipe_study")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = (
        (variant, dataset, seed)
        for seed in options.seeds
        for variant in options.variants
        for dataset in options.datasets
    )
    path = options.out / "recipe_study.csv"
    folder = None if options.out == COMMITTED else options.out / "probabilities"
    keys = ["variant", "dataset", "seed"]
    fits = fit_missing(path, keys, cells, partial(fit, folder=folder), options.jobs)
    if options.baseline not in set(fits.variant):
        raise SystemExit(f"{path} has no fits of {options.baseline!r} to compare with; --baseline")
    print(summary(fits, options.baseline).round(4).to_string())


if __name__ == "__main__":
    main()
