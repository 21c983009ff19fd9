"""Measure the share of a GPU's peak of matrix multiplication that a wide block reaches.

Only matrix products count as work, once forward and twice backward. Recomputation in the backward
pass, and all other operations, count as time alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from tsformer.encodings import EncodingStack
from tsformer.model.transformer import EncoderConfig, TransformerBlock

D, L, B, HEADS = 512, 512, 256, 8
HIDDEN = 2 * D
PEAK_SIZE = 8192


def seconds(call: Callable[[], object], device: str, repeats: int = 20) -> float:
    """Return the median time of a call, until its work on the device is done."""

    def wait() -> None:
        if device == "cuda":
            torch.cuda.synchronize()

    for _ in range(3):
        call()
    taken = []
    for _ in range(repeats):
        wait()
        start = time.perf_counter()
        call()
        wait()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def peak(size: int, device: str) -> float:
    """Return the operations per second of a product of square bf16 matrices."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return 2 * size**3 / seconds(lambda: a @ b, device)


def operations(d: int, length: int, batch: int, hidden: int) -> dict[str, int]:
    """Return the operations in the matrix products of a forward pass, by part of the block."""
    return {
        "attention": 4 * batch * length * d * (2 * d + length),
        "feed-forward": 4 * batch * length * d * hidden,
    }


def reached(
    device: str, d: int = D, length: int = L, batch: int = B, heads: int = HEADS
) -> dict[str, float]:
    """Return the operations per second of attention and the feed-forward network in training."""
    hidden = 2 * d
    config = EncoderConfig(d_model=d, n_heads=heads, d_ff=hidden)
    block = TransformerBlock(config).to(device).train()
    encoding = EncodingStack("none", n_layers=1, d_model=d, n_heads=heads, max_len=length)
    hooks = next(iter(encoding.to(device).one_pass()))
    x = torch.randn(batch, length, d, device=device, requires_grad=True)
    t = torch.arange(length, device=device, dtype=torch.float32)[None]
    parts: dict[str, Callable[[], Tensor]] = {
        "attention": lambda: block.attention(x, t, hooks),
        "feed-forward": lambda: block.feed_forward(x),
    }

    def step(call: Callable[[], Tensor]) -> None:
        with torch.autocast(device, torch.bfloat16):
            out = call()
        out.backward(torch.ones_like(out))

    work = operations(d, length, batch, hidden)
    return {
        name: 3 * work[name] / seconds(partial(step, call), device) for name, call in parts.items()
    }
