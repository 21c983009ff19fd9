"""Does pretraining help where labels are few? Learning curves with and without it.

    TSFORMER_DATA=/folder/of/the/archive python experiments/pretraining/few_labels.py [--jobs 2]

Of each train split 10, 20, 50 and 100 % of the series keep their labels: stratified, nested, and
the same for every method. "from scratch" and "minirocket" train on these alone; "masked" and
"contrastive" are the same classifier, started from an encoder that was pretrained on the whole
train split without labels. Both scale by channel, as an encoder does, which without labels cannot
choose: the difference is pretraining alone. Everything else is left at its default; of these, the
learning rate for what was pretrained was chosen on the same train splits (learning_rate.py, which
says what had been seen of test splits).

Adds one row per problem, seed, method and size to pretraining.csv as soon as it is known, all of a
seed before the next; running the script again resumes. Encoders, one for all sizes, are trained
where a row needs one, and kept in results/pretraining, which git ignores. Then prints the mean
accuracies and the paired gains over "from scratch", and draws pretraining.png.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments import output
from tsformer import TSTransformerClassifier, TSTransformerEncoder, load_dataset
from tsformer.baselines import PanelClassifier
from tsformer.plots import plot_learning_curves
from tsformer.studies.run.subset import nested_subset

#: Those that the recipe was chosen on which have 200 training series or more.
DATASETS = [
    "Adiac",
    "ArticularyWordRecognition",
    "FingerMovements",
    "OSULeaf",
    "ProximalPhalanxOutlineAgeGroup",
    "ProximalPhalanxOutlineCorrect",
    "ProximalPhalanxTW",
    "SelfRegulationSCP1",
]
SCRATCH = "from scratch"
OBJECTIVES = ["masked", "contrastive"]
METHODS = [SCRATCH, *OBJECTIVES, "minirocket"]
SIZES = ["10%", "20%", "50%", "100%"]
SEEDS = 3


def hidden(y: npt.NDArray[Any], chosen: npt.NDArray[np.intp]) -> npt.NDArray[np.object_]:
    """Return the labels with None for all but the chosen series."""
    known = np.full(len(y), None, dtype=object)
    known[chosen] = y[chosen]
    return known


def encoder_folder(out: Path, dataset: str, seed: int, objective: str, epochs: int | str) -> Path:
    return out / "encoders" / f"{dataset}-{seed}-{objective}-{epochs}"


def pretrain(dataset: str, seed: int, objective: str, epochs: int | str, out: Path) -> None:
    """Pretrain an encoder on a whole train split and keep it, unless that has been done."""
    folder = encoder_folder(out, dataset, seed, objective, epochs)
    if folder.exists():
        return
    torch.set_num_threads(1)
    X, _ = load_dataset(dataset, split="train")
    encoder = TSTransformerEncoder(objective=objective, max_epochs=epochs, random_state=seed)
    encoder.fit(X).save(folder)


def started_from(
    encoder: TSTransformerEncoder, seed: int, epochs: int | str, **options: Any
) -> TSTransformerClassifier:
    """Return a classifier that starts from the encoder and reads series without labels too."""
    return TSTransformerClassifier(
        init_from=encoder, unlabelled="use", max_epochs=epochs, random_state=seed, **options
    )


def measure(
    dataset: str, seed: int, method: str, size: str, epochs: int | str, out: Path
) -> dict[str, object]:
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    chosen = nested_subset(y, size, seed=seed)
    labels = hidden(y, chosen)
    classifier: Any
    pretraining = 0.0
    if method in OBJECTIVES:
        encoder = tsformer.load(encoder_folder(out, dataset, seed, method, epochs))
        pretraining = sum(row["seconds"] for row in encoder.history_)
        classifier = started_from(encoder, seed, epochs)
    else:
        X, labels = X[chosen], y[chosen]
        if method == SCRATCH:
            classifier = TSTransformerClassifier(
                scaling="channel", max_epochs=epochs, random_state=seed
            )
        else:
            classifier = PanelClassifier(method, random_state=seed)
    begun = time.perf_counter()
    classifier.fit(X, labels)
    seconds = time.perf_counter() - begun
    X_test, y_test = load_dataset(dataset, split="test")
    return {
        "dataset": dataset,
        "seed": seed,
        "method": method,
        "train_size": size,
        "n_train": len(chosen),
        "accuracy": round(float(np.mean(classifier.predict(X_test) == y_test)), 6),
        "fit_seconds": round(seconds, 1),
        "pretraining_seconds": round(pretraining, 1),
        "version": tsformer.__version__,
    }


def means(rows: pd.DataFrame) -> pd.DataFrame:
    """Return mean accuracies, a row per size and a column per method; data sets count alike."""
    each = rows.groupby(["train_size", "method", "dataset"], sort=False)["accuracy"].mean()
    return (
        each.groupby(level=[0, 1], sort=False)
        .mean()
        .unstack("method")
        .loc[rows["train_size"].unique()]
    )


def gains(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the gain of each method over training from scratch, by size.

    A row per method and size: the mean over data sets of the paired differences, each the mean
    over the seeds that both have, their standard error, and how many data sets were won and lost.
    """
    scores = rows.pivot_table("accuracy", ["train_size", "dataset", "seed"], "method", sort=False)
    found = []
    for method in scores.columns.drop(SCRATCH):
        paired = (scores[method] - scores[SCRATCH]).dropna()
        for size, part in paired.groupby("train_size", sort=False):
            means = part.groupby("dataset").mean()
            found.append(
                {
                    "method": method,
                    "train_size": size,
                    "n_datasets": len(means),
                    "gain": means.mean(),
                    "standard_error": means.std() / len(means) ** 0.5,
                    "won": int((means > 0).sum()),
                    "lost": int((means < 0).sum()),
                }
            )
    return pd.DataFrame(found)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits in parallel, one thread each")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--sizes", nargs="+", default=SIZES, help="as 10%%, or numbers of series")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--epochs", type=int, help="fewer than the default, for a trial")
    output.add_output_options(parser, "pretraining")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    epochs = options.epochs or "auto"
    path = options.out / "pretraining.csv"

    def one(dataset: str, seed: int, method: str, size: str) -> dict[str, object]:
        return measure(dataset, seed, method, size, epochs, output.UNTRACKED / "pretraining")

    keys = ["dataset", "seed", "method", "train_size"]
    for seed in range(options.seeds):
        cells = list(itertools.product(options.datasets, [seed], METHODS, options.sizes))
        lacking = output.missing(path, keys, cells)
        needed = dict.fromkeys((d, method) for d, _, method, _ in lacking if method in OBJECTIVES)
        # First, so that two processes never pretrain the same encoder.
        joblib.Parallel(options.jobs)(
            joblib.delayed(pretrain)(
                dataset, seed, objective, epochs, output.UNTRACKED / "pretraining"
            )
            for dataset, objective in needed
        )
        rows = output.fit_missing(path, keys, cells, one, options.jobs)
    print(means(rows).round(3).to_string())
    print(gains(rows).round(4).to_string(index=False))
    plot_learning_curves(rows, average=True).savefig(options.out / "pretraining.png", dpi=120)


if __name__ == "__main__":
    main()
