"""How the recipe of version 0.1 was chosen: cross-validation on train splits, change by change.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/choose_recipe.py [--jobs 2]

Writes one row per fold to choose_recipe.csv, as soon as the fold ends; running the script again
resumes with the folds that are missing. No test split is read. The mean accuracy of each variant is
printed at the end.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from sklearn.model_selection import StratifiedKFold

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from experiments.recipe_0_1 import recipe_0_1
from tsformer import TSTransformerClassifier, load_dataset
from tsformer.training.plan import epochs_for

DATASETS = ["ECG200", "OSULeaf", "NATOPS", "SelfRegulationSCP1", "ArrowHead", "FaceFour"]
FOLDS = 3
# Parameters of each variant; `steps` is the number of optimizer steps. The first was the default.
_BATCH_16 = {"batch_size": 16, "steps": 1000}
VARIANTS: dict[str, dict[str, Any]] = {
    "lspe": {**_BATCH_16, "encoding": "lspe"},
    "fixed": {**_BATCH_16, "encoding": "fixed"},
    "tape": {**_BATCH_16, "encoding": "tape"},
    "lspe, layer norm": {
        **_BATCH_16,
        "encoding": "lspe",
        "stem_params": {"norm": "layer", "n_residual": 0, "downsampling": "stride"},
    },
    "lspe, batch 32, 500 steps": {"encoding": "lspe", "batch_size": 32, "steps": 500},
}


def fit(variant: str, dataset: str, fold: int) -> dict[str, object]:
    """Train on all folds of the train split except one, and score that one."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=7)
    train, test = list(splitter.split(y, y))[fold]
    parameters = recipe_0_1() | VARIANTS[variant]
    steps = parameters.pop("steps")
    epochs = epochs_for(steps, len(train), parameters["batch_size"])
    classifier = TSTransformerClassifier(max_epochs=epochs, random_state=fold, **parameters)
    start = time.perf_counter()
    classifier.fit(_take(X, train), y[train])
    seconds = time.perf_counter() - start
    return {
        "variant": variant,
        "dataset": dataset,
        "fold": fold,
        "accuracy": round(classifier.score(_take(X, test), y[test]), 6),
        "fit_seconds": round(seconds, 1),
    }


def _take(X: Any, index: Any) -> Any:
    return [X[i] for i in index] if isinstance(X, list) else X[index]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "choose_recipe")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = ((v, d, f) for d, v, f in itertools.product(DATASETS, VARIANTS, range(FOLDS)))
    path = options.out / "choose_recipe.csv"
    folds = fit_missing(path, ["variant", "dataset", "fold"], cells, fit, options.jobs)
    table = folds.pivot_table("accuracy", "variant", "dataset")
    print(table.assign(mean=table.mean(axis=1)).round(3).to_string())


if __name__ == "__main__":
    main()
