"""One method in its own process, which `benchmark.py` tells what to do, line by line.

Methods can then take turns, and each has its own peak memory and, if need be, its own environment.
Idle workers use no CPU time.

    worker.py METHOD DEVICE THREADS CASE

reads actions from standard input and answers each with a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any


def peak_mib() -> float:
    """Return the peak memory of this process, in MiB."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("/proc/self/status has no VmHWM; peak memory can be measured on Linux only")


def device_peak_mib(device: str) -> float | None:
    import torch

    return torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else None


def main() -> None:
    name, device, threads, described = sys.argv[1:]
    # What libraries print must not get in between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)

    def answer(**content: Any) -> None:
        answers.write(json.dumps(content) + "\n")

    try:
        import torch

        sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`
        from experiments.speed.methods import METHODS, Case

        torch.set_num_threads(int(threads))
        case = Case(**json.loads(described))
        X, y = case.data()
        make = METHODS[name]
        method = make(case, device)
    except (ImportError, NotImplementedError) as error:
        answer(skipped=str(error))
        return
    answer(ready=True, memory_mib=peak_mib(), torch=torch.__version__)

    def fit() -> None:
        nonlocal method
        method = make(case, device)
        method.fit(X, y)

    def warm_up() -> None:
        """Let libraries load and set up what they need, with two batches."""
        few = min(2 * case.batch, case.n)
        make(replace(case, n=few, epochs=1), device).fit(X[:few], y[:few]).predict_proba(X[:few])

    actions: dict[str, Callable[[], Any]] = {
        "warm-up": warm_up,
        "training": fit,
        "inference": lambda: method.predict_proba(X),
        "one series": lambda: method.predict_proba(X[:1]),
    }
    for line in sys.stdin:
        action = line.strip()
        if action == "memory":
            answer(memory_mib=peak_mib(), device_mib=device_peak_mib(device))
            continue
        wall, cpu = time.perf_counter(), time.process_time()
        actions[action]()
        answer(seconds=time.perf_counter() - wall, cpu_seconds=time.process_time() - cpu)


if __name__ == "__main__":
    main()
