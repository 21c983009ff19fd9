"""Prove and measure the GPU path with one command, in less than nine minutes.

    python experiments/gpu/run.py [--device cuda] [--tiny] [--seconds 520] [--only checks]

It needs torch, NumPy, pandas and scikit-learn, and skips what needs more. Each part runs in its own
process with its own limit and appends each row to ``<part>.jsonl``. ``README.md`` shows the rows,
also of a run that was interrupted. Without a GPU, ``--device cpu --tiny`` rehearses all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.output import COMMITTED, add_output_options

Row = dict[str, Any]

#: Part -> its limit in seconds, the most important first. Unused seconds pass to the next part.
PARTS = {
    "machine": 40,
    "checks": 240,
    "training": 160,
    "matmul": 60,
    "choices": 120,
    "problems": 120,
}
#: Exit status of a process with a failed device; a new process continues.
POISONED = 75
#: Seconds at the end in which the page is written.
_RESERVE = 5


# In the process of a part


def machine_rows(device: Any) -> Iterator[Row]:
    """Yield device, driver, versions and missing extras."""
    import importlib.util
    import platform
    from datetime import date

    import numpy as np
    import torch

    import tsformer
    from experiments.machine import machine

    on_gpu = device.type == "cuda"
    facts: Row = {"device": machine(device.type), "kind": device.type}
    if on_gpu:
        properties = torch.cuda.get_device_properties(0)
        facts["memory"] = f"{properties.total_memory / 2**30:.0f} GiB"
        facts["compute capability"] = f"{properties.major}.{properties.minor}"
        facts["driver"] = _driver()
        facts["CUDA"] = torch.version.cuda
        facts["cuDNN"] = torch.backends.cudnn.version()
    extras = ("captum", "matplotlib", "mlflow", "pytest", "safetensors", "sktime")
    missing = [name for name in extras if importlib.util.find_spec(name) is None]
    facts |= {"torch": torch.__version__, "NumPy": np.__version__}
    facts |= {"Python": platform.python_version(), "tsformer": tsformer.__version__}
    facts |= {"date": date.today().isoformat(), "not installed": ", ".join(missing)}
    yield from ({"what": fact, "value": value} for fact, value in facts.items())


def _driver() -> str:
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"unknown ({type(error).__name__})"
    return done.stdout.split("\n")[0].strip()


def check_rows(device: Any, done: set[str], only: str) -> Iterator[Row]:
    """Yield for each check without an outcome that it began, then its outcome."""
    from experiments.gpu.checks import CHECKS, NotHere

    for name, check in CHECKS.items():
        if name in done or not name.startswith(only):
            continue
        yield {"check": name, "outcome": "died", "note": "the process ended in it"}
        start = time.perf_counter()
        outcome, note = "passed", ""
        try:
            note = check(device)
        except NotHere as reason:
            outcome, note = "skipped", str(reason)
        except Exception as error:  # whatever it is, the other checks are worth having
            lines = str(error).splitlines() or [""]
            outcome, note = "failed", f"{type(error).__name__}: {lines[0]}"
        seconds = round(time.perf_counter() - start, 2)
        yield {"check": name, "outcome": outcome, "seconds": seconds, "note": note}
        if outcome == "failed" and _poisoned(device):
            sys.exit(POISONED)


def _poisoned(device: Any) -> bool:
    """Whether an error has left the device unusable for this process."""
    import torch

    try:
        return not bool(torch.ones(1, device=device).add(1).item() == 2)
    except RuntimeError:
        return True


def part_rows(name: str, options: argparse.Namespace, done: set[str]) -> Iterator[Row]:
    import torch

    from tsformer._devices import resolve_device

    if options.tiny:
        torch.set_num_threads(1)
    device = resolve_device(options.device)
    if name == "machine":
        return machine_rows(device)
    if name == "checks":
        return check_rows(device, done, options.checks)
    from experiments.gpu import choices, problems, speed

    rows: dict[str, Callable[..., Iterator[Row]]] = {
        "training": speed.training_rows,
        "matmul": speed.matmul_rows,
        "choices": choices.choice_rows,
        "problems": problems.problem_rows,
    }
    return rows[name](device, tiny=options.tiny)


def run_part(name: str, options: argparse.Namespace) -> None:
    """Append the rows of a part while the parent process lives."""
    parent = os.getppid()
    path = options.folder / f"{name}.jsonl"
    done = {row["check"] for row in read_rows(path)} if name == "checks" else set()
    with path.open("a", encoding="utf-8") as file:
        for row in part_rows(name, options, done):
            file.write(json.dumps(row) + "\n")
            file.flush()
            if os.getppid() != parent:
                return


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a part; a line that was cut off is left out."""
    if not path.exists():
        return []
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:  # the process was killed while it wrote this
            continue
    return rows


# In the process of the command


class Killed(BaseException):
    """A signal ends the run."""


