"""Where the time of a training step goes.

    python experiments/speed/step_profile.py

Writes speed_profile.csv: the self times of operators, forward and backward, from torch's profiler
on one thread, summed by `PARTS`. The share of a part bounds what a change to it can gain.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.machine import machine
from experiments.output import add_output_options
from experiments.speed.benchmark import CASES
from experiments.speed.methods import Case
from experiments.speed.trials import step

#: Part of a step -> how the names of its operators start, after "aten::".
PARTS = {
    "attention": ("_scaled_dot_product",),
    "convolutions": ("convolution", "mkldnn_convolution", "_convolution"),
    "random numbers of dropout": ("bernoulli",),
    "products of matrices": ("mm", "addmm", "bmm", "baddbmm", "linear"),
    "norms": ("native_layer_norm", "native_batch_norm", "batch_norm", "var_mean"),
    "GELU": ("gelu",),
    "sums, products, copies": ("add", "mul", "div", "sum", "mean", "copy_", "cat", "fill_", "zero"),
    "optimizer and clipping": ("_fused_adamw", "_foreach", "linalg_vector_norm", "clamp", "stack"),
}
REST = "the rest"


def part_of(operator: str) -> str:
    """Return the part of a step that an operator belongs to, by the longest matching start."""
    name = operator.removeprefix("aten::")
    fitting = [
        (len(start), part)
        for part, starts in PARTS.items()
        for start in starts
        if name.startswith(start)
    ]
    return max(fitting)[1] if operator.startswith("aten::") and fitting else REST


def shares(case: Case, stem: str, steps: int) -> dict[str, float]:
    """Return the share of each part in the time of a step."""
    run = step(case, stem)
    for _ in range(3):
        run()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(steps):
            run()
    spent = dict.fromkeys([*PARTS, REST], 0.0)
    for event in profile.key_averages():
        spent[part_of(event.key)] += event.self_cpu_time_total
    total = sum(spent.values())
    return {part: time / total for part, time in spent.items()}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=10, help="profiled for each stem and length")
    add_output_options(parser, "speed_profile")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    torch.set_num_threads(1)
    rows = [
        {"stem": stem, "length": case.length, "part": part, "share": round(share, 4)}
        for stem in ("linear", "conv")
        for case in CASES
        for part, share in shares(case, stem, options.steps).items()
    ]
    stamp = {"machine": machine("cpu"), "torch": torch.__version__, "date": date.today()}
    options.out.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).assign(**stamp).to_csv(options.out / "speed_profile.csv", index=False)


if __name__ == "__main__":
    main()
