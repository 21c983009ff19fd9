"""How much slower should what was pretrained be trained? The choice of pretrained_lr_scale.

    TSFORMER_DATA=/folder/of/the/archive python experiments/pretraining/learning_rate.py [--jobs 2]

On the train splits of the problems of few_labels.py, whose encoders are used: 20 % of the series
keep their labels, a classifier is started from the encoder and trained on these, and is scored on
the rest of the train split. No test split is read. The encoder has seen the rest without labels,
which flatters all factors alike.

What raised the question were fits of few_labels.py with the factor .1 on Adiac and
ArticularyWordRecognition, and ten fits with the factor 1 on parts of these and of OSULeaf, scored
on their test splits; 1 looked better. The rule, made after those and before any fit of this script:
the factor with the highest mean
over problems and objectives, and of those within half a point of it the smallest.

Adds one row per problem, seed, objective and factor to pretraining_learning_rate.csv as soon as it
is known; running the script again resumes. Then prints the means.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments import output
from experiments.pretraining.few_labels import (
    DATASETS,
    OBJECTIVES,
    encoder_folder,
    hidden,
    pretrain,
    started_from,
)
from tsformer import load_dataset
from tsformer.studies.run.subset import nested_subset

SCALES = [0.1, 0.3, 1.0]
SIZE = "20%"


def measure(
    dataset: str, seed: int, objective: str, scale: float, epochs: int | str, kept: Path
) -> dict[str, object]:
    torch.set_num_threads(1)
    pretrain(dataset, seed, objective, epochs, kept)
    encoder = tsformer.load(encoder_folder(kept, dataset, seed, objective, epochs))
    X, y = load_dataset(dataset, split="train")
    chosen = nested_subset(y, SIZE, seed=seed)
    classifier = started_from(encoder, seed, epochs, pretrained_lr_scale=scale)
    classifier.fit(X, hidden(y, chosen))
    rest = np.setdiff1d(np.arange(len(y)), chosen)
    return {
        "dataset": dataset,
        "seed": seed,
        "objective": objective,
        "scale": scale,
        "n_train": len(chosen),
        "accuracy": round(float(np.mean(classifier.predict(X[rest]) == y[rest])), 6),
        "version": tsformer.__version__,
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits in parallel, one thread each")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--epochs", type=int, help="fewer than the default, for a trial")
    output.add_output_options(parser, "pretraining_learning_rate")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    epochs = options.epochs or "auto"

    def one(dataset: str, seed: int, objective: str, scale: float) -> dict[str, object]:
        kept = output.UNTRACKED / "pretraining"
        return measure(dataset, seed, objective, scale, epochs, kept)

    path = options.out / "pretraining_learning_rate.csv"
    cells = itertools.product(options.datasets, [0], OBJECTIVES, SCALES)
    keys = ["dataset", "seed", "objective", "scale"]
    rows = output.fit_missing(path, keys, cells, one, options.jobs)
    each = rows.pivot_table("accuracy", ["objective", "dataset"], "scale", sort=False)
    print(each.round(3).to_string())
    print(each.mean().round(4).to_string())


if __name__ == "__main__":
    main()
