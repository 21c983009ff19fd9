"""What the ensemble's gate saves and costs, on the problems of default_against_the_field.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/gate.py [--jobs 2]

Fits random convolutions to the train split of each problem and appends to gate.csv the share of the
classes' entropy that their leave-one-out predictions leave unexplained. The ensemble with the gate
scores and costs what the random convolutions do where the share is below the gate, and what the
ensemble without a gate does elsewhere: both are rows of default_against_the_field.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.accuracy.recipe_study import DATASETS as DEVELOPMENT
from experiments.output import COMMITTED, add_output_options, fit_missing
from tsformer import RandomConvolutionClassifier, TSEnsembleClassifier, load_dataset

FIELD = COMMITTED / "default_against_the_field/results.csv"


def fit(dataset: str, seed: int) -> dict[str, object]:
    """Measure what the random convolutions leave unexplained of the train split."""
    torch.set_num_threads(1)
    classifier = RandomConvolutionClassifier(random_state=seed)
    classifier.fit(*load_dataset(dataset, split="train"))
    unexplained = round(classifier.model_.ridge.unexplained, 6)
    date = time.strftime("%Y-%m-%d")
    return {"dataset": dataset, "seed": seed, "unexplained": unexplained, "date": date}


def summary(rows: pd.DataFrame, gate: float) -> pd.DataFrame:
    """Return accuracy and seconds with and without the gate, by set of problems."""
    field = pd.read_csv(FIELD).set_index(["dataset", "seed", "method"])
    columns = ["accuracy", "fit_cpu_seconds"]
    plain, short = (
        field.xs(m, level="method")[columns] for m in ("ensemble", "random-convolutions")
    )
    below = rows.set_index(["dataset", "seed"]).unexplained < gate
    gated = plain.where(~below.reindex(plain.index), short)
    found = {}
    for name, inside in (("development", True), ("confirmation", False)):
        chosen = [d in DEVELOPMENT for d in plain.index.get_level_values("dataset")]
        problems = plain.index[[each == inside for each in chosen]]
        for label, table in (("without", plain), ("with", gated)):
            means = table.loc[problems].groupby("dataset").mean()
            found[name, label] = {
                "problems": len(means),
                "accuracy": means.accuracy.mean(),
                "seconds, mean": means.fit_cpu_seconds.mean(),
                "seconds, median": means.fit_cpu_seconds.median(),
                "fits without a transformer": below.loc[problems].mean() * (label == "with"),
            }
        gain = (gated - plain).accuracy.loc[problems].groupby("dataset").mean()
        found[name, "with"] |= {"worst": gain.min(), "standard error of the gain": gain.sem()}
    return pd.DataFrame(found).T


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--gate", type=float, default=TSEnsembleClassifier().gate)
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "gate")
    options = parser.parse_args(argv)
    datasets = pd.read_csv(FIELD).dataset.unique()
    cells = ((dataset, seed) for seed in options.seeds for dataset in datasets)
    rows = fit_missing(options.out / "gate.csv", ["dataset", "seed"], cells, fit, options.jobs)
    print(summary(rows, options.gate).round(4).to_string())


if __name__ == "__main__":
    main()
