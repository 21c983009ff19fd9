"""Novelty scores of ordinary test series, of other data sets, and of corrupted sensors.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/novelty.py [--jobs 2]

Appends rows to novelty.csv: the share of series with a score above 1, and the area under the ROC
curve against the test series of the same problem. Up to 300 series each. The corruption is of one
random channel of each series, except for "reversed" and "swapped". "like" in the name of another
data set says that its channels are given the mean and deviation of the training series. Scores
"embedding" are the same distance in the embedding of a transformer. Draws novelty.png.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier, load_dataset
from tsformer.data.containers import to_source
from tsformer.estimators.novelty import Leverage, quantile

DATASETS = [
    "ArrowHead",
    "CBF",
    "Chinatown",
    "DistalPhalanxTW",
    "ECG200",
    "ECGFiveDays",
    "FacesUCR",
    "Fish",
    "GunPoint",
    "ItalyPowerDemand",
    "MelbournePedestrian",
    "OSULeaf",
    "PowerCons",
    "ProximalPhalanxOutlineCorrect",
    "SonyAIBORobotSurface2",
    "Trace",
    "AtrialFibrillation",
    "BasicMotions",
    "Epilepsy",
    "Handwriting",
    "JapaneseVowels",
    "LSST",
    "NATOPS",
    "PenDigits",
]
#: Unlike data sets, by the number of channels.
OTHERS = {
    1: ["Lightning2", "OliveOil", "ShapeletSim"],
    2: ["AtrialFibrillation", "PenDigits"],
    3: ["Epilepsy", "Handwriting"],
    6: ["BasicMotions", "LSST"],
}
#: Problems on which a transformer is fitted too.
SMALL = ["ECG200", "GunPoint", "ItalyPowerDemand"]
KEYS = ["dataset", "scores", "against"]
_MOST = 300
Series = np.ndarray  # [n, C, L], padded with NaN
Scorer = Callable[[Series], np.ndarray]


def read(dataset: str, split: str) -> Series:
    """Return the series of a split, at most 300 of a test split."""
    series = to_source(load_dataset(dataset, split=split)[0]).padded().values.transpose(0, 2, 1)
    if split == "test":
        series = series[np.random.default_rng(0).permutation(len(series))[:_MOST]]
    return series


@cache
def scorer(dataset: str, scores: str) -> Scorer:
    """Return the fitted scores of a problem."""
    X, y = load_dataset(dataset, split="train")
    if scores == "novelty_score":
        return RandomConvolutionClassifier(168, n_groups=2, random_state=0).fit(X, y).novelty_score
    transformer = TSTransformerClassifier(random_state=0).fit(X, y)
    leverage = Leverage()
    threshold = float(quantile(leverage.fit(torch.from_numpy(transformer.transform(X)), None)))
    return lambda series: leverage(torch.from_numpy(transformer.transform(series))) / threshold


def per_series(function: Callable[..., np.ndarray]) -> Callable[..., Series]:
    """Apply a corruption to the known values of one random channel of each series."""

    def corrupt(series: Series, train: Series, rng: np.random.Generator) -> Series:
        series = series.copy()
        deviations = np.nanstd(train, axis=(0, 2))
        for one in series:
            channel = rng.integers(len(one))
            known = np.flatnonzero(~np.isnan(one[channel]))
            if len(known):
                one[channel, known] = function(one[channel, known], deviations[channel], rng)
        return series

    return corrupt


def spiked(x: np.ndarray, deviation: float, rng: np.random.Generator) -> np.ndarray:
    at = rng.choice(len(x), max(len(x) // 50, 1), replace=False)
    x[at] += 5 * deviation * rng.choice([-1, 1], len(at))
    return x


def swapped(series: Series, train: Series, rng: np.random.Generator) -> Series:
    """Exchange two random channels of each series."""
    series = series.copy()
    for one in series:
        pair = rng.choice(len(one), 2, replace=False)
        one[pair] = one[pair[::-1]]
    return series


def stuck_late(x: np.ndarray, *_: Any) -> np.ndarray:
    x[len(x) // 2 :] = x[len(x) // 2]
    return x


CORRUPTIONS = {
    "stuck": per_series(lambda x, *_: np.full_like(x, np.median(x))),
    "stuck from half": per_series(stuck_late),
    "unit x1000": per_series(lambda x, *_: 1000 * x),
    "unit x2": per_series(lambda x, *_: 2 * x),
    "offset of 3 deviations": per_series(lambda x, deviation, _: x + 3 * deviation),
    "sign": per_series(lambda x, *_: -x),
    "noise of half a deviation": per_series(
        lambda x, deviation, rng: x + deviation * rng.normal(size=len(x)) / 2
    ),
    "spikes of 5 deviations": per_series(spiked),
    "reversed": lambda series, train, rng: series[:, :, ::-1].copy(),
    "swapped": swapped,
}


def other(name: str, train: Series) -> Series:
    """Return the series of another data set, perhaps with the moments of the training series."""
    series = read(name.removeprefix("like "), "test")
    if name.startswith("like "):
        moments = [
            (np.nanmean(each, axis=(0, 2))[:, None], np.nanstd(each, axis=(0, 2))[:, None])
            for each in (series, train)
        ]
        (mean, deviation), (own_mean, own_deviation) = moments
        series = (series - mean) / deviation * own_deviation + own_mean
    return series


def fit(dataset: str, scores: str, against: str) -> dict[str, Any]:
    """Score test series and other series."""
    torch.set_num_threads(1)
    train, test = read(dataset, "train"), read(dataset, "test")
    if against in CORRUPTIONS:
        unlike = CORRUPTIONS[against](test, train, np.random.default_rng(1))
    else:
        unlike = test if against == "test" else other(against, train)
    score = scorer(dataset, scores)
    ordinary, found = np.asarray(score(test)), np.asarray(score(unlike))
    labels = np.repeat([0, 1], [len(ordinary), len(found)])
    return {
        **dict(zip(KEYS, (dataset, scores, against), strict=True)),
        "n_train": len(train),
        "n_channels": train.shape[1],
        "n_scored": len(found),
        "above": int((found > 1).sum()),
        "auroc": round(float(roc_auc_score(labels, np.concatenate([ordinary, found]))), 4),
        "median": float(f"{np.median(found):.4g}"),
    }


def cells(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return the values of `KEYS` of all rows; rows of one fit are neighbours."""
    rows = []
    for dataset in options.datasets:
        n_channels = read(dataset, "train").shape[1]
        against = [name for name in ("test", *CORRUPTIONS) if n_channels > 1 or name != "swapped"]
        others = [name for name in OTHERS.get(n_channels, []) if name != dataset]
        against += others + [f"like {name}" for name in others]
        kinds = ["novelty_score"] + ["embedding"] * (dataset in SMALL)
        rows += [(dataset, scores, each) for scores in kinds for each in against]
    return rows


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Average over the problems, for each kind of series."""
    names = {name: "other data set" for each in OTHERS.values() for name in each}
    names |= {f"like {name}": "other data set, same moments" for name in names}
    rows = rows.assign(
        kind=rows.against.map(names).fillna(rows.against),
        channels=np.where(rows.n_channels > 1, "several", "one"),
        share=rows.above / rows.n_scored,
    )
    table = rows.groupby(["scores", "kind", "channels"])[["auroc", "share"]].mean()
    return table.unstack("channels")


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw false alarms by the number of training series, and the area under the curve by kind."""
    import matplotlib.pyplot as plt

    rows = rows[rows.scores == "novelty_score"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4.4), layout="constrained")
    ordinary = rows[rows.against == "test"]
    n = np.geomspace(ordinary.n_train.min(), ordinary.n_train.max(), 100)
    left.plot(n, np.maximum(0.01, 2 / (n + 1)), color="0.4", lw=1, label="0.01 or 2 / (n + 1)")
    left.legend(frameon=False)
    left.plot(ordinary.n_train, ordinary.above / ordinary.n_scored, "o", ms=5)
    left.set(xlabel="training series", ylabel="share above 1", xscale="log")
    left.set_title(f"Ordinary test series of {len(ordinary)} problems", fontsize=10)
    table = summary(rows).loc["novelty_score"].auroc.drop("test").sort_values("several")
    places = np.arange(len(table))
    for shift, name, colour in ((0.2, "one", "C0"), (-0.2, "several", "C1")):
        label = f"{name} channel{'s' * (name == 'several')}"
        right.barh(places + shift, table[name], 0.4, color=colour, label=label)
    right.set_yticks(places, table.index, fontsize=9)
    right.set(xlim=(0.5, 1), xlabel="area under the ROC curve")
    right.set_title("Against ordinary test series, mean over problems", fontsize=10)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=2)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "novelty")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    rows = fit_missing(options.out / "novelty.csv", KEYS, cells(options), fit, options.jobs)
    print(summary(rows).round(3).to_string())
    draw(rows, options.out / "novelty.png")


if __name__ == "__main__":
    main()
