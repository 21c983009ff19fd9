"""Do the parts of the classifier's recipe help a regressor? Each added to a plain default, paired.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/regression.py [--train-only]

Three problems come with sktime and aeon. In five, made of development problems, the range of the
first channel in the last fifth of the steps is predicted from the steps before. The error is the
root mean squared error in standard deviations of the scored targets. With --train-only, 70 % of the
train split train and the rest is scored.

Rule of adoption, made before any fit: over two seeds, the geometric mean of the errors falls by 2 %
or more, at most a third of the problems are worse, and none by over 10 % without a named reason.

Each fit appends a row to the CSV; a second run resumes.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments.output import add_output_options, fit_missing
from tsformer import TSTransformerRegressor, load_dataset
from tsformer.tracking.store import commit

#: Come with the libraries.
PACKAGED = ("Tecator", "Covid3Month", "CardanoSentiment")
#: Their last fifth is predicted.
FORESEEN = ("ECG200", "Fish", "NATOPS", "OSULeaf", "ProximalPhalanxTW")
PROBLEMS = [*PACKAGED, *FORESEEN]
SHARE_READ = 0.8
DEFAULT = "default"
#: The default before its recipe.
PLAIN: dict[str, Any] = {"head_norm": None, "scaling": "channel"}
VARIANTS: dict[str, dict[str, Any]] = {
    DEFAULT: PLAIN,
    "a norm before the head": {**PLAIN, "head_norm": "batch"},
    "scaling by series": {**PLAIN, "scaling": "series"},
    "scaling by series, with size": {**PLAIN, "scaling": "series+size"},
    "chosen by the data": {},
    "differences": {**PLAIN, "views": "auto"},
    "a residual layer": {**PLAIN, "stem_params": {"n_residual": 1}},
    "pooling": {**PLAIN, "stem_params": {"downsampling": "pool"}},
    "warping": {**PLAIN, "augmentation": "warp"},
    "mixing": {**PLAIN, "augmentation": "cutmix"},
}
RIDGE = "ridge"
METHODS = [*VARIANTS, RIDGE]

Problem = tuple[npt.NDArray[np.floating[Any]], npt.NDArray[np.float64]]


def _packaged(problem: str, split: str) -> Problem:
    if problem == "Tecator":
        from sktime.datasets import load_tecator

        X, y = load_tecator(split=split, return_type="numpy3D")
    else:
        from aeon import datasets

        load: Callable[..., Any] = {
            "Covid3Month": datasets.load_covid_3month,
            "CardanoSentiment": datasets.load_cardano_sentiment,
        }[problem]
        X, y = load(split=split)
    return np.asarray(X, float), np.asarray(y, float)


def foreseen(X: npt.NDArray[np.floating[Any]]) -> Problem:
    """Return the first steps of series ``[B, C, L]``, and the range of the first channel later."""
    read = round(SHARE_READ * X.shape[2])
    return X[..., :read], np.ptp(X[:, 0, read:], axis=1)


def load(problem: str, split: str) -> Problem:
    """Return the series and the targets of a split."""
    if problem in PACKAGED:
        return _packaged(problem, split)
    return foreseen(np.asarray(load_dataset(problem, split=split)[0]))


def fit(seed: int, method: str, problem: str, train_only: bool = False) -> dict[str, Any]:
    """Train on the train split, or a part of it, and score the rest."""
    torch.set_num_threads(1)
    X, y = load(problem, "train")
    if train_only:
        order = np.random.default_rng(3).permutation(len(y))
        kept, left_out = np.split(order, [round(0.7 * len(y))])
        X, y, X_test, y_test = X[kept], y[kept], X[left_out], y[left_out]
    else:
        X_test, y_test = load(problem, "test")
    used = time.process_time()
    if method == RIDGE:
        flat = FunctionTransformer(lambda series: series.reshape(len(series), -1))
        model = make_pipeline(flat, StandardScaler(), RidgeCV(np.logspace(-3, 4, 15)))
    else:
        model = TSTransformerRegressor(random_state=seed, **VARIANTS[method])
    model.fit(X, y)
    used = time.process_time() - used
    error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2)) / y_test.std()
    return {
        "method": method,
        "problem": problem,
        "seed": seed,
        "error": round(float(error), 6),
        "cpu_seconds": round(used, 1),
        "tsformer": tsformer.__version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def summary(fits: pd.DataFrame) -> pd.DataFrame:
    """Return for each method its mean error, and by how much it is above the default's.

    Errors are paired by problem and seed; their ratio to the default's is a geometric mean over
    seeds, and then over problems.
    """
    errors = np.log(fits.pivot_table("error", "method", ["problem", "seed"]))
    rows = {}
    for method in (name for name in METHODS if name in errors.index):
        apart = (errors.loc[method] - errors.loc[DEFAULT]).dropna().groupby("problem").mean()
        rows[method] = {
            "problems": len(apart),
            "error": fits[fits.method == method].groupby("problem").error.mean().mean(),
            "change": np.expm1(apart.mean()),
            "standard_error": apart.sem(),
            "better": int((apart < 0).sum()),
            "worse": int((apart > 0).sum()),
            "worst": np.expm1(apart.max()),
        }
    return pd.DataFrame(rows).T


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    parser.add_argument("--train-only", action="store_true", help="read train splits alone")
    add_output_options(parser, "regression")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = (
        cell
        for cell in itertools.product(options.seeds, options.methods, options.problems)
        if cell[1] != RIDGE or cell[0] == options.seeds[0]  # it draws nothing
    )
    keys = ["seed", "method", "problem"]
    name = "regression_train.csv" if options.train_only else "regression.csv"
    measure = partial(fit, train_only=options.train_only)
    fits = fit_missing(options.out / name, keys, cells, measure, options.jobs)
    if DEFAULT in set(fits.method):
        print(summary(fits).round(4).to_string())


if __name__ == "__main__":
    main()
