"""Cost of each encoding: time and peak memory of a training step relative to `none`.

    python experiments/cost/encoding_cost.py [--device cuda] [--lengths 64,256] [--seconds 120]

Time: all encodings take turns in one process, round after round; a ratio is the time of one
encoding's step over that of `none` in the same round, and a row holds the median over rounds with
its quartiles. Memory: the peak of the tensors of one step beyond the allocation before
it. The rows of a length are written to encoding_cost.csv as soon as it is measured, in place of
earlier rows of this device and length; encoding_cost.png is drawn at the end.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import pandas as pd
import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.machine import machine
from experiments.output import add_output_options, replace_rows
from tsformer import ModelConfig, TSTransformer
from tsformer.encodings import available, names, resolve

LENGTHS = (64, 256, 1024, 4096)
TOKENS = 8192  # per batch, approximately, at every length
SIZES = {"d_model": 64, "n_heads": 4}
MIB = 2**20


def batch_for(length: int) -> int:
    return max(TOKENS // length, 1)


def training_step(encoding: str, length: int, device: str) -> Callable[[], None]:
    """Return a function that runs one forward and backward pass behind the linear stem."""
    torch.manual_seed(0)
    config = ModelConfig(
        n_channels=3, n_outputs=4, max_len=length, encoding=encoding, stem="linear", **SIZES
    )
    model = TSTransformer(config).to(device).train()
    x = torch.randn(batch_for(length), length, 3, device=device)
    y = torch.randint(0, 4, (len(x),), device=device)

    def step() -> None:
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        if device == "cuda":
            torch.cuda.synchronize()

    return step


def time_ratios(encodings: list[str], length: int, device: str, seconds: float) -> pd.DataFrame:
    """Return step times relative to `none`: one row per round, one column per encoding."""
    steps = {name: training_step(name, length, device) for name in encodings}
    for step in steps.values():
        step()
    rounds: list[dict[str, float]] = []
    start = time.perf_counter()
    while len(rounds) < 3 or time.perf_counter() - start < seconds:
        taken = {}
        for name, step in steps.items():
            begin = time.perf_counter()
            step()
            taken[name] = time.perf_counter() - begin
        rounds.append({name: value / taken["none"] for name, value in taken.items()})
    return pd.DataFrame(rounds)


def peak_memory(encoding: str, length: int, device: str) -> float:
    """Return the peak MiB of a step beyond the allocation before it."""
    step = training_step(encoding, length, device)
    step()  # warm-up: libraries allocate their caches
    gc.collect()  # garbage freed during the step would lower its peak
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        return (torch.cuda.max_memory_allocated() - before) / MIB
    # Garbage freed during a step lowers its peak: the maximum of three.
    return max(_peak_of(step) for _ in range(3)) / MIB


def _peak_of(step: Callable[[], object]) -> int:
    """Return the peak bytes of a step on a CPU beyond the allocation before it."""
    cpu = torch.profiler.ProfilerActivity.CPU
    with torch.profiler.profile(activities=[cpu], profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    sizes = (event.nbytes() for event in sorted(events, key=lambda event: event.start_ns()))
    return max(itertools.accumulate(sizes))


def measure(length: int, encodings: list[str], options: argparse.Namespace) -> pd.DataFrame:
    """Return the rows of one length."""
    device, kinds = options.device, {row["name"]: row["kind"] for row in available()}
    ratios = time_ratios(encodings, length, device, options.seconds)
    memory = {name: peak_memory(name, length, device) for name in encodings}
    rows = []
    for name in encodings:
        low, middle, high = ratios[name].quantile([0.25, 0.5, 0.75])
        encoding = resolve(name, max_len=length, **SIZES)
        rows.append(
            {
                "encoding": name,
                "kind": kinds.get(name, encoding.kind),
                "device": device,
                "length": length,
                "batch": batch_for(length),
                "time_ratio": round(middle, 3),
                "time_low": round(low, 3),
                "time_high": round(high, 3),
                "rounds": len(ratios),
                "memory_mib": round(memory[name], 1),
                "memory_ratio": round(memory[name] / memory["none"], 3),
                "threads": options.threads,
                "machine": machine(device),
                "torch": torch.__version__,
                "date": date.today().isoformat(),
            }
        )
    return pd.DataFrame(rows)


def report(cost: pd.DataFrame) -> str:
    """Return the time ratios and the peak memory by length."""
    lines = []
    for device, rows in cost.groupby("device"):
        table = rows.pivot_table("time_ratio", "encoding", "length", sort=False)
        growth = rows.pivot_table("memory_mib", "encoding", "length", sort=False)
        lines += [f"time on {device}, relative to none", table.to_string()]
        lines += ["", "peak MiB of a step, tokens per batch equal", growth.to_string(), ""]
    return "\n".join(lines)


def draw(cost: pd.DataFrame, path: Path) -> None:
    """Draw time and memory against length on the CPU, one column of panels per hook."""
    from tsformer.plots import encoding_color
    from tsformer.plots.figures import new_figure

    cost = cost[cost["device"] == "cpu"]
    kinds = [kind for kind in ("embed", "rotate", "bias", "mix") if kind in set(cost["kind"])]
    figure = new_figure(3.6 * len(kinds), 7.5)
    panels = figure.subplots(2, len(kinds), sharex=True, sharey="row", squeeze=False)
    for column, kind in zip(panels.T, kinds, strict=True):
        for ax, quantity in zip(column, ("time_ratio", "memory_ratio"), strict=True):
            for name, rows in cost[cost["kind"] == kind].groupby("encoding", sort=False):
                color = encoding_color(name)
                ax.plot(rows["length"], rows[quantity], "o-", color=color, label=name, ms=3.5)
            ax.axhline(1, color="0.6", linewidth=0.8, zorder=0)
            ax.set_xscale("log", base=2)
            ax.set_yscale("log", base=2)
            ax.set_xticks(sorted(cost["length"].unique()), sorted(cost["length"].unique()))
            ax.yaxis.set_major_formatter("{x:g}")
            ax.minorticks_off()
        column[0].set_title(kind, fontsize=11)
        column[0].legend(
            fontsize=8, frameon=False, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.08)
        )
        column[1].set_xlabel("steps")
    panels[0, 0].set_ylabel("time relative to none")
    panels[1, 0].set_ylabel("peak memory relative to none")
    figure.savefig(path)


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    every = ",".join([*names(), "tape+erpe"])
    parser.add_argument("--encodings", default=every, help="`none` is always included")
    parser.add_argument("--seconds", type=float, default=60.0, help="time budget per length")
    parser.add_argument("--threads", type=int, default=1)
    add_output_options(parser, "encoding_cost")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    torch.set_num_threads(options.threads)
    encodings = ["none", *(name for name in options.encodings.split(",") if name != "none")]
    # The committed file is a link to tsformer/encodings/cost.csv, which `tsformer encodings` reads.
    path, key = options.out / "encoding_cost.csv", ["device", "length"]
    for length in map(int, options.lengths.split(",")):
        rows = replace_rows(measure(length, encodings, options), path, key)
        rows.sort_values(key, kind="stable").to_csv(path, index=False)
        print(f"{length} steps: done", flush=True)
    cost = pd.read_csv(path)
    print(report(cost))
    draw(cost, options.out / "encoding_cost.png")


if __name__ == "__main__":
    main()
