"""What early stopping costs: half of a train split to train on, the other half to validate.

    python experiments/accuracy/early_stopping.py --commit

Rows of the version `0a778e7f`, before validation recomputed the averages of batch norms, are
fits of that package on the same splits.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from experiments.output import add_output_options, fit_missing
from tsformer import TSTransformerClassifier, load_dataset

#: Development problems; `CHECKED` are reported, and nothing was chosen by them.
DEVELOPMENT = ("ArrowHead", "Car", "ECG200", "FaceFour", "Fish", "Ham", "Herring", "Lightning2")
CHECKED = ("Chinatown", "GunPoint", "ItalyPowerDemand")
VARIANTS: dict[str, dict[str, Any]] = {
    "to the end": {"early_stopping": False},
    "20 epochs": {"n_iter_no_change": 20},
    "auto": {},
}


def measured(dataset: str, variant: str, seed: int) -> dict[str, Any]:
    """Return the test accuracy and the epochs of a fit."""
    X, y = load_dataset(dataset, split="train")
    halves = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=seed)
    train, held_out = halves
    classifier = TSTransformerClassifier(random_state=seed, **VARIANTS[variant])
    classifier.fit(X[train], y[train], X_val=X[held_out], y_val=y[held_out])
    accuracy = classifier.score(*load_dataset(dataset, split="test"))
    return {
        **{"dataset": dataset, "variant": variant, "seed": seed, "accuracy": round(accuracy, 4)},
        **{"n_epochs": classifier.n_iter_, "kept_epoch": classifier.history_.best_epoch},
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=[*DEVELOPMENT, *CHECKED])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--jobs", type=int, default=1)
    add_output_options(parser, "early_stopping")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = [(d, v, s) for d in options.datasets for v in VARIANTS for s in options.seeds]
    path = options.out / "early_stopping.csv"
    rows = fit_missing(path, ["dataset", "variant", "seed"], cells, measured, options.jobs)
    print(rows.pivot_table(index="dataset", columns="variant", values="accuracy").round(3))


if __name__ == "__main__":
    main()
