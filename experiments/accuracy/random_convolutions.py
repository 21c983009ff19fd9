"""How good the baseline is: RandomConvolutionClassifier(random_state=s) on the problems of a list.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/random_convolutions.py \
        [problems.txt] [--published FILE|FOLDER] [--seeds 0 1] [--jobs 2]

The list has one name a line; a line that starts with # is a comment. By default it is that of
recipe_study.py. Each fit, on a train split,
writes one row to random_convolutions.csv as soon as it has scored the test split, and its
probabilities of the test series to random_convolutions/PROBLEM-SEED.npz beside it; running the
script again resumes with the fits that are missing. At the end, mean accuracies are printed beside
published ones of the default splits: each method's on the problems that it has, and ours on the
same.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import resource
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments.accuracy.recipe_study import DATASETS
from experiments.output import add_output_options, fit_missing
from experiments.published import PUBLISHED
from tsformer import RandomConvolutionClassifier, load_dataset
from tsformer.studies.analysis.published import published_accuracies

NAME = "random_convolutions"


def fit(dataset: str, seed: int, probabilities: Path) -> dict[str, object]:
    """Fit on one core to the archive's train split and score its test split, once."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    X_test, y_test = load_dataset(dataset, split="test")
    start, used = time.perf_counter(), time.process_time()
    classifier = RandomConvolutionClassifier(random_state=seed).fit(X, y)
    seconds, used = time.perf_counter() - start, time.process_time() - used
    proba = classifier.predict_proba(X_test)
    right = classifier.classes_[proba.argmax(axis=1)] == y_test
    assigned = proba[np.arange(len(y_test)), np.searchsorted(classifier.classes_, y_test)]
    probabilities.mkdir(parents=True, exist_ok=True)
    np.savez(
        probabilities / f"{dataset}-{seed}.npz",
        proba=proba,
        classes=classifier.classes_.astype(str),
        y=np.asarray(y_test).astype(str),
    )
    return {
        "dataset": dataset,
        "seed": seed,
        "accuracy": round(float(right.mean()), 6),
        "log_loss": round(float(-np.log(assigned.clip(min=1e-15)).mean()), 6),
        "fit_seconds": round(seconds, 2),
        "cpu_seconds": round(used, 2),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "features": len(classifier.model_.ridge.coef),
        "threads": 1,
        "tsformer": tsformer.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d"),
    }


def table(fits: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Return each published method's mean accuracy, and ours on the problems that it has."""
    ours = fits.groupby("dataset").accuracy.mean()
    anchors = published.reindex(ours.index)
    gain = anchors.rsub(ours, axis=0).dropna(axis=1, how="all").round(4)
    columns = {
        "problems": gain.count(),
        "published": anchors.mean(),
        "ours": gain.mean() + anchors.mean(),
        "gain": gain.mean(),
        "standard error": gain.sem(),
        "wins": (gain > 0).sum(),
        "losses": (gain < 0).sum(),
    }
    return pd.DataFrame(columns).reindex(gain.columns).sort_values("problems", ascending=False)


def names_in(file: Path) -> list[str]:
    """Return the names in a file, one a line, without its comments."""
    lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "problems",
        type=Path,
        nargs="?",
        help="file with one name a line; by default those of recipe_study.py",
    )
    parser.add_argument(
        "--published", type=Path, default=PUBLISHED, help="CSV of published accuracies, or a folder"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one core each")
    add_output_options(parser, NAME)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    names = DATASETS if options.problems is None else names_in(options.problems)
    path = options.out / f"{NAME}.csv"
    fit_and_save = partial(fit, probabilities=options.out / NAME)
    cells = ((name, seed) for seed, name in itertools.product(options.seeds, names))
    fits = fit_missing(path, ["dataset", "seed"], cells, fit_and_save, options.jobs)
    fits.sort_values(["dataset", "seed"]).to_csv(path, index=False)
    fits = fits[fits.dataset.isin(names)]
    print(fits.groupby("dataset").accuracy.agg(["mean", "std", "size"]).round(4).to_string())
    print(f"mean {fits.groupby('dataset').accuracy.mean().mean():.4f}")
    print(f"median seconds of a fit {fits.fit_seconds.median():.1f}")
    print(table(fits, published_accuracies(options.published)).round(4).to_string())


if __name__ == "__main__":
    main()
