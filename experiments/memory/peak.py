"""Peak memory and speed of fit and predict, by where the series are kept.

    python experiments/memory/peak.py [--n 50000] [--length 2048] [--kept sample array]

Each storage runs in its own process, on one generated file of float32. Memory is the resident
memory beyond the process with its imports, and beyond an array itself, in MiB and as a multiple of
the float32 size of the series. Pages of a mapped file count. Speed is in series per second from the
first batch to the last, by the clock and by processor time, which a busy machine changes less. The
seconds before the first batch, for example of the scaling, have their own column. "sample" holds a
few series in memory, which are preprocessed once.

The model is the default, or with ``--tiny`` a very small model that reads a large file quickly:
memory for data does not depend on the model. ``--seconds`` stops training and prediction after that
many seconds of batches. ``--n 2000000 --length 1024`` is the target: 8.2 GB in less than 2 GiB.
``--limit`` bounds the address space of a process, as ``ulimit -v`` does, in MiB beyond its size.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments import output

KEPT = ("sample", "array", "memmap", "path")
#: A very small model that reads each value as often as the default does.
TINY = {
    "stem": "patch",
    "views": "values+difference",
    "augmentation": "warp+cutmix",
    "d_model": 8,
    "n_heads": 1,
    "n_layers": 1,
    "batch_size": 256,
}
#: Series that are generated at a time.
_BLOCK = 2**22
#: Values of the sample.
_SAMPLE = 2**22


def write_series(path: Path, n: int, channels: int, length: int) -> None:
    """Write series of two classes, ``[n, channels, length]`` of float32, block by block."""
    if path.exists() and np.load(path, mmap_mode="r").shape == (n, channels, length):
        return
    array = np.lib.format.open_memmap(path, "w+", np.float32, (n, channels, length))
    generator = np.random.default_rng(0)
    wave = np.sin(np.linspace(0, 20, length, dtype=np.float32))
    size = max(_BLOCK // (channels * length), 1)
    for start in range(0, n, size):
        block = generator.standard_normal((min(size, n - start), channels, length), np.float32)
        block[labels(n)[start : start + size] == 1] += wave
        array[start : start + size] = block
    array.flush()


def labels(n: int) -> Any:
    """Return the class of each series."""
    return np.arange(n) % 2


def opened(path: Path, kept: str) -> Any:
    """Return what `fit` is given."""
    return {
        "array": lambda: np.load(path),
        "memmap": lambda: np.load(path, mmap_mode="r"),
        "sample": lambda: sample(np.load(path, mmap_mode="r")),
        "path": lambda: path,
    }[kept]()


def sample(X: Any) -> Any:
    """Return the first series, in memory."""
    return np.array(X[: _SAMPLE // (X.shape[1] * X.shape[2])])


class _Cut(BaseException):
    """Ends a long call; after a Ctrl-C `fit` would continue."""


class Clock:
    """Times at which batches reach a model, in training or not, and the numbers of their series."""

    def __init__(self, seconds: float | None):
        self.seconds = seconds
        self.start(training=False)

    def start(self, *, training: bool) -> None:
        self.training = training
        self.began = perf_counter()
        self.n = self.newest = 0
        self.first_at = self.now_at = (0.0, 0.0)

    def watch(self) -> None:
        """Count the batches of all transformers in this process."""
        from tsformer.model.transformer import TSTransformer

        forward_stem = TSTransformer.forward_stem

        def counted(model: Any, x: Any, *rest: Any) -> Any:
            if model.training == self.training:
                self.count(len(x))
            return forward_stem(model, x, *rest)

        TSTransformer.forward_stem = counted  # type: ignore[method-assign]

    def count(self, n: int) -> None:
        self.now_at = perf_counter(), process_time()
        if not self.n:
            self.first_at = self.now_at
        self.newest = n
        self.n += n
        if self.seconds is not None and self.now_at[0] - self.first_at[0] > self.seconds:
            raise _Cut

    def row(self, method: str) -> dict[str, float]:
        """Return the seconds before the first batch, and the speed up to the last."""
        clock, cpu = (now - first for now, first in zip(self.now_at, self.first_at, strict=True))
        n = self.n - self.newest  # it had only begun
        return {
            f"{method}_seconds_before": self.first_at[0] - self.began,
            f"{method}_per_second": n / clock if n else float("nan"),
            f"{method}_per_cpu_second": n / cpu if n else float("nan"),
        }


def measure(
    path: Path, kept: str, *, n: int, tiny: bool, seconds: float | None, limit: int | None
) -> dict[str, Any]:
    """Fit and predict in this process; return its peak memory and how fast both were."""
    import torch

    from tsformer import TSTransformerClassifier

    torch.set_num_threads(1)
    options: dict[str, Any] = TINY if tiny else {}
    # A fit with a time limit may take several epochs of the sample.
    epochs = 1 if seconds is None else 1000
    classifier = TSTransformerClassifier(
        max_epochs=1, early_stopping=False, random_state=0, **options
    )
    warm_up = np.random.default_rng(0).standard_normal((64, 1, 64))
    classifier.fit(warm_up, labels(64)).predict(warm_up)  # libraries load
    classifier.set_params(max_epochs=epochs)
    X = opened(path, kept)
    few = np.array(np.load(path, mmap_mode="r")[:64])
    y = labels(n if isinstance(X, Path) else len(X))
    out = np.lib.format.open_memmap(path.with_suffix(f".{kept}.out"), "w+", np.float32, (len(y), 2))
    clock = Clock(seconds)
    clock.watch()
    if limit is not None:
        most = _status("VmSize") + limit * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    before = _status("VmRSS")
    todo: dict[str, Callable[[], Any]] = {
        "fit": lambda: classifier.fit(X, y),
        "predict": lambda: classifier.predict_proba(X, out=out),
    }
    row: dict[str, Any] = {}
    for method, call in todo.items():
        Path("/proc/self/clear_refs").write_text("5")  # reset the peak
        clock.start(training=method == "fit")
        with suppress(_Cut):
            call()
        row |= {f"{method}_mib": (_status("VmHWM") - before) / 2**20, **clock.row(method)}
        if method == "fit" and seconds is not None:  # it may have left no model for these series
            clock.start(training=True)
            classifier.set_params(max_epochs=1).fit(few, labels(64))
    return row


def _status(name: str) -> int:
    """Return an entry of the process's status in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return 1024 * int(line.split()[1])
    raise RuntimeError(f"/proc/self/status has no {name}")


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--n", type=int, default=50_000, help="series")
    parser.add_argument("--channels", type=int, default=1)
    parser.add_argument("--length", type=int, default=2048, help="time steps")
    parser.add_argument("--kept", nargs="+", choices=KEPT, default=KEPT)
    parser.add_argument("--tiny", action="store_true", help="a model that costs next to nothing")
    parser.add_argument("--seconds", type=float, help="end fit and predict after these")
    parser.add_argument("--limit", type=int, help="address space for the data, in MiB")
    parser.add_argument(
        "--data",
        type=Path,
        default=output.UNTRACKED / "memory",
        help="folder for the generated file; by default results/memory, which git ignores",
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    output.add_output_options(parser, "memory")
    return parser.parse_args(argv)


def measured(
    path: Path,
    kept: str,
    *,
    n: int,
    tiny: bool,
    seconds: float | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """Return what `measure` does in a process of its own."""
    command = [sys.executable, __file__, "--child", str(path), "--kept", kept, "--n", str(n)]
    command += ["--tiny"] if tiny else []
    command += [] if seconds is None else ["--seconds", str(seconds)]
    command += [] if limit is None else ["--limit", str(limit)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{kept}: {done.stderr}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    options_of_child = {name: getattr(options, name) for name in ("n", "tiny", "seconds", "limit")}
    if options.child:
        print(json.dumps(measure(options.child, options.kept[0], **options_of_child)))
        return
    shape = options.n, options.channels, options.length
    size = 4 * options.n * options.channels * options.length / 2**20
    options.data.mkdir(parents=True, exist_ok=True)
    path = options.data / f"series_{'x'.join(map(str, shape))}.npy"
    write_series(path, *shape)
    rows = []
    for kept in options.kept:
        row = measured(path, kept, **options_of_child)
        row |= {f"{method}_times": row[f"{method}_mib"] / size for method in ("fit", "predict")}
        print(kept, {name: round(value, 2) for name, value in row.items()}, flush=True)
        rows.append({"kept": kept, "size_mib": size, **row})
    table = pd.DataFrame(rows).round(3)
    table["n"], table["channels"], table["length"] = shape
    table["model"], table["seconds"] = "tiny" if options.tiny else "default", options.seconds
    table["limit"], table["date"] = options.limit, date.today().isoformat()
    path, keys = options.out / "memory.csv", ["model", "n", "channels", "length", "kept"]
    table = output.replace_rows(table, path, keys)
    table.sort_values(keys, kind="stable").to_csv(path, index=False)


if __name__ == "__main__":
    main()
