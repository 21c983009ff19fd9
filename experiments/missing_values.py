"""How gaps are best read: cross-validation on train splits, three values in ten taken away.

    TSFORMER_DATA=/folder/of/the/archive python experiments/missing_values.py [--jobs 2]

Values go one by one ("points"), or as three runs of a tenth of the length ("blocks"), in each
channel on its own. Every fold is a row of results/missing_values.csv, written when it ends;
starting again goes on with what is missing. No test split is read.
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np
import torch
from resumable import fit_missing
from sklearn.model_selection import StratifiedKFold

from tsformer import TSTransformerClassifier, load_dataset
from tsformer.data.preprocessor import Preprocessor, Scaler

CSV = Path(__file__).parent / "results" / "missing_values.csv"
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
    """The classifier with another way to read gaps."""

    def _make_preprocessor(self) -> Preprocessor:
        return Scaler(self.scaling, **self.reading)


def taken(shape: tuple[int, ...], pattern: str) -> np.ndarray:
    """Return which values are taken away."""
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
    classifier = Reading(max_epochs=EPOCHS, random_state=fold)
    classifier.reading = READERS[reader]
    accuracy = classifier.fit(X[train], y[train]).score(X[test], y[test])
    return {
        "reader": reader,
        "dataset": dataset,
        "pattern": pattern,
        "fold": fold,
        "accuracy": round(accuracy, 6),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits side by side, one thread each")
    jobs = parser.parse_args().jobs
    cells = itertools.product(READERS, DATASETS, PATTERNS, range(FOLDS))
    fits = fit_missing(CSV, ["reader", "dataset", "pattern", "fold"], cells, fit, jobs)
    table = fits.pivot_table("accuracy", ["pattern", "dataset"], "reader", sort=False, margins=True)
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
