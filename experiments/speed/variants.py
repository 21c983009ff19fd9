"""Other ways to compute what costs most in a step: dropout, attention and the convolutions.

The first variant of each is what the package or torch does. `trials.py` times them forward and
backward; tests/experiments/test_speed.py shows that those meant to be equivalent are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments.speed.methods import WIDTH, Case
from tsformer.model.stems import ConvStem

Variants = dict[str, Callable[[], object]]


class FewBitsDropout(torch.autograd.Function):
    """Dropout with 8 or 16 random bits per element, eight or four elements from one draw.

    torch makes one draw per element. The rate is rounded to the bits, and the scale is exact for
    the rounded rate.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, bits: int) -> Tensor:
        kind = {8: torch.int8, 16: torch.int16}[bits]
        draws = torch.empty(-(-x.numel() * bits // 64), dtype=torch.int64).random_(-(2**63), None)
        cut = round(p * 2**bits)
        keep = draws.view(kind)[: x.numel()].view(x.shape) >= cut - 2 ** (bits - 1)
        ctx.save_for_backward(keep)
        ctx.scale = 1 / (1 - cut / 2**bits)
        return (x * keep).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (keep,) = ctx.saved_tensors
        return (grad * keep).mul_(ctx.scale), None, None


def dropout_variants(case: Case) -> Variants:
    x = torch.randn(case.batch, case.length, WIDTH, requires_grad=True)
    grad = torch.randn(x.shape)
    return {
        "F.dropout": lambda: F.dropout(x, 0.1).backward(grad),
        "native_dropout": lambda: torch.native_dropout(x, 0.1, True)[0].backward(grad),
        "16 random bits": lambda: FewBitsDropout.apply(x, 0.1, 16).backward(grad),
        "8 random bits": lambda: FewBitsDropout.apply(x, 0.1, 8).backward(grad),
    }


class ChunkedAttention(torch.autograd.Function):
    """Attention by plain products, a few heads at a time, recomputed in the backward pass."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, scale: float, heads: int) -> Tensor:
        out, norm = torch.empty_like(v), q.new_empty(*q.shape[:2], 1)
        for start in range(0, len(q), heads):
            these = slice(start, start + heads)
            weight = torch.bmm(q[these] * scale, k[these].mT)
            largest = weight.amax(-1, keepdim=True)
            weight.sub_(largest).exp_()
            total = weight.sum(-1, keepdim=True)
            out[these] = torch.bmm(weight, v[these]).div_(total)
            norm[these] = largest + total.log()
        ctx.save_for_backward(q, k, v, out, norm)
        ctx.scale, ctx.heads = scale, heads
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, norm = ctx.saved_tensors
        d_q, d_k, d_v = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        total = (grad * out).sum(-1, keepdim=True)
        for start in range(0, len(q), ctx.heads):
            these = slice(start, start + ctx.heads)
            scaled = q[these] * ctx.scale
            weight = torch.bmm(scaled, k[these].mT).sub_(norm[these]).exp_()
            d_score = torch.bmm(grad[these], v[these].mT).sub_(total[these]).mul_(weight)
            d_v[these] = torch.bmm(weight.mT, grad[these])
            d_q[these] = torch.bmm(d_score, k[these])
            d_k[these] = torch.bmm(d_score.mT, scaled)
        return d_q.mul_(ctx.scale), d_k, d_v, None, None


def attention_variants(case: Case) -> Variants:
    width = WIDTH // case.heads
    shape = case.batch, case.heads, case.length, width
    scale, chunk = width**-0.5, max(2**18 // case.length**2, 1)
    grad = torch.randn(shape)

    def inputs(of: Callable[[Tensor], Tensor] = lambda x: x) -> list[Tensor]:
        return [of(torch.randn(shape)).requires_grad_() for _ in range(3)]

    fused, half = inputs(), inputs(Tensor.bfloat16)
    flat, chunked = (inputs(lambda x: x.flatten(0, 1)) for _ in range(2))
    wide = [torch.randn(case.batch, 1, case.length, WIDTH, requires_grad=True) for _ in range(3)]
    wide_grad = torch.randn(case.batch, 1, case.length, WIDTH)

    def plain() -> None:
        q, k, v = flat
        ((q * scale) @ k.mT).softmax(-1).matmul(v).backward(grad.flatten(0, 1))

    def by_chunks() -> None:
        ChunkedAttention.apply(*chunked, scale, chunk).backward(grad.flatten(0, 1))

    def kernel(tensors: list[Tensor], scale: float, grad: Tensor) -> Callable[[], None]:
        return lambda: F.scaled_dot_product_attention(*tensors, scale=scale).backward(grad)

    return {
        "fused": kernel(fused, scale, grad),
        "fused in bf16": kernel(half, scale, grad.bfloat16()),
        "plain products": plain,
        "plain products by chunks": by_chunks,
        "fused, one head": kernel(wide, WIDTH**-0.5, wide_grad),
    }


class StemVariant(nn.Module):
    """The convolution stem with the weights of `stem` and a different convolution."""

    def __init__(self, stem: ConvStem, convolve: Callable[[Tensor, nn.Module], Tensor]):
        super().__init__()
        self.stem, self.convolve = stem, convolve

    def forward(self, x: Tensor) -> Tensor:
        """Map ``[B, L, C]`` to ``[B, N, D]``."""
        for layer in (self.stem.first, self.stem.second):
            tokens = self.convolve(x, layer)
            x = F.gelu(layer.norm(tokens.flatten(0, 1)[..., None])).view_as(tokens)
        return x


def _windows(x: Tensor, layer: Any, offsets: list[int]) -> Tensor:
    """Return the values at these offsets from each token: [B N, len(offsets) C]."""
    n_tokens, reach = -(-x.shape[1] // layer.stride), max(offsets)
    x = F.pad(x, (0, 0, reach, reach + layer.stride))
    places = (slice(reach + o, reach + o + n_tokens * layer.stride, layer.stride) for o in offsets)
    return torch.cat([x[:, place] for place in places], dim=2).flatten(0, 1)


def _offsets(branch: nn.Module) -> list[int]:
    (size,), (dilation,) = branch.kernel_size, branch.dilation
    return [dilation * (i - size // 2) for i in range(size)]


def one_product(x: Tensor, layer: Any) -> Tensor:
    """Convolve all dilations as one product; weights are zero where a dilation has no tap."""
    union = sorted({offset for branch in layer.branches for offset in _offsets(branch)})
    weights = []
    for branch in layer.branches:
        rows = torch.tensor([union.index(offset) for offset in _offsets(branch)])
        taps = branch.weight.permute(2, 1, 0)
        weights.append(taps.new_zeros(len(union), *taps.shape[1:]).index_copy(0, rows, taps))
    out = _windows(x, layer, union) @ torch.cat(weights, dim=2).flatten(0, 1)
    return out.view(len(x), -1, out.shape[-1])


def product_per_branch(x: Tensor, layer: Any) -> Tensor:
    """Convolve each dilation as a product with its windows."""
    parts = [
        _windows(x, layer, _offsets(branch)) @ branch.weight.permute(2, 1, 0).flatten(0, 1)
        for branch in layer.branches
    ]
    return torch.cat(parts, dim=1).view(len(x), -1, sum(part.shape[1] for part in parts))


def channels_first(x: Tensor, layer: Any) -> Tensor:
    """Convolve in one dimension, with channels first in memory."""
    laid = x.transpose(1, 2).contiguous()
    return torch.cat([branch(laid) for branch in layer.branches], dim=1).transpose(1, 2)


def stem_variants(case: Case) -> Variants:
    stem = ConvStem(case.n_channels, WIDTH, case.length)
    x = torch.randn(case.batch, case.length, case.n_channels)
    times = torch.arange(case.length, dtype=torch.float32)[None]
    grad = torch.randn(stem(x, None, times)[0].shape)

    def with_autocast() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            tokens = stem(x, None, times)[0]
        tokens.float().backward(grad)

    variants = {
        "channels first": channels_first,
        "one product": one_product,
        "a product a dilation": product_per_branch,  # named as in speed_trials.csv
    }
    others = {name: StemVariant(stem, convolve) for name, convolve in variants.items()}
    return {
        "as it is": lambda: stem(x, None, times)[0].backward(grad),
        **{name: (lambda m=module: m(x).backward(grad)) for name, module in others.items()},
        "bf16 autocast": with_autocast,
    }
