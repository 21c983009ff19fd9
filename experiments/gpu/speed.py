"""How fast training is on a GPU: by method, length and precision.

All of it runs in one process, since starting one takes longer than most measurements. The
seconds of an epoch are the median over those after the first few, in which libraries load and
CUDA graphs are captured; an epoch ends when its loss has been read, and so has all of its work.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator
from math import ceil
from typing import Any

import torch

from experiments.gpu import peak
from experiments.gpu.methods import METHODS, Case
from tsformer import ModelConfig, TSTransformer
from tsformer.data.panel import Panel
from tsformer.training import TrainingPlan
from tsformer.training.cuda_graphs import GraphedStep
from tsformer.training.loop import make_optimizer
from tsformer.training.step import TrainingStep

__all__ = ["CASES", "matmul_rows", "training_rows"]

Row = dict[str, Any]

#: Series × channels × steps as in the archives (NATOPS, BasicMotions, ...), the shortest first.
CASES = (
    Case(180, 24, 51, epochs=15),
    Case(256, 6, 100, epochs=15),
    Case(200, 1, 427, epochs=15),
    Case(268, 6, 896, epochs=12),
)
TINY = (Case(12, 2, 20, epochs=5, batch=6), Case(8, 1, 30, epochs=5, batch=4))
#: Epochs at the start that do not count.
_WARM_UP = 4
#: Where a wide model should reach a quarter of the peak: width, steps, series, layers.
WIDE = (256, 896, 32, 2)
#: Whole steps of WIDE in several ways: width, series, and `compile` of the plan.
STEPS = (
    (256, 32, False),
    (128, 32, "cuda-graphs"),
    (256, 32, "cuda-graphs"),
    (256, 256, "cuda-graphs"),
    (256, 256, True),
)
HOW = {False: "kernel by kernel", True: "torch.compile", "cuda-graphs": "CUDA graphs"}
PLAIN = "plain loop"


def methods(device: torch.device) -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the methods by name, with their parameters."""
    variants: dict[str, tuple[str, dict[str, Any]]] = {PLAIN: (PLAIN, {})}
    for stem, base in (("conv", "tsformer"), ("linear", "tsformer, linear stem")):
        for precision in ("bfloat16", "float32"):
            variants[f"{stem} stem, {precision}"] = base, {"precision": precision}
        if device.type == "cuda":
            one = {"precision": "bfloat16", "compile": False}
            variants[f"{stem} stem, bfloat16, without CUDA graphs"] = base, one
    return variants


def epoch_seconds(model: Any) -> list[float]:
    """Return the seconds of each epoch of a fitted model."""
    if hasattr(model, "seconds"):
        return list(model.seconds)
    return [row["seconds"] for row in model.history_]


def measured(case: Case, device: torch.device, make: Callable[[], Any]) -> Row:
    """Fit a model, and return the seconds of an epoch, the peak memory and the rates."""
    X, y = case.data()
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    model = make()
    model.fit(X, y)
    seconds = statistics.median(epoch_seconds(model)[_WARM_UP:])
    row = {
        "seconds": seconds,
        "series_per_second": case.n / seconds,
        "ms_per_step": 1000 * seconds / ceil(case.n / case.batch),
    }
    if device.type == "cuda":
        row["peak_mib"] = torch.cuda.max_memory_allocated(device) / 2**20
    return row


def training_rows(device: torch.device, *, tiny: bool) -> Iterator[Row]:
    """Yield the speed of each method on each case, or why it could not be measured."""
    for case in TINY if tiny else CASES:
        for name, (base, params) in methods(device).items():

            def make(case: Case = case, base: str = base, params: Any = params) -> Any:
                method: Any = METHODS[base](case, device.type)
                return method.set_params(**params) if params else method

            row = _or_error(lambda case=case, make=make: measured(case, device, make))
            yield {"method": name, "case": case.label, "length": case.length, **row}


def matmul_rows(device: torch.device, *, tiny: bool) -> Iterator[Row]:
    """Yield the peak of bfloat16 products, and the shares of it that parts of a model reach."""
    top = peak.peak(64 if tiny else peak.PEAK_SIZE, device.type)
    yield {"what": "product of square matrices", "tflops": top / 1e12, "share": 1.0}
    shapes = [(16, 12, 2)] if tiny else [WIDE[:3], (peak.D, peak.L, peak.B)]
    for d, length, batch in shapes:
        rates = peak.reached(device.type, d, length, batch, 4 if tiny else 8)
        for layer, rate in rates.items():
            product = f"{layer}, width {d}, {length} steps"
            yield {"what": product, "tflops": rate / 1e12, "share": rate / top}
    _, length, _, layers = (16, 12, 2, 2) if tiny else WIDE
    for d, batch, compiled in ((16, 2, False),) if tiny else STEPS:
        rate = step_rate(device, d, length, batch, layers, compiled)
        product = f"a whole step, width {d}, {length} steps, {batch} series, {HOW[compiled]}"
        yield {"what": product, "tflops": rate / 1e12, "share": rate / top}


def step_rate(
    device: torch.device, d: int, length: int, batch: int, layers: int, compiled: bool | str
) -> float:
    """Return the operations per second in the products of all blocks, over whole steps."""
    torch.manual_seed(0)
    config = ModelConfig(
        **{"n_channels": 6, "n_outputs": 4, "max_len": length, "d_model": d},
        **{"n_heads": 4 if d < 64 else 8, "n_layers": layers, "stem": "linear"},
        encoding="tape",
    )
    model = TSTransformer(config).to(device).train()
    plan = TrainingPlan(
        n_epochs=1, batch_size=batch, learning_rate=1e-3, weight_decay=0.0, device=device,
        bfloat16=True, compile=compiled, seed=0,
    )  # fmt: skip
    panel = Panel(torch.randn(batch, length, 6), torch.full((batch,), length)).to(device)
    targets = torch.arange(batch, device=device) % 4
    step = (GraphedStep if compiled == "cuda-graphs" else TrainingStep)(
        model, make_optimizer(model, plan), panel, targets, None, _cross_entropy, plan
    )
    index = torch.arange(batch)
    rows = index.to(device)
    for _ in range(4):  # compiles, or captures
        step(index, rows)
    work = 3 * layers * sum(peak.operations(d, length, batch, 2 * d).values())
    return work / peak.seconds(lambda: step(index, rows), device.type)


def _cross_entropy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(outputs, targets, reduction="none")


def _or_error(measure: Callable[[], Row]) -> Row:
    """Return a measurement, or the error that ended it."""
    try:
        return measure()
    except Exception as error:
        lines = str(error).splitlines() or [""]
        return {"error": f"{type(error).__name__}: {lines[0]}"}
