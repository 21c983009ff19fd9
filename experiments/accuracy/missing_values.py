"""How gaps are best handled: cross-validation on train splits with 30 % of the values removed.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/missing_values.py [--jobs 2]

Values are removed one by one ("points") or in three runs, each a tenth of the series long
("blocks"), independently in each channel. Writes one row per fold to missing_values.csv, as soon as
the fold ends; running the script again resumes with the folds that are missing. No test split is
read.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from experiments.recipe_0_1 import recipe_0_1
from tsformer import TSTransformerClassifier, load_dataset
from tsformer.data.preprocessor import Preprocessor, Scaler

DATASETS = ["ItalyPowerDemand", "GunPoint", "ECG200", "ArrowHead", "NATOPS", "BasicMotions"]
PATTERNS = ["points", "blocks"]
FOLDS, EPOCHS = 3, 40


READERS: dict[str, dict[str, object]] = {
    "complete": {},
    "filled": {},
    "unflagged": {"gap_flag": None},
    "large flags": {"gap_flag": -1.0},
    "masked": {"gaps": "mask"},
}


class Reading(TSTransformerClassifier):
    """The classifier with another way to handle gaps."""

    def _make_preprocessor(self, scaling: str | None) -> Preprocessor:
        return Scaler(scaling, **self.reading)


def taken(shape: tuple[int, ...], pattern: str) -> np.ndarray:
    """Return which values are removed."""
    rng = np.random.default_rng(0)
    if pattern == "points":
        return rng.random(shape) < 0.3
    gone = np.zeros(shape, dtype=bool)
    for series in gone.reshape(-1, shape[-1]):
        for start in rng.integers(0, shape[-1], 3):
            series[start : start + shape[-1] // 10] = True
    return gone


def fit(reader: str, dataset: str, pattern: str, fold: int) -> dict[str, object]:
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    if reader != "complete":
        X = np.where(taken(X.shape, pattern), np.nan, X)
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=7)
    train, test = list(splitter.split(y, y))[fold]
    classifier = Reading(max_epochs=EPOCHS, random_state=fold, **recipe_0_1())
    classifier.reading = READERS[reader]
    accuracy = classifier.fit(X[train], y[train]).score(X[test], y[test])
    return {
        "reader": reader,
        "dataset": dataset,
        "pattern": pattern,
        "fold": fold,
        "accuracy": round(accuracy, 6),
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "missing_values")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = itertools.product(READERS, DATASETS, PATTERNS, range(FOLDS))
    keys = ["reader", "dataset", "pattern", "fold"]
    fits = fit_missing(options.out / "missing_values.csv", keys, cells, fit, options.jobs)
    table = fits.pivot_table("accuracy", ["pattern", "dataset"], "reader", sort=False, margins=True)
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
