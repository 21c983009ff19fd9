"""Which orders an encoding can learn to tell from few series: accuracy on generated problems.

    python experiments/order_tasks.py [--jobs 2]

The problems are those of `tsformer.data.make_order_task`, whose classes hold the same steps in
another order. Every fit is a row of results/order_tasks.csv, written when it ends; starting again
goes on with what is missing. The mean accuracy of each variant is printed at the end.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from pathlib import Path
from typing import Any

import torch
from resumable import fit_missing

from tsformer import TSTransformerClassifier
from tsformer.data import make_order_task
from tsformer.data.tasks import ORDER_TASKS
from tsformer.encodings import names

CSV = Path(__file__).parent / "results" / "order_tasks.csv"
SEEDS = range(3)
N_TRAIN, N_TEST, LENGTH, EPOCHS = 128, 400, 96, 100
RECIPE: dict[str, Any] = {
    "d_model": 32,
    "n_heads": 4,
    "n_layers": 1,
    "batch_size": 32,
    "learning_rate": 0.005,
    "dropout": 0.0,
}
# What each variant says beside its name: first behind a stem that sees single steps.
VARIANTS: dict[str, dict[str, Any]] = {
    **{name: {"encoding": name} for name in [*names(), "tape+erpe"]},
    "alibi, signed": {"encoding": "alibi", "encoding_params": {"signed": True}},
    **{
        f"{name}, conv stem": {"encoding": name, "stem": "conv"}
        for name in ("none", "lspe", "tape+erpe", "rope")
    },
}


def fit(variant: str, task: str, seed: int) -> dict[str, object]:
    torch.set_num_threads(1)
    X, y = make_order_task(task, N_TRAIN, LENGTH, random_state=seed)
    X_test, y_test = make_order_task(task, N_TEST, LENGTH, random_state=1000 + seed)
    parameters = {"stem": "linear", **RECIPE, **VARIANTS[variant]}
    classifier = TSTransformerClassifier(max_epochs=EPOCHS, random_state=seed, **parameters)
    start = time.perf_counter()
    with warnings.catch_warnings():  # of encodings without direction, which is what is measured
        warnings.filterwarnings("ignore", message=".*cannot tell a series from its reverse")
        classifier.fit(X, y)
    return {
        "encoding": variant,
        "task": task,
        "seed": seed,
        "accuracy": round(classifier.score(X_test, y_test), 6),
        "fit_seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits side by side, one thread each")
    jobs = parser.parse_args().jobs
    cells = itertools.product(VARIANTS, ORDER_TASKS, SEEDS)
    fits = fit_missing(CSV, ["encoding", "task", "seed"], cells, fit, jobs)
    table = fits.pivot_table("accuracy", "encoding", "task", sort=False)
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
