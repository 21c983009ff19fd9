"""Attention on torch's fused kernel, with a gradient for the bias on the CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

#: Scores per chunk of a bias's gradient: 4 MiB of float32, about the cache of one core.
_CHUNK = 2**20


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    bias: Tensor | None,
    mask: Tensor | None,
    scale: float,
    *,
    causal: bool = False,
) -> Tensor:
    """Compute ``softmax(q k^T scale + bias) v`` on the fused kernel.

    For a bias that requires a gradient, torch falls back to plain arithmetic on the CPU, which
    allocates several score matrices and takes several times as long. Here the kernel computes the
    output and the gradients of `q`, `k`, `v` as if the bias were constant. The gradient of the
    bias, equal to the gradient of the scores, follows in cache-sized chunks.

    Queries and keys are ``[B, H, N, E']``, values and the result ``[B, H, N, E]``, the bias
    ``[1 | B, 1 | H, N, N]``; `mask` ``[B, N]`` is False for keys at padding. If `causal`, a query
    sees only its own and earlier keys, and padding must come last.
    """
    E = v.shape[-1]
    width = max(q.shape[-1], E)  # the kernel needs all three equally wide
    q, k, v = _widened(q, width), _widened(k, width), _widened(v, width)
    if bias is None and mask is None:
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
        return out[..., :E]
    visible = visible_keys(mask, q.shape[-2], q.device, causal=causal)
    if bias is not None and _gradient_is_ours(q, bias):
        function: Any = _TrainedBias  # torch leaves `apply` without types
        out = function.apply(q, k, v, bias, visible, scale)
    else:
        attn_mask = visible if bias is None else _masked(bias, visible)
        out = F.scaled_dot_product_attention(q, k, v, attn_mask, scale=scale)
    return out[..., :E]


def visible_keys(
    mask: Tensor | None, n_tokens: int, device: torch.device, *, causal: bool
) -> Tensor | None:
    """Return the mask of visible keys ``[1 | B, 1, 1 | N, N]``; None if all are visible."""
    visible = None if mask is None else mask[:, None, None, :]
    if causal:
        earlier = torch.ones(n_tokens, n_tokens, dtype=torch.bool, device=device).tril()[None, None]
        visible = earlier if visible is None else visible & earlier
    return visible


def _gradient_is_ours(q: Tensor, bias: Tensor) -> bool:
    return (
        bias.requires_grad
        and torch.is_grad_enabled()
        and q.device.type == "cpu"
        and q.dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()  # a compiler fuses plain arithmetic itself
    )


def _masked(bias: Tensor, visible: Tensor | None) -> Tensor:
    return bias if visible is None else bias.masked_fill(~visible, float("-inf"))


def _widened(x: Tensor, width: int) -> Tensor:
    """Pad features with zeros, which change no product."""
    return x if x.shape[-1] == width else F.pad(x, (0, width - x.shape[-1]))


class _TrainedBias(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        bias: Tensor,
        visible: Tensor | None,
        scale: float,
    ) -> Tensor:
        attn_mask = _masked(bias.detach(), visible)
        with torch.enable_grad():
            inputs = q, k, v = tuple(x.detach().requires_grad_() for x in (q, k, v))
            out = F.scaled_dot_product_attention(q, k, v, attn_mask, scale=scale)
        ctx.save_for_backward(q, k, v, bias, visible)
        ctx.inner, ctx.scale = (inputs, out), scale
        return out.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, bias, visible = ctx.saved_tensors
        inputs, out = ctx.inner
        grads = torch.autograd.grad(out, inputs, grad, retain_graph=True)
        B, H, N, _ = q.shape
        q, k_t, v_t = (q * ctx.scale), k.mT.contiguous(), v.mT.contiguous()
        grad = grad.contiguous()
        # d score = weight * (d weight - sum of weight * d weight), and that sum is out . d out.
        total = (grad * out.detach()).sum(-1, keepdim=True)
        bias_grad = torch.zeros_like(bias)
        series = max(_CHUNK // (H * N * N), 1)
        rows = max(_CHUNK // (H * N), 1)
        for b in range(0, B, series):
            these = slice(b, b + series)
            shared = these if len(bias) > 1 else slice(None)
            for i in range(0, N, rows):
                span = slice(i, i + rows)
                scores = (q[these, :, span] @ k_t[these]).add_(bias[shared, :, span])
                if visible is not None:
                    attn_mask = visible[these] if len(visible) > 1 else visible
                    attn_mask = attn_mask[:, :, span] if attn_mask.shape[2] > 1 else attn_mask
                    scores.masked_fill_(~attn_mask, float("-inf"))
                weights = scores.softmax(-1)
                d_scores = grad[these, :, span] @ v_t[these]
                d_scores.sub_(total[these, :, span]).mul_(weights)
                place = bias_grad[shared, :, span]
                place += d_scores.sum_to_size(place.shape)
        return *grads, bias_grad, None, None
