"""Which encoding helps behind which stem: twelve encodings, three stems, thirteen problems.

    TSFORMER_DATA=/the/archive python experiments/encodings/by_stem.py [--stems patch] [--seeds 0 1]

The problems were chosen by size before any fit: the three that the survey of Irani and Metsis
(arXiv 2502.12370) and the archive share, and the ten with the fewest training values (series times
steps) among the development problems and sktime's built-in problems of at most 640 steps. They are
in the order of that number, and seeds vary slowest, so that an unfinished study is balanced.

The recipe is today's default behind every stem. So is the budget of about 1,000 optimizer steps,
with three exceptions where 60 epochs are more work: 2,000 steps on MelbournePedestrian and LSST,
and 20 epochs on the 896 steps of SelfRegulationSCP1. Patches are the default's, without overlap as
the survey's: two steps each, and about 64 patches a series from 160 steps on. The survey's code
has 16 steps each, which leaves two or three patches of the shortest series. Fits see the train
split and are scored once, on the test split; nothing may be chosen by these scores. Appends each
fit to encodings_by_stem.csv and resumes from it. `tools/stems.py` makes the tables.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from sklearn.metrics import log_loss

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

import tsformer
from experiments.output import add_output_options, fit_missing
from tsformer import TSTransformerClassifier, load_dataset

DATASETS = [
    "ItalyPowerDemand",
    "BasicMotions",
    "GunPoint",
    "JapaneseVowels",
    "FaceFour",
    "ArrowHead",
    "NATOPS",
    "ECG200",
    "FingerMovements",
    "Handwriting",
    "MelbournePedestrian",
    "LSST",
    "SelfRegulationSCP1",
]
STEMS = ["linear", "patch", "conv"]
ENCODINGS = [
    *("none", "fixed", "learnable", "tape", "erpe", "tape+erpe"),
    *("rope", "tupe", "conv_spe", "alibi", "pope", "lspe"),
]
MAX_EPOCHS = {"MelbournePedestrian": 26, "LSST": 13, "SelfRegulationSCP1": 20}
KEYS = ["seed", "dataset", "stem", "encoding"]


def fit(seed: int, dataset: str, stem: str, encoding: str) -> dict[str, object]:
    """Train on the train split and score the test split."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    X_test, y_test = load_dataset(dataset, split="test")
    used = time.process_time()
    classifier = TSTransformerClassifier(
        encoding, stem=stem, max_epochs=MAX_EPOCHS.get(dataset, "auto"), random_state=seed
    ).fit(X, y)
    used = time.process_time() - used
    proba = classifier.predict_proba(X_test)
    return {
        **dict(zip(KEYS, (seed, dataset, stem, encoding), strict=True)),
        "accuracy": round(float((classifier.classes_[proba.argmax(axis=1)] == y_test).mean()), 6),
        "log_loss": round(log_loss(y_test, proba, labels=classifier.classes_), 4),
        "cpu_seconds": round(used, 1),
        "n_epochs": len(classifier.history_),
        "n_tokens": classifier.model_.stem.n_tokens(max(x.shape[-1] for x in X)),
        "tsformer": tsformer.__version__,
        "date": time.strftime("%Y-%m-%d"),
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4])
    parser.add_argument("--stems", nargs="+", choices=STEMS, default=STEMS)
    parser.add_argument("--encodings", nargs="+", choices=ENCODINGS, default=ENCODINGS)
    parser.add_argument("--jobs", type=int, default=1, help="fits run in parallel, one thread each")
    add_output_options(parser, "encodings_by_stem")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = itertools.product(options.seeds, DATASETS, options.stems, options.encodings)
    fit_missing(options.out / "encodings_by_stem.csv", KEYS, cells, fit, options.jobs)


if __name__ == "__main__":
    main()
