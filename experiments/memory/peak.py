"""Peak memory and speed of fit and predict, by where the series are kept.

    python experiments/memory/peak.py [--n 50000] [--length 2048] [--kept sample array]

Each way of keeping them runs in a process of its own, on one generated file of float32. Memory is
what is resident beyond the process with its imports and, of an array, beyond the array itself; it
is given in MiB, and as a multiple of the float32 size of the series. Pages of a mapped file count.
Speed is in series per second, by the clock and by the seconds of the processor, which a busy
machine spoils less; "sample" has so few of the series, in memory, that they are preprocessed once.

The model is the default one, or with ``--tiny`` one that costs next to nothing, so that a large
file is soon through: memory for data does not depend on it. ``--n 2000000 --length 1024`` is the
target: 8 GiB in less than 2 GiB.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments import output

KEPT = ("sample", "array", "memmap", "folder")
#: A model that costs next to nothing, which reads as much of each value as the default does.
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
        "folder": lambda: folder_of(path),
    }[kept]()


def sample(X: Any) -> Any:
    """Return the first series, in memory."""
    return np.array(X[: _SAMPLE // (X.shape[1] * X.shape[2])])


def folder_of(path: Path) -> Path:
    """Return a folder of four files with the same series."""
    from tsformer.data.folder import is_series_folder, write_folder

    folder = path.with_suffix("")
    if not is_series_folder(folder):
        X = np.load(path, mmap_mode="r")
        write_folder(folder, ((np.asarray(part), None) for part in np.array_split(X, 4)))
    return folder


def measure(path: Path, kept: str, *, n: int, tiny: bool) -> dict[str, Any]:
    """Fit and predict in this process; return its peak memory and how fast both were."""
    import torch

    from tsformer import TSTransformerClassifier

    torch.set_num_threads(1)
    options: dict[str, Any] = TINY if tiny else {}
    classifier = TSTransformerClassifier(
        max_epochs=1, early_stopping=False, random_state=0, **options
    )
    warm_up = np.random.default_rng(0).standard_normal((64, 1, 64))
    classifier.fit(warm_up, labels(64)).predict(warm_up)  # libraries load what they need
    X = opened(path, kept)
    y = labels(n if isinstance(X, Path) else len(X))
    before = _status("VmRSS")
    row: dict[str, Any] = {}
    for what in ("fit", "predict"):
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        start, cpu = perf_counter(), process_time()
        classifier.fit(X, y) if what == "fit" else classifier.predict(X)
        row |= {
            f"{what}_mib": (_status("VmHWM") - before) / 2**20,
            f"{what}_per_second": len(y) / (perf_counter() - start),
            f"{what}_per_cpu_second": len(y) / (process_time() - cpu),
        }
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
    parser.add_argument(
        "--data",
        type=Path,
        default=output.UNTRACKED / "memory",
        help="folder for the generated file; by default results/memory, which git ignores",
    )
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    output.add_output_options(parser, "memory")
    return parser.parse_args(argv)


def measured(path: Path, kept: str, *, n: int, tiny: bool) -> dict[str, Any]:
    """Return what `measure` does in a process of its own."""
    command = [sys.executable, __file__, "--child", str(path), "--kept", kept, "--n", str(n)]
    command += ["--tiny"] if tiny else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{kept}: {done.stderr}")
    row: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return row


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    if options.child:
        print(json.dumps(measure(options.child, options.kept[0], n=options.n, tiny=options.tiny)))
        return
    shape = options.n, options.channels, options.length
    size = 4 * options.n * options.channels * options.length / 2**20
    options.data.mkdir(parents=True, exist_ok=True)
    path = options.data / f"series_{'x'.join(map(str, shape))}.npy"
    write_series(path, *shape)
    rows = []
    for kept in options.kept:
        row = measured(path, kept, n=options.n, tiny=options.tiny)
        row |= {f"{what}_times": row[f"{what}_mib"] / size for what in ("fit", "predict")}
        print(kept, {name: round(value, 2) for name, value in row.items()}, flush=True)
        rows.append({"kept": kept, "size_mib": size, **row})
    table = pd.DataFrame(rows).round(3)
    table["n"], table["channels"], table["length"] = shape
    table["model"], table["date"] = "tiny" if options.tiny else "default", date.today().isoformat()
    options.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.out / "memory.csv", index=False)


if __name__ == "__main__":
    main()
