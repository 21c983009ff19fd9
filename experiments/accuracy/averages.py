"""What averaging the transformer and the random convolutions gains: their saved probabilities.

    python experiments/accuracy/averages.py TRANSFORMERS CONVOLUTIONS

TRANSFORMERS is the folder that `recipe_study.py --out` wrote to, CONVOLUTIONS that of
`random_convolutions.py --out`: both keep the probabilities of the test series. For each problem and
seed that both have, the probabilities of the default and of the random convolutions are averaged
with the weights of `TSEnsembleClassifier`, and averages.csv gets the accuracy of each and of the
average. That is what ``TSEnsembleClassifier(quality="fast")`` does, with seeds of its own; nothing
is fitted here.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, replace_rows
from tsformer.estimators.ensemble import WEIGHTS


def row(dataset: str, seed: int, transformer: Path, convolutions: Path) -> dict[str, object]:
    """Return the accuracies of a problem and seed, from the two files of probabilities."""
    other = np.load(convolutions)
    labels = np.searchsorted(other["classes"], other["y"])
    parts = {
        "transformer": np.load(transformer)["members"].mean(axis=0),
        "random_convolutions": other["proba"],
    }
    parts["average"] = sum(WEIGHTS[name] * proba for name, proba in parts.items())
    accuracies = {
        name: round(float((proba.argmax(axis=1) == labels).mean()), 6)
        for name, proba in parts.items()
    }
    return {"dataset": dataset, "seed": seed, **accuracies}


def averages(transformers: Path, convolutions: Path) -> pd.DataFrame:
    """Return a row for each problem and seed of which both folders have probabilities."""
    rows = []
    for ours in sorted(transformers.glob("probabilities/default-*.npz")):
        dataset, seed = ours.stem.removeprefix("default-").rsplit("-", 1)
        other = convolutions / "random_convolutions" / f"{dataset}-{seed}.npz"
        if other.exists():
            rows.append(row(dataset, int(seed), ours, other))
    if not rows:
        raise SystemExit(
            f"{transformers}/probabilities and {convolutions}/random_convolutions have no problem "
            "and seed in common; run recipe_study.py and random_convolutions.py with --out first"
        )
    return pd.DataFrame(rows)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("transformers", type=Path)
    parser.add_argument("convolutions", type=Path)
    add_output_options(parser, "averages")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    path = options.out / "averages.csv"
    new = averages(options.transformers, options.convolutions)
    rows = replace_rows(new, path, ["dataset", "seed"]).sort_values(["dataset", "seed"])
    rows.to_csv(path, index=False)
    print(rows.groupby("dataset").mean().drop(columns="seed").round(3).to_string())
    print(rows.groupby("dataset").mean().mean().drop("seed").round(4).to_string())


if __name__ == "__main__":
    main()
