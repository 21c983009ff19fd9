"""How fast tsformer trains and predicts, beside the implementations in use today.

    python experiments/speed/benchmark.py [--device cuda] [--quick] [--only 256x6x100]

Each method runs in its own process. After a warm-up they take turns, round by round: in a round
each method trains on all series, predicts all series, and predicts a single series. Ratios are
taken within rounds, and the tables show their medians; speed.csv holds every round. The long case
measures peak memory, in one round, of the methods that fit. Rows replace earlier ones for the same
device and case.

`tsai` needs its own environment, whose Python interpreter is passed as `--tsai-python`. A method
that is not installed is skipped, and the table gives the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`


import tsformer
from experiments.machine import machine
from experiments.output import add_output_options, replace_rows
from experiments.speed.methods import METHODS, OURS, Case
from tools.speed_tables import full_table, ratio_table

#: What rows are about; a run replaces earlier rows about the same.
KEYS = ("device", "case")

#: Multivariate and univariate, short and long, as in the archives (NATOPS, BasicMotions, ...).
CASES = (
    Case(180, 24, 51, epochs=4),
    Case(256, 6, 100, epochs=4),
    Case(200, 1, 427, epochs=2),
    Case(268, 6, 896, epochs=1),
)
#: As long as those of EigenWorms.
LONG = Case(16, 6, 17_984, epochs=1)
#: The linear stem keeps one token per step, and takes minutes for a few such series.
LONG_LINEAR = replace(LONG, n=4, batch=4)


class Worker:
    """A method in its own process; `skipped` is the reason if it cannot run."""

    def __init__(self, name: str, case: Case, options: argparse.Namespace):
        self.name = name
        python = options.tsai_python if name.startswith("tsai") else sys.executable
        threads = str(options.threads)
        command = [python, Path(__file__).with_name("worker.py"), name, options.device, threads]
        self.process = subprocess.Popen(
            [*command, json.dumps(case.described())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads},
        )
        first = self._answer()
        self.skipped: str | None = first.get("skipped")
        self.memory_at_rest: float | None = first.get("memory_mib")

    def do(self, action: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(action + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            code = self.process.wait()
            raise RuntimeError(f"the process of {self.name!r} ended with {code}; see above")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30 if kind is None else 1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def row(case: Case, **content: Any) -> dict[str, Any]:
    return {"case": label(case), **case.described(), **content}


def label(case: Case) -> str:
    return f"{case.n}x{case.n_channels}x{case.length}"


def measure(
    case: Case, methods: Iterable[str], options: argparse.Namespace, *, once: bool = False
) -> list[dict]:
    """Return the rows of one case: seconds by method and round, and peak memory.

    With `once` there is a single round, without a warm-up.
    """
    rounds, singles = (1, 1) if once else (options.rounds, 10)
    rows = []
    with ExitStack() as stack:
        started = [stack.enter_context(Worker(name, case, options)) for name in methods]
        workers = [worker for worker in started if worker.skipped is None]
        rows += [
            row(case, method=worker.name, what="skipped", note=worker.skipped)
            for worker in started
            if worker.skipped is not None
        ]
        for worker in workers:
            if not once:
                worker.do("warm-up")
        for turn in range(rounds):
            for what, times in (("training", 1), ("inference", 1), ("one series", singles)):
                for worker in workers:
                    taken = [worker.do(what) for _ in range(times)]
                    for key, unit in (("seconds", "s"), ("cpu_seconds", "CPU s")):
                        value = statistics.median(answer[key] for answer in taken)
                        rows.append(
                            row(
                                case,
                                method=worker.name,
                                **{"what": what, "round": turn, "value": value, "unit": unit},
                            )
                        )
        rows += [line for worker in workers for line in memory_rows(case, worker)]
    return rows


def memory_rows(case: Case, worker: Worker) -> list[dict]:
    answer = worker.do("memory")
    held = {
        "memory at rest": worker.memory_at_rest,
        "peak memory": answer["memory_mib"],
        "peak device memory": answer["device_mib"],
    }
    return [
        row(case, method=worker.name, what=what, value=value, unit="MiB")
        for what, value in held.items()
        if value is not None
    ]


def measure_long(options: argparse.Namespace) -> list[dict]:
    """Return the rows of the longest series: ours, and the memory of a matrix of scores."""
    rows = []
    for name, case in zip(OURS, (LONG, LONG_LINEAR), strict=True):
        rows += [
            {**line, "case": label(LONG)} for line in measure(case, [name], options, once=True)
        ]
    need = f"one matrix of scores of a batch takes {LONG.score_gib:.0f} GiB"
    others = [name for name in METHODS if name not in OURS]
    return rows + [row(LONG, method=name, what="skipped", note=need) for name in others]


def stamped(rows: list[dict], options: argparse.Namespace) -> pd.DataFrame:
    """Return the rows with the machine, the versions and the date."""
    return pd.DataFrame(rows).assign(
        device=options.device,
        threads=options.threads,
        machine=machine(options.device),
        python=platform.python_version(),
        torch=torch.__version__,
        tsformer=tsformer.__version__,
        date=date.today().isoformat(),
    )


def write(new: pd.DataFrame, path: Path) -> None:
    """Replace the rows for the same device and case by the new ones."""
    rows = replace_rows(new, path, KEYS)
    rows["value"] = rows["value"].map(lambda value: float(f"{value:.4g}"))
    rows.sort_values(["device", "length"], kind="stable").to_csv(path, index=False)


def chosen(options: argparse.Namespace) -> list[Case]:
    if not options.quick:
        return list(CASES)
    return [replace(case, n=min(case.n, 32), epochs=1) for case in CASES]


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="32 series, one epoch, two rounds")
    parser.add_argument("--rounds", type=int, help="by default 3, with --quick 2")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help="a case such as 256x6x100, or `long`")
    parser.add_argument("--methods", default=";".join(METHODS), help="separated by semicolons")
    parser.add_argument("--tsai-python", default=sys.executable, help="an interpreter with tsai")
    parser.add_argument("--json", type=Path, help="also write the rows of this run as JSON")
    add_output_options(parser, "speed")
    options = parser.parse_args(argv)
    options.rounds = options.rounds or (2 if options.quick else 3)
    options.methods = options.methods.split(";")
    unknown = [name for name in options.methods if name not in METHODS]
    if unknown:
        parser.error(f"unknown methods {unknown}; there are {list(METHODS)}")
    labels = [*(label(case) for case in chosen(options)), "long"]
    if options.only not in (None, *labels):
        parser.error(f"no case {options.only!r}; there are {labels}")
    return options


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    path = options.out / "speed.csv"
    jobs = [
        (label(case), lambda case=case: measure(case, options.methods, options))
        for case in chosen(options)
    ]
    if not options.quick or options.only == "long":
        jobs.append(("long", lambda: measure_long(options)))
    measured = []
    for name, job in jobs:
        if options.only in (None, name):
            frame = stamped(job(), options)
            write(frame, path)
            measured += frame.to_dict("records")
            print(f"{name}: done", flush=True)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1), encoding="utf-8")
    results = pd.read_csv(path)
    results = results[results["device"] == options.device]
    print(f"\n{full_table(results)}\n{ratio_table(results)}")


if __name__ == "__main__":
    main()
