"""How fast tsformer trains and predicts, beside what people use today.

    python experiments/speed.py [--device cuda] [--quick] [--only 256x6x100] [--json speed.json]

Each method has a process of its own. After a warm-up they take turns, round by round: a round
trains each on all series, runs each over all series, and over one series. Ratios are taken within
rounds, and tables hold their medians; the CSV holds every round. The long case is for peak memory:
one round, of what fits. Rows for a device and a case replace earlier ones.

`tsai` needs an environment of its own; its Python goes to `--tsai-python`. What is not
installed is skipped, with the reason in the table.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pandas as pd
import torch
from encoding_cost import machine
from speed_ceiling import ceiling_rows
from speed_imports import import_rows
from speed_methods import METHODS, OURS, Case
from speed_padding import padding_rows
from speed_tables import full_table, ratio_table

import tsformer

HERE = Path(__file__).parent
CSV = HERE / "results/speed.csv"
#: By what the rows are about; a run replaces its own.
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
#: The linear stem keeps a token a step, and takes minutes for a few such series.
LONG_LINEAR = replace(LONG, n=4, batch=4)


class Worker:
    """A method in a process of its own; `skipped` says why there is none."""

    def __init__(self, name: str, case: Case, arguments: argparse.Namespace):
        self.name = name
        python = arguments.tsai_python if name.startswith("tsai") else sys.executable
        threads = str(arguments.threads)
        command = [python, HERE / "speed_worker.py", name, arguments.device, threads]
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


def row(case: Case | None, **content: Any) -> dict[str, Any]:
    sizes = {} if case is None else case.described()
    return {"case": "all" if case is None else label(case), **sizes, **content}


def label(case: Case) -> str:
    return f"{case.n}x{case.n_channels}x{case.length}"


def measure(
    case: Case, methods: Iterable[str], arguments: argparse.Namespace, *, once: bool = False
) -> list[dict]:
    """Return the rows of one case: seconds by method and round, and peaks of memory.

    With `once` all is done one time, without a warm-up.
    """
    rounds, singles = (1, 1) if once else (arguments.rounds, 10)
    rows = []
    with ExitStack() as stack:
        started = [stack.enter_context(Worker(name, case, arguments)) for name in methods]
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


def measure_long(arguments: argparse.Namespace) -> list[dict]:
    """Return the rows of the longest series: ours, and what a matrix of scores would take."""
    rows = []
    for name, case in zip(OURS, (LONG, LONG_LINEAR), strict=True):
        rows += [
            {**line, "case": label(LONG)} for line in measure(case, [name], arguments, once=True)
        ]
    need = f"one matrix of scores of a batch takes {LONG.score_gib:.0f} GiB"
    others = [name for name in METHODS if name not in OURS]
    return rows + [row(LONG, method=name, what="skipped", note=need) for name in others]


def measure_rest(device: str) -> list[dict]:
    """Return the rows that are about no case: imports, padding, and how near a GPU's peak."""
    found = (*import_rows(), *padding_rows(), *ceiling_rows(device))
    return [row(None, **content) for content in found]


def stamped(rows: list[dict], arguments: argparse.Namespace) -> pd.DataFrame:
    """Return the rows with where and when they were measured."""
    return pd.DataFrame(rows).assign(
        device=arguments.device,
        threads=arguments.threads,
        machine=machine(arguments.device),
        python=platform.python_version(),
        torch=torch.__version__,
        tsformer=tsformer.__version__,
        date=date.today().isoformat(),
    )


def write(new: pd.DataFrame, path: Path) -> None:
    """Put the rows in place of those for the same device and case."""
    if path.exists():
        old = pd.read_csv(path)
        fresh = set(new[list(KEYS)].itertuples(index=False, name=None))
        pairs = old[list(KEYS)].itertuples(index=False, name=None)
        new = pd.concat([old[[pair not in fresh for pair in pairs]], new])
    new["value"] = new["value"].map(lambda value: float(f"{value:.4g}"))
    new.sort_values(["device", "length"], kind="stable").to_csv(path, index=False)


def chosen(arguments: argparse.Namespace) -> list[Case]:
    if not arguments.quick:
        return list(CASES)
    return [replace(case, n=min(case.n, 32), epochs=1) for case in CASES]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--quick", action="store_true", help="32 series, one epoch, two rounds")
    parser.add_argument("--rounds", type=int, help="3 by default, 2 with --quick")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", help="a case such as 256x6x100, long, or all: the rest")
    parser.add_argument("--methods", default=";".join(METHODS), help="set apart by semicolons")
    parser.add_argument("--tsai-python", default=sys.executable)
    parser.add_argument("--out", type=Path, default=CSV)
    parser.add_argument("--json", type=Path, help="write the rows of this run as JSON too")
    arguments = parser.parse_args()
    arguments.rounds = arguments.rounds or (2 if arguments.quick else 3)
    arguments.methods = arguments.methods.split(";")
    unknown = [name for name in arguments.methods if name not in METHODS]
    if unknown:
        parser.error(f"unknown methods {unknown}; there are {list(METHODS)}")
    labels = [*(label(case) for case in chosen(arguments)), "long", "all"]
    if arguments.only not in (None, *labels):
        parser.error(f"no case {arguments.only!r}; there are {labels}")
    return arguments


def main() -> None:
    arguments = parsed()
    jobs = [
        (label(case), lambda case=case: measure(case, arguments.methods, arguments))
        for case in chosen(arguments)
    ]
    if not arguments.quick or arguments.only == "long":
        jobs.append(("long", lambda: measure_long(arguments)))
    jobs.append(("all", lambda: measure_rest(arguments.device)))
    measured = []
    for name, job in jobs:
        if arguments.only in (None, name):
            frame = stamped(job(), arguments)
            write(frame, arguments.out)
            measured += frame.to_dict("records")
            print(f"{name}: done", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(measured, indent=1), encoding="utf-8")
    results = pd.read_csv(arguments.out)
    results = results[results["device"] == arguments.device]
    print(f"\n{full_table(results)}\n{ratio_table(results)}")


if __name__ == "__main__":
    main()
