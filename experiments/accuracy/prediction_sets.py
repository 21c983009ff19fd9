"""Coverage and size of prediction sets on 20 problems of the archive.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/prediction_sets.py [--jobs 2]

Appends rows to coverage.csv. With scores "held-out", a classifier is fitted to the train split; the
test split is divided at random into a half for calibration and a half that is scored, 20 times.
With scores "leave-one-out", random convolutions are fitted to random samples of all series, as
large as the train split, calibrated without held-out series, and scored on the other series. The
interval of a row is the central 95 % of the beta-binomial distribution that exchangeable series
give: of `n` calibration series and rank `k`, ``BetaBinomial(n_scored, k, n + 1 - k)``. Draws
coverage.png.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import betabinom
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from tsformer import RandomConvolutionClassifier, TSTransformerClassifier, load_dataset
from tsformer.estimators.labels import Conformal, rank_of

DATASETS = [
    "Adiac",
    "ArrowHead",
    "CBF",
    "Chinatown",
    "DistalPhalanxOutlineCorrect",
    "DistalPhalanxTW",
    "ECGFiveDays",
    "FacesUCR",
    "Fish",
    "Fungi",
    "Handwriting",
    "ItalyPowerDemand",
    "JapaneseVowels",
    "NATOPS",
    "OSULeaf",
    "PowerCons",
    "ProximalPhalanxOutlineAgeGroup",
    "ProximalPhalanxTW",
    "SmoothSubspace",
    "SonyAIBORobotSurface2",
]
#: Problems on which a transformer is fitted too.
SMALL = ["ArrowHead", "ItalyPowerDemand", "PowerCons"]
CLASSIFIERS = {
    "random-convolutions": RandomConvolutionClassifier,
    "transformer": TSTransformerClassifier,
}
COVERAGES = (0.8, 0.9, 0.95)
KEYS = ["dataset", "classifier", "scores", "coverage", "seed"]
#: A sample of series, its class indices, and the probabilities of its classes.
Predicted = tuple[np.ndarray, np.ndarray]


@cache
def test_split(dataset: str, classifier: str) -> Predicted:
    """Return probabilities and classes of the test split."""
    fitted = CLASSIFIERS[classifier](random_state=0).fit(*load_dataset(dataset, split="train"))
    X, y = load_dataset(dataset, split="test")
    return fitted.predict_proba(X), np.searchsorted(fitted.classes_, y)


@cache
def left_out(dataset: str, seed: int) -> tuple[Predicted, Predicted]:
    """Return leave-one-out probabilities of a random train split, and those of the other series."""
    X, y = load_dataset(dataset, split="train+test")
    n_train = len(load_dataset(dataset, split="train")[1])
    train, test = train_test_split(
        np.arange(len(y)), train_size=n_train, stratify=y, random_state=seed
    )
    fitted = RandomConvolutionClassifier(random_state=seed).fit([X[i] for i in train], y[train])
    proba, targets = fitted.model_.ridge.left_out
    tested = fitted.predict_proba([X[i] for i in test])
    own = np.searchsorted(fitted.classes_, y[test])
    return (proba.numpy(), targets.numpy()), (tested, own)


def fit(dataset: str, classifier: str, scores: str, coverage: float, seed: int) -> dict[str, Any]:
    """Calibrate on a sample and score the sets of others."""
    torch.set_num_threads(1)
    if scores == "held-out":
        proba, targets = test_split(dataset, classifier)
        calibrated, scored = train_test_split(
            np.arange(len(targets)), test_size=0.5, random_state=seed
        )
        calibration = proba[calibrated], targets[calibrated]
        proba, targets = proba[scored], targets[scored]
    else:
        calibration, (proba, targets) = left_out(dataset, seed)
    row: dict[str, Any] = dict(
        zip(KEYS, (dataset, classifier, scores, coverage, seed), strict=True)
    )
    row |= {
        "n_calibration": len(calibration[1]),
        "n_scored": len(targets),
        "n_classes": proba.shape[1],
        "accuracy": round(float((proba.argmax(axis=1) == targets).mean()), 4),
    }
    own = np.arange(len(targets)), targets
    for by_class in (False, True):
        conformal = Conformal.fit(*calibration, by_class=by_class)
        sets = conformal.sets(proba, coverage)
        covered, size = sets[own], sets.sum(axis=1)
        of = [targets == each for each in range(proba.shape[1])] if by_class else [targets >= 0]
        pairs = list(zip(conformal.scores, of, strict=True))
        within = [inside(covered[each], len(own_scores), coverage) for own_scores, each in pairs]
        name = "_by_class" if by_class else ""
        row |= {
            f"covered{name}": int(covered.sum()),
            f"size{name}": round(float(size.mean()), 4),
            f"empty{name}": round(float((size == 0).mean()), 4),
            f"single{name}": round(float((size == 1).mean()), 4),
            f"within{name}": round(float(np.mean([each for each in within if each is not None])), 4)
            if any(each is not None for each in within)
            else np.nan,
        }
    return row


def inside(covered: np.ndarray, n_calibration: int, coverage: float) -> bool | None:
    """Whether the covered series are as many as exchangeable series allow; None if trivial."""
    rank = rank_of(n_calibration, coverage)
    if rank > n_calibration or not len(covered):
        return None  # sets contain the class whatever the series
    low, high = betabinom.interval(0.95, len(covered), rank, n_calibration + 1 - rank)
    return bool(low <= covered.sum() <= high)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """Average over the problems, for each classifier, kind of scores and coverage."""
    ranks = [rank_of(n, c) for n, c in zip(rows.n_calibration, rows.coverage, strict=True)]
    rows = rows.assign(
        exact=np.minimum(ranks / (rows.n_calibration + 1), 1),
        found=rows.covered / rows.n_scored,
        found_by_class=rows.covered_by_class / rows.n_scored,
    )
    values = ["exact", "found", "within", "size", "empty", "single"]
    values += ["found_by_class", "within_by_class", "size_by_class"]
    groups = rows.groupby(["classifier", "scores", "coverage"])
    return groups[values].mean().join(groups.dataset.nunique().rename("problems"))


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw coverage and size of the sets of random convolutions against their accuracy."""
    import matplotlib.pyplot as plt

    rows = rows[rows.classifier == "random-convolutions"]
    rows = rows.assign(found=rows.covered / rows.n_scored)
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    held_out = rows[rows.scores == "held-out"]
    order = list(held_out.groupby("dataset").accuracy.mean().sort_values().index)
    for scores, colour, shift in (("held-out", "C0", -0.15), ("leave-one-out", "C1", 0.15)):
        chosen = rows[(rows.coverage == 0.9) & (rows.scores == scores) & rows.dataset.isin(order)]
        table = chosen.groupby("dataset").found.agg(["mean", "min", "max"])
        places = np.array([order.index(each) for each in table.index]) + shift
        axes[0].vlines(places, table["min"], table["max"], color=colour, alpha=0.4, lw=1.5)
        axes[0].plot(places, table["mean"], "o", color=colour, ms=4, label=scores)
    axes[0].axhline(0.9, color="0.4", lw=1, zorder=0)
    axes[0].set(xlabel="problem, by accuracy", ylabel="share of sets with the true class")
    axes[0].set_title("Coverage at 0.9: mean, least and most", fontsize=10)
    axes[0].set_xticks([])
    axes[0].legend(frameon=False, loc="lower left")
    for i, coverage in enumerate(COVERAGES):
        means = held_out[held_out.coverage == coverage].groupby("dataset")[["accuracy", "size"]]
        table = means.mean().sort_values("accuracy")
        axes[1].plot(table.accuracy, table["size"], "o", color=f"C{i}", ms=4, label=f"{coverage:g}")
    axes[1].axhline(1, color="0.4", lw=1, zorder=0)
    axes[1].set(xlabel="accuracy", ylabel="mean number of classes", yscale="log")
    axes[1].set_yticks([0.8, 1, 2, 4, 8], ["0.8", "1", "2", "4", "8"])
    axes[1].set_title("Size of the sets, by coverage", fontsize=10)
    axes[1].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def cells(options: argparse.Namespace) -> list[tuple[str, str, str, float, int]]:
    """Return the values of `KEYS` of all rows; rows of one fit are neighbours."""
    held_out, splits = ("random-convolutions", "held-out"), range(options.splits)
    chosen = options.datasets
    rows = [(each, *held_out, c, s) for each in chosen for c in COVERAGES for s in splits]
    left_out = ("random-convolutions", "leave-one-out")
    for seed in range(options.samples):
        rows += [(each, *left_out, c, seed) for each in chosen for c in COVERAGES]
    network, small = ("transformer", "held-out"), [each for each in SMALL if each in chosen]
    return rows + [(each, *network, c, s) for each in small for c in COVERAGES for s in splits]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--splits", type=int, default=20, help="divisions of the test split")
    parser.add_argument("--samples", type=int, default=3, help="random train splits")
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "coverage")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    rows = fit_missing(options.out / "coverage.csv", KEYS, cells(options), fit, options.jobs)
    print(summary(rows).round(3).to_string())
    draw(rows, options.out / "coverage.png")


if __name__ == "__main__":
    main()
