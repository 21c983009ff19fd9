"""What may close the gap on long series: four long development problems.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/long_series.py [--jobs 2]

- "default", and "skipping", the same with a stem that skips steps where the default's pools them:
  their seconds, side by side, are what pooling costs.
- "several scales": beside its values, each channel averaged over 4 and over 16 steps.
- "windows": the default is trained on eight windows of each series, a quarter as long, all with the
  label of the series; the probabilities of a series are the mean of its windows'.
- "kernel statistics": each series is cut into 64 overlapping windows, and the features that random
  convolutions compute of these, 32 principal components of them, are what the transformer reads.
- "both": eight of those components, drawn out to the length of the series, beside its values.

A fit sees the official train split and is scored on the test split: the problems are those on which
recipes may be chosen by their test splits. One row per fit goes to long_series.csv as soon as the
fit ends; running the script again resumes with the fits that are missing. `--methods both` takes
any of the 22 with `--datasets`, and is then compared with the default of recipe_study.csv.
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
from sklearn.decomposition import PCA

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments.accuracy.recipe_study import DATASETS as DEVELOPMENT
from experiments.output import COMMITTED, add_output_options, fit_missing
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier, load_dataset
from tsformer.tracking.store import commit

NAME = "long_series"
DATASETS = ["ACSF1", "Car", "Lightning2", "Worms"]
DEFAULT = "default"
#: Steps over which "several scales" averages.
SCALES = (4, 16)
N_WINDOWS, LENGTH_OF_WINDOWS = 8, 1 / 4
#: Of "kernel statistics": windows, their length, and what is left of their features.
N_TOKENS, LENGTH_OF_TOKENS, N_COMPONENTS = 64, 1 / 16, 32
#: Of "both".
N_BESIDE = 8

Series = npt.NDArray[np.floating[Any]]
Predict = Callable[[Series], npt.NDArray[np.float64]]


def scaled(X: Series) -> Series:
    """Return series ``[B, C, L]`` beside their means over the steps around each."""
    length = X.shape[2]
    views = [X]
    for width in SCALES:
        padded = np.pad(X, ((0, 0), (0, 0), (width // 2, width - 1 - width // 2)), mode="edge")
        sums = np.cumsum(np.pad(padded, ((0, 0), (0, 0), (1, 0))), axis=2)
        views.append((sums[..., width:] - sums[..., :-width])[..., :length] / width)
    return np.concatenate(views, axis=1)


def windows(X: Series, n: int, share: float) -> Series:
    """Return `n` windows of series ``[B, C, L]``, spread evenly, as ``[B, n, C, share L]``."""
    length = max(round(share * X.shape[2]), 9)  # no kernel is longer
    starts = np.linspace(0, X.shape[2] - length, n).round().astype(int)
    return np.stack([X[..., start : start + length] for start in starts], axis=1)


def _plain(make: Callable[[], Any], X: Series, y: npt.NDArray[Any]) -> Predict:
    predict: Predict = make().fit(X, y).predict_proba
    return predict


def _several_scales(make: Callable[[], Any], X: Series, y: npt.NDArray[Any]) -> Predict:
    model = make().fit(scaled(X), y)
    return lambda series: model.predict_proba(scaled(series))


def _windows(make: Callable[[], Any], X: Series, y: npt.NDArray[Any]) -> Predict:
    cut = partial(windows, n=N_WINDOWS, share=LENGTH_OF_WINDOWS)
    pieces = cut(X)
    model = make().fit(pieces.reshape(-1, *pieces.shape[2:]), np.repeat(y, N_WINDOWS))

    def predict(series: Series) -> npt.NDArray[np.float64]:
        pieces = cut(series)
        proba = model.predict_proba(pieces.reshape(-1, *pieces.shape[2:]))
        return proba.reshape(len(series), N_WINDOWS, -1).mean(axis=1)

    return predict


def statistics(X: Series, y: npt.NDArray[Any], n: int) -> Callable[[Series], Series]:
    """Return what computes `n` components of kernels' statistics, ``[B, n, 64]``, fitted to X."""
    cut = partial(windows, n=N_TOKENS, share=LENGTH_OF_TOKENS)
    pieces = cut(X)
    # Biases are of these windows, and of the ridge nothing is used. Every fourth is enough.
    kernels = RandomConvolutionClassifier(1680, n_groups=8, scaling=None, random_state=0)
    some = pieces[:, ::4].reshape(-1, *pieces.shape[2:])
    kernels.fit(some, np.repeat(y, N_TOKENS // 4))
    components = PCA(n, random_state=0).fit(kernels.transform(some))

    def tokens(series: Series) -> Series:
        pieces = cut(series)
        features = kernels.transform(pieces.reshape(-1, *pieces.shape[2:]))
        reduced = components.transform(features).reshape(len(series), N_TOKENS, n)
        return np.ascontiguousarray(reduced.transpose(0, 2, 1))

    return tokens


def _kernel_statistics(make: Callable[[], Any], X: Series, y: npt.NDArray[Any]) -> Predict:
    tokens = statistics(X, y, N_COMPONENTS)
    model = make().fit(tokens(X), y)
    return lambda series: model.predict_proba(tokens(series))


def _both(make: Callable[[], Any], X: Series, y: npt.NDArray[Any]) -> Predict:
    tokens = statistics(X, y, N_BESIDE)
    places = np.linspace(0, N_TOKENS - 1, X.shape[2]).round().astype(int)

    def beside(series: Series) -> Series:
        return np.concatenate([series, tokens(series)[..., places]], axis=1)

    model = make().fit(beside(X), y)
    return lambda series: model.predict_proba(beside(series))


#: Method -> how it is fitted, and parameters that are not the default's.
METHODS: dict[str, tuple[Callable[..., Predict], dict[str, Any]]] = {
    DEFAULT: (_plain, {}),
    "skipping": (_plain, {"stem_params": {"downsampling": "stride"}}),
    "several scales": (_several_scales, {}),
    "windows": (_windows, {}),
    "kernel statistics": (_kernel_statistics, {}),
    "both": (_both, {}),
}


def fit(dataset: str, method: str, seed: int) -> dict[str, Any]:
    """Train on the train split, and score the test split."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    X_test, y_test = load_dataset(dataset, split="test")
    fitted, parameters = METHODS[method]
    used = time.process_time()
    predict = fitted(partial(TSTransformerClassifier, random_state=seed, **parameters), X, y)
    used = time.process_time() - used
    answers = np.unique(y)[predict(X_test).argmax(axis=1)]
    return {
        "dataset": dataset,
        "method": method,
        "seed": seed,
        "accuracy": round(float((answers == y_test).mean()), 6),
        "cpu_seconds": round(used, 1),
        "tsformer": tsformer.__version__,
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def summary(fits: pd.DataFrame) -> pd.DataFrame:
    """Return a row per method: its accuracy on each problem, their mean, and its seconds.

    Of the fits on the four problems under the seeds that the default has. Seconds are the median
    ratio to the default's.
    """
    seeds = fits.seed[fits.method == DEFAULT].unique()
    fits = fits[fits.dataset.isin(DATASETS) & fits.seed.isin(seeds)]
    methods = [name for name in METHODS if name in set(fits.method)]
    scores = fits.pivot_table("accuracy", "method", "dataset").loc[methods]
    seconds = fits.pivot_table("cpu_seconds", "method", "dataset").loc[methods]
    scores["mean"] = scores.mean(axis=1)
    scores["seconds"] = (seconds / seconds.loc[DEFAULT]).median(axis=1)
    return scores


def beside_values(fits: pd.DataFrame, recipes: pd.DataFrame) -> pd.DataFrame:
    """Return a row per problem: the default and "both", over the seeds that both have.

    The default is that of recipe_study.csv.
    """
    keys = ["dataset", "seed"]
    default = recipes[recipes.variant == "default"].set_index(keys).accuracy
    both = fits[fits.method == "both"].set_index(keys).accuracy
    paired = pd.DataFrame({"default": default, "both": both}).dropna()
    table = paired.groupby("dataset").mean()
    return table.assign(seeds=paired.groupby("dataset").size())


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", choices=DEVELOPMENT, default=DATASETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, NAME)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = itertools.product(options.datasets, options.methods, options.seeds)
    keys = ["dataset", "method", "seed"]
    fits = fit_missing(options.out / f"{NAME}.csv", keys, cells, fit, options.jobs)
    if DEFAULT in set(fits.method):
        print(summary(fits).round(3).to_string())
    if "both" in set(fits.method):
        print(beside_values(fits, pd.read_csv(COMMITTED / "recipe_study.csv")).round(3).to_string())


if __name__ == "__main__":
    main()
