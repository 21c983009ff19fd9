"""How good the default is: TSTransformerClassifier(random_state=s) on ten problems, three seeds.

    TSFORMER_DATA=/folder/of/the/archive python experiments/default_accuracy.py [--jobs 2]

Every fit is a row of results/default_accuracy.csv, written when it ends; starting again goes on
with what is missing. The table beside the published figures of ROCKET and ConvTran is printed at
the end.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import time
from functools import partial
from pathlib import Path

import joblib
import pandas as pd
import torch
from resumable import fit_missing

import tsformer
from tsformer import TSTransformerClassifier, load_dataset

RESULTS = Path(__file__).parent / "results"
CSV = RESULTS / "default_accuracy.csv"
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


def table() -> pd.DataFrame:
    """Mean accuracy over seeds beside the published figures."""
    ours = pd.read_csv(CSV).groupby("dataset")
    published = pd.read_csv(RESULTS / "published.csv", index_col="dataset")[["rocket", "convtran"]]
    columns = {
        "tsformer": ours.accuracy.mean(),
        "spread": ours.accuracy.std(),
        "seeds": ours.size(),
        "seconds": ours.fit_seconds.max(),
    }
    return pd.DataFrame(columns).join(published).reindex(DATASETS).dropna(how="all")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--jobs", type=int, default=1, help="fits side by side, the cores shared out"
    )
    jobs = parser.parse_args().jobs
    threads = max(joblib.cpu_count() // jobs, 1)
    cells = itertools.product(DATASETS, SEEDS)
    frame = fit_missing(CSV, ["dataset", "seed"], cells, partial(fit, threads=threads), jobs)
    frame = frame.sort_values(["dataset", "seed"])
    frame.to_csv(CSV, index=False)
    print(table().round(4).to_string())


if __name__ == "__main__":
    main()
