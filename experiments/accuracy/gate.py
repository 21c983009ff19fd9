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

#: Rows of all methods on all problems.
FIELD = COMMITTED / "default_against_the_field/results.csv"


def fit(dataset: str, seed: int) -> dict[str, object]:
    """Measure what the random convolutions leave unexplained of the train split."""
    torch.set_num_threads(1)
    classifier = RandomConvolutionClassifier(random_state=seed)
    classifier.fit(*load_dataset(dataset, split="train"))
    unexplained = round(classifier.model_.ridge.unexplained, 6)
    date = time.strftime("%Y-%m-%d")
    return {"dataset": dataset, "seed": seed, "unexplained": unexplained, "date": date}


def gated(fits: pd.DataFrame, shares: pd.DataFrame, gate: float) -> pd.DataFrame:
    """Return fits in which the ensemble is the random convolutions where the share is below."""
    keys = ["dataset", "seed"]
    below = shares.loc[shares.unexplained < gate, keys]
    short = fits[fits.method == "random-convolutions"].merge(below, on=keys)
    replaced = pd.MultiIndex.from_frame(fits[keys]).isin(pd.MultiIndex.from_frame(below))
    kept = fits[~(replaced & (fits.method == "ensemble"))]
    return pd.concat([kept, short.assign(method="ensemble")])


def summary(fits: pd.DataFrame, shares: pd.DataFrame, gate: float) -> pd.DataFrame:
    """Return accuracy and seconds of the ensemble with and without the gate."""
    values = ["accuracy", "fit_cpu_seconds"]
    means = {
        label: table[table.method == "ensemble"].groupby("dataset")[values].mean()
        for label, table in (("0", fits), (f"{gate:g}", gated(fits, shares, gate)))
    }
    plain = means["0"]
    inside = plain.index.isin(DEVELOPMENT)
    found = {}
    for problems, chosen in (("development", inside), ("confirmation", ~inside)):
        for label, table in means.items():
            gains = (table - plain).accuracy[chosen]
            found[problems, label] = {
                "problems": chosen.sum(),
                "accuracy": table.accuracy[chosen].mean(),
                "gain": gains.mean(),
                "least": gains.min(),
                "most": gains.max(),
                "seconds, mean": table.fit_cpu_seconds[chosen].mean(),
                "seconds, median": table.fit_cpu_seconds[chosen].median(),
            }
    return pd.DataFrame(found).T.rename_axis(["problems", "gate"])


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--gate", type=float, default=TSEnsembleClassifier().gate)
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "gate")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    fits = pd.read_csv(FIELD)
    cells = ((dataset, seed) for seed in options.seeds for dataset in fits.dataset.unique())
    path = options.out / "gate.csv"
    shares = fit_missing(path, ["dataset", "seed"], cells, fit, options.jobs)
    print(summary(fits, shares, options.gate).round(4).to_string())


if __name__ == "__main__":
    main()