class Run:
    """The parts of a run, one after another, and how each has ended."""

    def __init__(self, options: argparse.Namespace):
        self.options = options
        self.end = time.monotonic() + options.seconds
        self.parts: dict[str, Row] = {}
        self.process: subprocess.Popen[bytes] | None = None

    def run_all(self) -> None:
        """Run all parts; however it ends, say in run.json how, and write the page."""
        chosen = [name for name in PARTS if self.options.only in (None, name, "machine")]
        chosen = ["machine", *(name for name in chosen if name != "machine")]
        for name in chosen:
            (self.options.folder / f"{name}.jsonl").unlink(missing_ok=True)
            self.parts[name] = {"outcome": "not begun", "seconds": 0.0}
        outcome = "killed"
        self.write("killed")  # true until it is written again
        try:
            for name in chosen:
                self.run(name)
                self.write("killed")
                if name == "machine" and self.parts[name]["outcome"] != "done":
                    outcome = "no such device"
                    return
            outcome = "done"
        finally:
            self.stop()
            self.write(outcome)

    def run(self, name: str) -> None:
        start = time.monotonic()
        most = min(PARTS[name] + self.left_over(name), self.end - _RESERVE - start)
        state = self.parts[name]
        print(f"{name}: at most {max(most, 0):.0f} s", flush=True)
        status = None
        while (left := most - (time.monotonic() - start)) > 0:
            n_before = self.n_rows(name)
            status = self.one_process(name, left)
            # After a crash, a new process continues with the next check.
            if name != "checks" or status in (0, None) or self.n_rows(name) == n_before:
                break
        state["seconds"] = round(time.monotonic() - start, 1)
        if most <= 0:
            state["outcome"] = "not begun"
        elif status is None:
            state["outcome"] = "cut off"
        else:
            state["outcome"] = "done" if status == 0 else f"failed with status {status}"
        print(f"{name}: {state['outcome']} after {state['seconds']:.0f} s", flush=True)

    def n_rows(self, name: str) -> int:
        return len(read_rows(self.options.folder / f"{name}.jsonl"))

    def left_over(self, name: str) -> float:
        """Return how much less than they might the parts before this one took."""
        before = list(PARTS)[: list(PARTS).index(name)]
        done = [name for name in before if name in self.parts]
        return sum(max(PARTS[name] - self.parts[name]["seconds"], 0.0) for name in done)

    def one_process(self, name: str, most: float) -> int | None:
        """Run a part until it ends or its time is up; return its exit status, or None."""
        self.parts[name]["outcome"] = "cut off"  # if it is now
        command = [sys.executable, str(Path(__file__)), *self.arguments_of(name)]
        self.process = subprocess.Popen(command, start_new_session=True)
        try:
            return self.process.wait(timeout=most)
        except subprocess.TimeoutExpired:
            self.stop()
            return None

    def arguments_of(self, name: str) -> list[str]:
        """Return the command line of a part."""
        options = self.options
        committed = options.out == COMMITTED
        arguments = ["--part", name, "--device", options.device, "--checks", options.checks]
        arguments += ["--commit"] if committed else ["--out", str(options.out)]
        return [*arguments, "--tiny"] if options.tiny else arguments

    def stop(self) -> None:
        """End the process of the part that is running."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()  # its rows are written one by one
            self.process.wait()

    def write(self, outcome: str) -> None:
        from experiments.gpu.page import page

        options = self.options
        state = {"outcome": outcome, "tiny": options.tiny, "parts": self.parts}
        temporary = options.folder / "run.json.new"
        temporary.write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")
        temporary.replace(options.folder / "run.json")
        rows = {name: read_rows(options.folder / f"{name}.jsonl") for name in self.parts}
        (options.folder / "README.md").write_text(page(options.folder, rows), encoding="utf-8")

    def succeeded(self) -> bool:
        if any(state["outcome"] != "done" for state in self.parts.values()):
            return False
        last = {
            row["check"]: row["outcome"] for row in read_rows(self.options.folder / "checks.jsonl")
        }
        return not set(last.values()) & {"failed", "died"}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="the smallest sizes, to rehearse")
    parser.add_argument("--seconds", type=float, default=520.0, help="for all parts together")
    parser.add_argument("--only", choices=tuple(PARTS), help="one part")
    parser.add_argument("--checks", default="", help="only the checks whose names begin like this")
    parser.add_argument("--part", choices=tuple(PARTS), help=argparse.SUPPRESS)
    add_output_options(parser, "gpu")
    options = parser.parse_args(argv)
    if options.out == COMMITTED and (options.tiny or options.device == "cpu"):
        parser.error(
            "--commit: committed results are measured on a GPU, in full; leave out --commit"
        )
    options.folder = COMMITTED / "gpu" if options.out == COMMITTED else options.out
    return options


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.part is not None:
        run_part(options.part, options)
        return 0

    def end(number: int, frame: FrameType | None) -> None:
        raise Killed

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, end)
    run = Run(options)
    try:
        run.run_all()
    except Killed:
        print(f"killed; the rows so far are in {options.folder}", flush=True)
        return 1
    print(f"written to {options.folder}; see README.md there", flush=True)
    return 0 if run.succeeded() else 1


if __name__ == "__main__":
    sys.exit(main())
