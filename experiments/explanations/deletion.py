"""Whether what is called relevant matters: deletion curves on real problems, against random ones.

    TSFORMER_DATA=/folder/of/the/archive python experiments/explanations/deletion.py [--jobs 2]

A model learns the train split. Of up to 100 test series, the values of most relevance are replaced
by the mean of their channel, a twentieth of the series at a time up to a half, and the probability
of the class that was predicted at first is noted: its mean is the area under the deletion curve,
and lower is better. Adds one row per problem, seed and method to explanations_deletion.csv, as soon
as it is known; running the script again resumes. "random values" deletes single values at random,
"random windows" windows of a tenth of the series, one after another: deleting a connected piece
does other harm than deleting as many values here and there. Labels of the test split are not read.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from tsformer import TSTransformerClassifier, load_dataset
from tsformer.explain import METHODS

#: Of those that the recipe was chosen on.
DATASETS = ["ECG200", "ArrowHead", "FaceFour", "Fish", "NATOPS", "ArticularyWordRecognition"]
RANDOM = ["random values", "random windows"]
ORDERS = [*RANDOM, *METHODS]
SHARES = np.linspace(0, 0.5, 11)
SEEDS, N_TEST = 3, 100


@cache
def fitted(dataset: str, seed: int, epochs: int | str) -> TSTransformerClassifier:
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    # What is deleted becomes the mean of its channel.
    classifier = TSTransformerClassifier(scaling="channel", max_epochs=epochs, random_state=seed)
    return classifier.fit(X, y)


def importance(clf: TSTransformerClassifier, X: np.ndarray, order: str, seed: int) -> np.ndarray:
    """Return what is deleted first, (n, C, L)."""
    rng = np.random.default_rng(seed)
    if order == "random values":
        return rng.random(X.shape)
    if order == "random windows":
        width = max(1, round(X.shape[2] / 10))
        of_window = rng.random((*X.shape[:2], -(-X.shape[2] // width)))
        # The order within a window is from its beginning.
        fall = 1e-6 * (np.arange(X.shape[2]) % width)
        return of_window.repeat(width, axis=2)[..., : X.shape[2]] - fall
    return clf.explain(X, order)


def measure(dataset: str, seed: int, order: str, epochs: int | str) -> dict[str, object]:
    clf = fitted(dataset, seed, epochs)
    X, _ = load_dataset(dataset, split="test")
    X = X[np.random.default_rng(0).permutation(len(X))[:N_TEST]]
    own = clf.predict_proba(X).argmax(axis=1)
    ranked = np.argsort(-importance(clf, X, order, seed).reshape(len(X), -1), axis=1)
    mean = np.broadcast_to(clf.preprocessor_.mean.numpy()[:, None], X.shape)
    left = []
    for share in SHARES:
        gone = np.zeros(ranked.shape, dtype=bool)
        np.put_along_axis(gone, ranked[:, : round(share * ranked.shape[1])], True, axis=1)
        deleted = np.where(gone.reshape(X.shape), mean, X)
        left.append(clf.predict_proba(deleted)[np.arange(len(X)), own].mean())
    return {
        "dataset": dataset,
        "seed": seed,
        "order": order,
        "n_series": len(X),
        "area": round(float(np.mean(left)), 5),
        "half": round(float(left[-1]), 5),
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="rows in parallel, one thread each")
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--epochs", type=int, help="fewer than the default, for a trial")
    add_output_options(parser, "explanations_deletion")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    epochs = options.epochs or "auto"
    cells = itertools.product(options.datasets, range(options.seeds), ORDERS)

    def one(dataset: str, seed: int, order: str) -> dict[str, object]:
        return measure(dataset, seed, order, epochs)

    path = options.out / "explanations_deletion.csv"
    rows = fit_missing(path, ["dataset", "seed", "order"], cells, one, options.jobs)
    areas = rows.pivot_table("area", "dataset", "order", sort=False)
    print(areas.round(3).to_string())
    for order in METHODS:
        for control in RANDOM:
            below = (areas[order] < areas[control]).sum()
            print(f"{order}: below {control} on {below} of {len(areas)} problems")


if __name__ == "__main__":
    main()
