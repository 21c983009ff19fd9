"""How the default recipe was chosen: cross-validation on train splits, one change at a time.

    TSFORMER_DATA=/folder/of/the/archive python experiments/choose_recipe.py [--jobs 2]

Every fold is a row of results/choose_recipe.csv, written when it ends; starting again goes on with
what is missing. No test split is read. The mean accuracy of each variant is printed at the end.
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import torch
from sklearn.model_selection import StratifiedKFold

from tsformer import TSTransformerClassifier, load_dataset
from tsformer.training.plan import epochs_for

CSV = Path(__file__).parent / "results" / "choose_recipe.csv"
DATASETS = ["OSULeaf", "NATOPS", "ECG200", "ArrowHead", "SelfRegulationSCP1", "Epilepsy"]
FOLDS = 3
# What each variant changes; `steps` is the budget of optimizer steps.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {"batch_size": 16, "steps": 1000},
    "batch 32, 500 steps": {"batch_size": 32, "steps": 500},
    "layer norm": {"batch_size": 16, "steps": 1000, "stem_params": {"norm": "layer"}},
    "rate 1e-3": {"batch_size": 16, "steps": 1000, "learning_rate": 1e-3},
}


def fit(variant: str, dataset: str, fold: int) -> dict[str, object]:
    """Train on all folds of the train split but one, and score that one."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    splitter = StratifiedKFold(FOLDS, shuffle=True, random_state=7)
    train, test = list(splitter.split(y, y))[fold]
    parameters = dict(VARIANTS[variant])
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits side by side, one thread each")
    jobs = parser.parse_args().jobs
    done = set()
    if CSV.exists():
        done = set(
            pd.read_csv(CSV)[["variant", "dataset", "fold"]].itertuples(index=False, name=None)
        )
    cells = itertools.product(DATASETS, VARIANTS, range(FOLDS))
    todo = [(v, d, f) for d, v, f in cells if (v, d, f) not in done]
    rows = joblib.Parallel(jobs, return_as="generator_unordered")(
        joblib.delayed(fit)(*cell) for cell in todo
    )
    for row in rows:
        pd.DataFrame([row]).to_csv(CSV, mode="a", header=not CSV.exists(), index=False)
        print(row, flush=True)
    table = pd.read_csv(CSV).pivot_table("accuracy", "variant", "dataset")
    print(table.assign(mean=table.mean(axis=1)).round(3).to_string())


if __name__ == "__main__":
    main()
