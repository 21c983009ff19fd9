"""What single changes gain: in a whole training step, and in the parts that cost most.

    python experiments/speed/trials.py [--only step|attention|dropout|stem] [--seconds 20]

Writes speed_trials.csv. Variants take turns on one thread. The first of them is what the package
does; a speed-up is the median over rounds of its CPU time over that of the variant in the same
round, so that above 1 the variant is faster. `experiments/results/speed_notes.md` says what was
expected and what was kept.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[2]))  # for `experiments`

from experiments.machine import machine
from experiments.output import add_output_options, replace_rows
from experiments.speed.benchmark import CASES
from experiments.speed.methods import CLASSES, HIDDEN, WIDTH, Case
from experiments.speed.variants import attention_variants, dropout_variants, stem_variants
from tsformer import ModelConfig, TSTransformer
from tsformer.model import attention

Variants = dict[str, Callable[[], object]]


def step(
    case: Case,
    stem: str,
    *,
    optimizer: dict[str, bool] | None = None,
    clip: bool | None = True,
    dropout: float = 0.1,
    encoding: str = "lspe",
    gather: bool = True,
    compiled: bool = False,
    around: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> Callable[[], None]:
    """Return a function that takes one training step, with one thing changed.

    `clip` is whether all gradients are clipped in one call; None does not clip.
    """
    torch.manual_seed(0)
    config = ModelConfig(
        **{"n_channels": case.n_channels, "n_outputs": CLASSES, "max_len": case.length},
        **{"stem": stem, "dropout": dropout, "encoding": encoding},
        **{"d_model": WIDTH, "d_ff": HIDDEN, "n_heads": case.heads},
    )
    model = TSTransformer(config).train()
    forward = torch.compile(model) if compiled else model
    X, y = (torch.from_numpy(array) for array in case.data())
    X = X.transpose(1, 2).contiguous()
    fixed = X[: case.batch].clone(), y[: case.batch].clone()
    parameters = list(model.parameters())
    settings = {"fused": True} if optimizer is None else optimizer
    adamw = torch.optim.AdamW(parameters, lr=1e-3, **settings)

    def run() -> None:
        index = torch.randperm(case.n)[: case.batch]
        values, targets = (X[index], y[index]) if gather else fixed
        with around():
            outputs = forward(values)
            loss = F.cross_entropy(outputs.float(), targets, label_smoothing=0.1)
            adamw.zero_grad()
            loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(parameters, 1.0, foreach=clip)
        adamw.step()

    return run


@contextmanager
def matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


@contextmanager
def no_denormals() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def autocast() -> AbstractContextManager[object]:
    return torch.autocast("cpu", torch.bfloat16)


@contextmanager
def autocast_except_attention() -> Iterator[None]:
    """Autocast to bf16 with the attention kernel left in float32."""
    kernel = attention.attend

    def in_float32(q: Tensor, k: Tensor, v: Tensor, *others: Any, **options: Any) -> Tensor:
        with torch.autocast("cpu", enabled=False):
            return kernel(q.float(), k.float(), v.float(), *others, **options)

    attention.attend = in_float32
    try:
        with autocast():
            yield
    finally:
        attention.attend = kernel


def step_variants(case: Case, stem: str) -> Variants:
    return {
        "as it is": step(case, stem),
        "AdamW foreach": step(case, stem, optimizer={"foreach": True}),
        "AdamW one by one": step(case, stem, optimizer={"foreach": False}),
        "no clipping": step(case, stem, clip=None),
        "clipping one by one": step(case, stem, clip=False),
        "no gathering of batches": step(case, stem, gather=False),
        "no dropout": step(case, stem, dropout=0.0),
        "encoding none": step(case, stem, encoding="none"),
        "bf16 autocast": step(case, stem, around=autocast),
        "bf16 autocast, attention in float32": step(case, stem, around=autocast_except_attention),
        "matmul precision medium": step(case, stem, around=lambda: matmul_precision("medium")),
        "matmul precision high": step(case, stem, around=lambda: matmul_precision("high")),
        "denormals flushed": step(case, stem, around=no_denormals),
    }


def compile_variants(case: Case, stem: str) -> Variants:
    return {"as it is": step(case, stem), "torch.compile": step(case, stem, compiled=True)}


def race(variants: Variants, seconds: float) -> pd.DataFrame:
    """Return one row per variant: its median time, its speed-up over the first, its first call."""
    first = {}
    for name, call in variants.items():
        start = time.perf_counter()
        call()
        first[name] = time.perf_counter() - start
        call()
    rounds: list[dict[str, float]] = []
    start = time.perf_counter()
    while len(rounds) < 3 or time.perf_counter() - start < seconds:
        taken = {}
        for name, call in variants.items():
            begin = time.process_time()
            call()
            taken[name] = time.process_time() - begin
        rounds.append(taken)
    table = pd.DataFrame(rounds)
    base = table[next(iter(variants))]
    return pd.DataFrame(
        {
            "variant": list(variants),
            "ms": (1000 * table.median()).round(3).tolist(),
            "faster": [round((base / table[name]).median(), 3) for name in variants],
            "first_call_s": [round(first[name], 2) for name in variants],
            "rounds": len(table),
        }
    )


#: Name of a trial -> its variants for a case.
TRIALS: dict[str, Callable[[Case], Variants]] = {
    "step, linear stem": lambda case: step_variants(case, "linear"),
    "step, convolution stem": lambda case: step_variants(case, "conv"),
    "dropout": dropout_variants,
    "attention": attention_variants,
    "stem": stem_variants,
    "compile, linear stem": lambda case: compile_variants(case, "linear"),
    "compile, convolution stem": lambda case: compile_variants(case, "conv"),
}


def arguments(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="run the trials whose names start like this")
    parser.add_argument("--length", type=int, help="run the case of this length only")
    parser.add_argument(
        "--seconds", type=float, default=20.0, help="time budget per trial and case"
    )
    add_output_options(parser, "speed_trials")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = arguments(argv)
    path = options.out / "speed_trials.csv"
    torch.set_num_threads(1)
    for name, variants in TRIALS.items():
        for case in CASES:
            if not name.startswith(options.only) or options.length not in (None, case.length):
                continue
            rows = race(variants(case), options.seconds)
            rows.insert(0, "trial", name)
            rows.insert(1, "length", case.length)
            rows["machine"], rows["torch"] = machine("cpu"), torch.__version__
            rows["date"] = date.today().isoformat()
            replace_rows(rows, path, ["trial", "length"]).to_csv(path, index=False)
            print(f"{name}, {case.length} steps: done", flush=True)


if __name__ == "__main__":
    main()
