"""Seconds of a fit of the README's methods, in one run on one machine.

    TSFORMER_DATA=/folder/of/the/archive python experiments/cost/fit_seconds.py [--commit]

The 46 held-out problems are sorted by training values (series times channels times steps) and cut
into 6 equal parts; the middle problem of each is timed. All methods are fitted to a problem before
the next, on its train split, with the defaults of their libraries, one thread and seed 0. A small
fit comes first, so that no time of compiling counts. Appends each fit to fit_seconds.csv and
resumes from it.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.machine import machine
from experiments.output import COMMITTED, add_output_options, fit_missing
from tsformer import load_dataset
from tsformer.baselines import PanelClassifier, find
from tsformer.tracking.store import commit

ROOT = Path(__file__).parents[2]
#: The quick methods come first, so that torch is warm before the transformers.
METHODS = [
    *("minirocket", "quant", "multirocket-hydra", "rdst"),
    *("random-convolutions", "tsformer", "tsformer-patch", "ensemble"),
]
KEYS = ["dataset", "method"]
N_PROBLEMS = 6


def problems() -> list[str]:
    """Return the problems, chosen by size alone."""
    held_out = pd.read_csv(COMMITTED / "confirmation.csv")["dataset"].unique()
    sizes = pd.read_csv(ROOT / "data/catalog.csv").set_index("name").loc[held_out]
    values = (sizes["train_size"] * sizes["channels"] * sizes["length_max"]).sort_values()
    middle = [(2 * i + 1) * len(values) // (2 * N_PROBLEMS) for i in range(N_PROBLEMS)]
    return [str(values.index[i]) for i in middle]


def fit(dataset: str, method: str) -> dict[str, object]:
    """Time a fit on the train split."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    name, parameters = (
        (method, {}) if method != "tsformer-patch" else ("tsformer", {"stem": "patch"})
    )
    if name not in ("tsformer", "ensemble"):
        few = np.concatenate([np.flatnonzero(y == label)[:3] for label in np.unique(y)])
        PanelClassifier(method, find(method).quick, 0).fit([X[i] for i in few], y[few])
    wall, used = time.perf_counter(), time.process_time()
    PanelClassifier(name, parameters, 0).fit(X, y)
    return {
        **dict(zip(KEYS, (dataset, method), strict=True)),
        "cpu_seconds": round(time.process_time() - used, 3),
        "wall_seconds": round(time.perf_counter() - wall, 3),
        "load": round(os.getloadavg()[0], 1),
        "machine": machine("cpu"),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add_output_options(parser, "fit_seconds")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    cells = itertools.product(problems(), METHODS)
    path = arguments(argv).out / "fit_seconds.csv"
    fits = fit_missing(path, KEYS, cells, fit, jobs=1)
    seconds = fits.pivot_table("cpu_seconds", "dataset", "method", sort=False)[METHODS]
    print(seconds.to_string(), seconds.median().to_string(), sep="\n\n")


if __name__ == "__main__":
    main()
