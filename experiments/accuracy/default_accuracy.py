"""How good the default is: TSTransformerClassifier(random_state=s) on ten problems, three seeds.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/default_accuracy.py [--jobs 2]

Writes one row per fit to default_accuracy.csv, as soon as the fit ends; running the script again
resumes with the fits that are missing. Mean accuracies are printed at the end, beside the published
ones of ROCKET and ConvTran.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import joblib
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments.output import COMMITTED, add_output_options, fit_missing
from tsformer import TSTransformerClassifier, load_dataset

DATASETS = [
    "NATOPS",
    "BasicMotions",
    "Epilepsy",
    "JapaneseVowels",
    "ECG200",
    "GunPoint",
    "ArrowHead",
    "ItalyPowerDemand",
    "OSULeaf",
    "SelfRegulationSCP1",
]
SEEDS = [0, 1, 2]


def fit(dataset: str, seed: int, threads: int) -> dict[str, object]:
    """Train on the archive's train split and score its test split, once."""
    torch.set_num_threads(threads)
    X, y = load_dataset(dataset, split="train")
    start = time.perf_counter()
    classifier = TSTransformerClassifier(random_state=seed).fit(X, y)
    seconds = time.perf_counter() - start
    return {
        "dataset": dataset,
        "seed": seed,
        "accuracy": round(classifier.score(*load_dataset(dataset, split="test")), 6),
        "fit_seconds": round(seconds, 1),
        "epochs": classifier.n_iter_,
        "parameters": sum(p.numel() for p in classifier.model_.parameters()),
        "threads": threads,
        "tsformer": tsformer.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def table(fits: pd.DataFrame) -> pd.DataFrame:
    """Return mean accuracies over seeds beside the published ones."""
    ours = fits.groupby("dataset")
    published = pd.read_csv(COMMITTED / "published.csv", index_col="dataset")
    columns = {
        "tsformer": ours.accuracy.mean(),
        "spread": ours.accuracy.std(),
        "seeds": ours.size(),
        "seconds": ours.fit_seconds.max(),
    }
    beside = pd.DataFrame(columns).join(published[["rocket", "convtran"]])
    return beside.reindex(DATASETS).dropna(how="all")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--jobs", type=int, default=1, help="fits run in parallel, the cores shared among them"
    )
    add_output_options(parser, "default_accuracy")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    threads = max(joblib.cpu_count() // options.jobs, 1)
    cells = itertools.product(DATASETS, SEEDS)
    path = options.out / "default_accuracy.csv"
    fit_in_share = partial(fit, threads=threads)
    fits = fit_missing(path, ["dataset", "seed"], cells, fit_in_share, options.jobs)
    fits.sort_values(["dataset", "seed"]).to_csv(path, index=False)
    print(table(fits).round(4).to_string())


if __name__ == "__main__":
    main()
