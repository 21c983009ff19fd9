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
from unittest import mock

import numpy as np
import torch
from sklearn.model_selection import StratifiedKFold

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from tsformer import TSTransformerClassifier, load_dataset
from tsformer.data.panel import Padded, Panel
from tsformer.data.scaling import Scaler, make_panel

DATASETS = ["ItalyPowerDemand", "GunPoint", "ECG200", "ArrowHead", "NATOPS", "BasicMotions"]
PATTERNS = ["points", "blocks"]
FOLDS, EPOCHS = 3, 40


class WithoutFlags(Scaler):
    """Fills gaps as the package does, but does not flag them."""

    def fit(self, series: Padded) -> Scaler:
        super().fit(series)
        self.flagged = np.zeros_like(self.flagged)
        return self


class LargeFlags(Scaler):
    """Fills gaps as the package does, with flags on the scale of the values."""

    def transform(self, series: Padded) -> Panel:
        with mock.patch("tsformer.data.scaling.GAP", -1.0):
            return super().transform(series)


class Masked(Scaler):
    """Fills gaps with the mean, flags them by 0 and 1, and masks steps without any value."""

    def transform(self, series: Padded) -> Panel:
        observed = series.there[..., None] & ~np.isnan(series.values)
        values = np.where(observed, (series.values - self.mean) / self.std, 0.0)
        values = np.concatenate([values, observed[..., self.flagged]], axis=-1)
        return make_panel(values, series, observed.any(axis=-1), self.step)


READERS = {
    "complete": Scaler,
    "filled": Scaler,
    "unflagged": WithoutFlags,
    "large flags": LargeFlags,
    "masked": Masked,
}


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
    with mock.patch("tsformer.estimators.base.Scaler", READERS[reader]):
        classifier = TSTransformerClassifier(max_epochs=EPOCHS, random_state=fold)
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
