"""Measure what tracking costs: the same fits with and without MLflowTracker, in turn.

    python experiments/tracking_cost.py

Writes results/tracking_cost.csv, a row a data set: the median CPU seconds of a fit, and how many
times as many it takes with tracking, without its pictures and with them; each ratio is the median
over rounds of fits made one after the other. CPU time, for other work on a machine changes no ratio
of it. Making the store's tables, once a store, is not counted.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from time import process_time

import pandas as pd
import torch

from tsformer import TSTransformerClassifier, load_dataset
from tsformer.tracking import MLflowTracker, prepare_store

RESULTS = Path(__file__).parent / "results" / "tracking_cost.csv"
KINDS = ("plain", "tracked", "pictures")


def measure(dataset: str, *, epochs: int | None, repeats: int, store: str) -> dict[str, object]:
    X, y = load_dataset(dataset, split="train")
    rounds = []
    for repeat in range(-1, repeats):  # the first round warms up
        seconds = {}
        for kind in KINDS if repeat % 2 else reversed(KINDS):
            tracker = MLflowTracker(store, pictures=kind == "pictures")
            classifier = TSTransformerClassifier(
                max_epochs=epochs or "auto",
                random_state=0,
                callbacks=[] if kind == "plain" else [tracker],
            )
            begun = process_time()
            classifier.fit(X, y)
            seconds[kind] = process_time() - begun
        rounds.append(seconds)
    table = pd.DataFrame(rounds[1:])
    ratios = table.div(table["plain"], axis=0).median()
    return {
        "dataset": dataset,
        "epochs": classifier.n_iter_,
        "rounds": repeats,
        "cpu_seconds": round(float(table["plain"].median()), 2),
        "ratio_tracked": round(float(ratios["tracked"]), 3),
        "ratio_with_pictures": round(float(ratios["pictures"]), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", default="ItalyPowerDemand,JapaneseVowels")
    parser.add_argument("--epochs", type=int, help="the default's own if not given")
    parser.add_argument("--repeats", type=int, default=4, help="rounds of three fits a data set")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{folder}/mlflow.db"
        prepare_store(store)
        for dataset in options.datasets.split(","):
            rows.append(
                measure(dataset, epochs=options.epochs, repeats=options.repeats, store=store)
            )
            print(rows[-1], flush=True)
    pd.DataFrame(rows).to_csv(options.out, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
