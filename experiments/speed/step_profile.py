"""Where the time of a training step goes, by what it is spent on.

    python experiments/speed_profile.py

On one thread, from torch's profiler: the self time of each operator, forward and backward, put
together by `PARTS`. What a part cannot be faster than gone is the most a change to it can give.
"""

from __future__ import annotations

import argparse
from datetime import date
from pathlib import Path

import pandas as pd
import torch
from encoding_cost import machine
from speed import CASES
from speed_methods import Case
from speed_trials import step

CSV = Path(__file__).parent / "results/speed_profile.csv"

#: Part of a step -> how names of operators of it go on after "aten::".
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
    """Return the part of a step that an operator belongs to: the longest name that fits."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--out", type=Path, default=CSV)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows = [
        {"stem": stem, "length": case.length, "part": part, "share": round(share, 4)}
        for stem in ("linear", "conv")
        for case in CASES
        for part, share in shares(case, stem, arguments.steps).items()
    ]
    stamp = {"machine": machine("cpu"), "torch": torch.__version__, "date": date.today()}
    pd.DataFrame(rows).assign(**stamp).to_csv(arguments.out, index=False)


if __name__ == "__main__":
    main()
