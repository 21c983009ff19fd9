"""The default beside the plain loop where series are short, and what each part of it costs.

    python experiments/speed/short_series.py [--rounds 5]

At some 50 steps a network with convolutions before the same blocks does more arithmetic than the
plain loop of the notebooks, and at 100 little less. Methods take turns, round by round; of each,
after a fit that is not counted, the seconds of the processor of a fit of seven epochs, less those
of one epoch, are divided by those of the plain loop in the same round. A row per case, variant and
round is added to short_series.csv: `times_as_fast` is how many times as fast as the plain loop the
variant trains.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.machine import machine
from experiments.output import add_output_options, append_rows
from experiments.speed.methods import Case, plain_loop
from tsformer import TSTransformerClassifier

NAME = "short_series"
CASES = {
    "200 × 1 × 50": Case(200, 1, 50, 1),
    "180 × 24 × 51": Case(180, 24, 51, 1),
    "256 × 6 × 100": Case(256, 6, 100, 1),
}
#: What differs from the default.
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "no augmentation": {"augmentation": None},
    "no residual layer": {"stem_params": {"n_residual": 0}},
    "one dilation": {"stem_params": {"dilations": (1,)}},
    "no differences": {"views": "values"},
    "no dropout": {"dropout": 0.0},
    "no encoding": {"encoding": "none"},
    "batches of 32": {"batch_size": 32},
    "32 tokens": {"stem_params": {"n_tokens": 32}},
    "32 tokens, batches of 32": {"stem_params": {"n_tokens": 32}, "batch_size": 32},
}
EPOCHS = 6


def seconds_of(make: Callable[[int], Any], case: Case) -> float:
    """Return the seconds of the processor of an epoch after the first."""
    X, y = case.data()
    make(1).fit(X, y)  # what a process loads for its first fit is no part of an epoch
    used = []
    for epochs in (1, 1 + EPOCHS):
        method = make(epochs)
        start = time.process_time()
        method.fit(X, y)
        used.append(time.process_time() - start)
    return (used[1] - used[0]) / EPOCHS


def methods(case: Case) -> dict[str, Callable[[int], Any]]:
    """Return what makes each method for a number of epochs."""

    def ours(options: dict[str, Any]) -> Callable[[int], Any]:
        return lambda epochs: TSTransformerClassifier(
            max_epochs=epochs, early_stopping=False, random_state=0, **options
        )

    def plain(epochs: int) -> Any:
        return plain_loop(Case(case.n, case.n_channels, case.length, epochs), "cpu")

    return {"plain loop": plain} | {name: ours(options) for name, options in VARIANTS.items()}


def measured(name: str, number: int) -> pd.DataFrame:
    """Measure all methods on a case, one after another."""
    case = CASES[name]
    seconds = {variant: seconds_of(make, case) for variant, make in methods(case).items()}
    reference = seconds.pop("plain loop")
    rows = [
        {
            "case": name,
            "variant": variant,
            "round": number,
            "times_as_fast": round(reference / own, 3),
            "series_per_second": round(case.n / own, 1),
        }
        for variant, own in seconds.items()
    ]
    about = {
        "machine": machine("cpu"),
        "torch": torch.__version__,
        "date": date.today().isoformat(),
    }
    return pd.DataFrame(rows).assign(**about)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    add_output_options(parser, NAME)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    torch.set_num_threads(1)
    path = options.out / f"{NAME}.csv"
    done = len(pd.read_csv(path).groupby("round")) if path.exists() else 0
    for number in range(done, options.rounds):
        for name in options.cases:
            append_rows(measured(name, number), path)
            print(f"round {number + 1} of {options.rounds}: {name}", flush=True)
    table = pd.read_csv(path).pivot_table(
        "times_as_fast", "variant", "case", aggfunc="median", sort=False
    )
    print(table.round(2).to_string())


if __name__ == "__main__":
    main()
