"""What tracking costs: the same fits with and without MLflowTracker, taking turns.

    python experiments/cost/tracking_cost.py

Writes one row per data set to tracking_cost.csv: the median CPU seconds of an untracked fit, and
how many times as long fits take that are tracked, without and with pictures; each ratio is a median
over rounds of consecutive fits. CPU time is used because other work on the machine hardly changes
it. Creating the tables of the store, which happens once per store, is not counted.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options
from tsformer import TSTransformerClassifier, load_dataset
from tsformer.tracking import MLflowTracker, prepare_store

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


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", default="ItalyPowerDemand,JapaneseVowels")
    parser.add_argument("--epochs", type=int, help="by default those of the estimator")
    parser.add_argument("--repeats", type=int, default=4, help="rounds of three fits per data set")
    add_output_options(parser, "tracking_cost")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
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
    options.out.mkdir(parents=True, exist_ok=True)
    path = options.out / "tracking_cost.csv"
    pd.DataFrame(rows).to_csv(path, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
