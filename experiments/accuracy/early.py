"""Accuracy against earliness of `EarlyClassifier` and of aeon's TEASER, on six problems.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/early.py [--jobs 2]

Appends rows to early.csv. Everything is fitted and chosen on the train split and scored on the test
split. `EarlyClassifier` has a row for each earliness that is passed to it; TEASER has one. Draws
early.png.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import add_output_options, fit_missing
from tsformer import EarlyClassifier, TSTransformerClassifier, load_dataset
from tsformer.data.containers import to_padded
from tsformer.estimators.early import _stop

DATASETS = ["ArrowHead", "Car", "ECG200", "FaceFour", "Lightning2", "NATOPS"]
WANTED = ["harmonic", *(f"{share:.1f}" for share in (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))]
KEYS = ["dataset", "method", "wanted"]
SCORES = ["accuracy", "earliness", "harmonic_mean"]
RULE = ["n_agreeing", "threshold", *(f"held_out_{name}" for name in SCORES), "complete"]


def made(method: str) -> EarlyClassifier:
    """Make an early classifier."""
    if method == "convolutions":
        return EarlyClassifier(random_state=0)
    return EarlyClassifier(TSTransformerClassifier(random_state=0), cv=2, random_state=0)


@cache
def fitted(dataset: str, method: str) -> dict[str, Any]:
    """Fit, and replay the test split once; return answers at all points, steps and seconds."""
    X, y = load_dataset(dataset, split="train")
    if method == "teaser":
        from aeon.classification.early_classification import TEASER

        classifier: Any = TEASER(random_state=0)
    else:
        classifier = made(method)
    start = perf_counter()
    classifier.fit(X, y)
    found = {"classifier": classifier, "fit_seconds": round(perf_counter() - start, 1)}
    X, y = load_dataset(dataset, split="test")
    start = perf_counter()
    if method == "teaser":
        mean, accuracy, earliness = classifier.score(X, y)
        found |= dict(zip(SCORES, (accuracy, earliness, mean), strict=True))
    else:
        series = to_padded(X)
        found["answers"], steps = classifier._ask(series, complete=True)
        found["seen"] = steps / series.lengths
        found["targets"] = np.searchsorted(classifier.classes_, y)
    return found | {"test_seconds": round(perf_counter() - start, 1)}


def fit(dataset: str, method: str, wanted: str) -> dict[str, Any]:
    """Return a row of the CSV."""
    torch.set_num_threads(1)
    found = fitted(dataset, method)
    classifier = found["classifier"]
    row: dict[str, Any] = dict(zip(KEYS, (dataset, method, wanted), strict=True))
    rule: dict[str, Any] = {}
    if method == "teaser":
        rule["n_agreeing"] = classifier._consecutive_predictions
        scores = {name: found[name] for name in SCORES}
    else:
        classifier.choose_rule(wanted if wanted == "harmonic" else float(wanted))
        rule["n_agreeing"], rule["threshold"] = classifier.n_agreeing_, classifier.threshold_
        table = classifier.trade_offs_
        chosen = (table.threshold == rule["threshold"]) & (table.n_agreeing == rule["n_agreeing"])
        rule |= {f"held_out_{name}": table.loc[chosen, name].iloc[0] for name in SCORES}
        answers, targets = found["answers"], found["targets"]
        stop = _stop(answers, rule["threshold"], rule["n_agreeing"])
        cases = np.arange(len(targets))
        right = answers[stop, cases].argmax(axis=1) == targets
        accuracy, earliness = float(right.mean()), float(found["seen"][stop, cases].mean())
        mean = 2 * accuracy * (1 - earliness) / (accuracy + 1 - earliness)
        scores = dict(zip(SCORES, (accuracy, earliness, mean), strict=True))
        rule["complete"] = (answers[-1].argmax(axis=1) == targets).mean()
    values = {**scores, **{name: rule.get(name, np.nan) for name in RULE}}
    row |= {name: round(float(value), 4) for name, value in values.items()}
    return row | {name: found[name] for name in ("fit_seconds", "test_seconds")}


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw accuracy against earliness, with TEASER as a point."""
    import matplotlib.pyplot as plt

    names = sorted(rows.dataset.unique())
    figure, axes = plt.subplots(2, 3, figsize=(9, 5.4), layout="constrained")
    colours = {"convolutions": "C0", "transformer": "C1", "teaser": "C3"}
    for ax, name in zip(axes.flat, names, strict=False):
        for method, colour in colours.items():
            own = rows[(rows.dataset == name) & (rows.method == method)]
            curve = own[own.wanted != "harmonic"].sort_values("earliness")
            best = own[own.wanted == "harmonic"]
            ax.plot(curve.earliness, curve.accuracy, ".-", color=colour, lw=1)
            label = {"teaser": "TEASER"}.get(method, method)
            marker = "X" if method == "teaser" else "o"
            ax.plot(best.earliness, best.accuracy, marker, color=colour, ms=8, label=label)
        ax.set_title(name, fontsize=10)
        ax.set_xlim(0, 1)
    for ax in axes[-1]:
        ax.set_xlabel("mean share that is seen")
    for ax in axes[:, 0]:
        ax.set_ylabel("accuracy")
    axes.flat[0].legend(frameon=False, loc="lower right", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def cells(options: argparse.Namespace) -> list[tuple[str, str, str]]:
    """Return the values of `KEYS` of all rows; rows of one fit are neighbours."""
    found = []
    for method in options.methods:
        wanted = ["harmonic"] if method == "teaser" else WANTED
        found += [(each, method, share) for each in options.datasets for share in wanted]
    return found


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    methods = ["convolutions", "transformer", "teaser"]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", default=DATASETS)
    parser.add_argument("--methods", nargs="+", default=methods, choices=methods)
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "early")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    rows = fit_missing(options.out / "early.csv", KEYS, cells(options), fit, options.jobs)
    print(rows[rows.wanted == "harmonic"].to_string())
    draw(rows, options.out / "early.png")


if __name__ == "__main__":
    main()
