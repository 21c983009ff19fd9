"""Which kinds of order an encoding can learn from few series: accuracy on synthetic problems.

    python experiments/accuracy/order_tasks.py [--jobs 2]

The problems are those of `tsformer.data.make_order_task`, whose classes hold the same steps in a
different order. Writes one row per fit to order_tasks.csv, as soon as the fit ends; running the
script again resumes with the fits that are missing. The mean accuracy of each variant is printed at
the end.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from experiments.recipe_0_1 import recipe_0_1
from tsformer import TSTransformerClassifier
from tsformer.data import make_order_task
from tsformer.data.synthetic import ORDER_TASKS
from tsformer.encodings import names

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
# The parameters of each variant: first behind the linear stem, which sees single steps.
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
    parameters |= recipe_0_1(parameters["stem"])
    classifier = TSTransformerClassifier(max_epochs=EPOCHS, random_state=seed, **parameters)
    start = time.perf_counter()
    with warnings.catch_warnings():  # about symmetric encodings, which are measured too
        warnings.filterwarnings("ignore", message=".*cannot tell a series from its reverse")
        classifier.fit(X, y)
    return {
        "encoding": variant,
        "task": task,
        "seed": seed,
        "accuracy": round(classifier.score(X_test, y_test), 6),
        "fit_seconds": round(time.perf_counter() - start, 1),
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "order_tasks")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = itertools.product(VARIANTS, ORDER_TASKS, SEEDS)
    path = options.out / "order_tasks.csv"
    fits = fit_missing(path, ["encoding", "task", "seed"], cells, fit, options.jobs)
    table = fits.pivot_table("accuracy", "encoding", "task", sort=False)
    print(table.round(3).to_string())


if __name__ == "__main__":
    main()
