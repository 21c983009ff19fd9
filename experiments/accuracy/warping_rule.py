"""Where `augmentation="auto"` does not warp: the agreement that a ridge classifier keeps.

    TSFORMER_DATA=/folder/of/the/archive python experiments/accuracy/warping_rule.py

For each of the 22 development problems, by its train split alone, what `agreement_kept` returns for
warping every series: the share of a classifier's agreement with the labels that is left when the
series that it classifies are warped. Writes warping_rule.csv; takes a minute or two on one core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.accuracy.recipe_study import DATASETS
from experiments.output import add_output_options, fit_missing
from tsformer import load_dataset
from tsformer.augmentation import Warp
from tsformer.data.containers import to_padded
from tsformer.estimators.label_preservation import LEAST_KEPT, agreement_kept


def measure(dataset: str) -> dict[str, object]:
    """Return the row of a problem."""
    torch.set_num_threads(1)
    X, y = load_dataset(dataset, split="train")
    series = to_padded(X, None, index=False, check=np.asarray)
    targets = np.unique(y, return_inverse=True)[1]
    kept = agreement_kept(Warp(p=1.0), series, targets, scaling="channel")
    return {
        "dataset": dataset,
        "series": len(y),
        "agreement_kept": round(kept, 3),
        "warps": kept >= LEAST_KEPT,
    }


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=DATASETS)
    add_output_options(parser, "warping_rule")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    cells = ((dataset,) for dataset in options.datasets)
    rows = fit_missing(options.out / "warping_rule.csv", ["dataset"], cells, measure, 1)
    print(rows.sort_values("agreement_kept").to_string(index=False))


if __name__ == "__main__":
    main()
