"""Rules for operations that `torch.vmap` has no good rule for: members folded into one call."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

__all__ = ["VmapRules"]


class VmapRules(TorchFunctionMode):
    """While a model is called under `torch.vmap`, apply these rules instead of torch's own.

    Attention is the reason: under vmap torch selects its kernel by tensors that do not show whether
    they require a gradient, and on the CPU runs it once per member. Here all members go through one
    call of the kernel, selected as it would be outside.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _RULES.get(func, func)(*args, **(kwargs or {}))


def _attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    function: Any = _Attention  # torch leaves `apply` without types
    out: Tensor = function.apply(q, k, v, attn_mask, is_causal, scale)
    return out


def _batch_norm(
    x: Tensor, running_mean: Tensor | None, running_var: Tensor | None, *args: Any, **kwargs: Any
) -> Tensor:
    """Compute `batch_norm` in float32: its gradient under vmap on a GPU takes no 16-bit features.

    Outside of vmap a GPU's fused norm mixes the two types.
    """
    x = x.to(torch.promote_types(x.dtype, torch.float32))
    return F.batch_norm(x, running_mean, running_var, *args, **kwargs)


def _lerp_(start: Tensor, end: Tensor, part: float) -> Tensor:
    """Compute `Tensor.lerp_`, for which vmap has no rule, with a weight between 0 and 1/2."""
    return start.add_((end - start) * part)


def _view(x: Tensor, *args: Any) -> Tensor:
    """Compute `Tensor.view`; up to torch 2.9 vmap has no rule for that of another type."""
    if not isinstance(args[0], torch.dtype):
        return x.view(*args)
    function: Any = _ViewAsType
    out: Tensor = function.apply(x, args[0])
    return out


class _ViewAsType(torch.autograd.Function):
    """``x.view(dtype)`` of integers with a rule for vmap: dropout draws its bits by it."""

    @staticmethod
    def forward(x: Tensor, dtype: torch.dtype) -> Tensor:
        raise RuntimeError("VmapRules is only for calls under torch.vmap")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        raise RuntimeError("VmapRules is only for calls under torch.vmap")

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, dtype: torch.dtype
    ) -> tuple[Tensor, int]:
        return _leading(x, in_dims[0], info.batch_size).view(dtype), 0


class _Attention(torch.autograd.Function):
    """`scaled_dot_product_attention` with a rule for vmap, and with torch's own gradients.

    Under vmap only `vmap` is called, and what it does is differentiated outside.
    """

    @staticmethod
    def forward(
        q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool, scale: float | None
    ) -> Tensor:
        raise RuntimeError("VmapRules is only for calls under torch.vmap")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        raise RuntimeError("VmapRules is only for calls under torch.vmap")

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        scale: float | None,
    ) -> tuple[Tensor, int]:
        """Fold members into series, or into heads if all series share a member's bias."""
        size = info.batch_size
        sides = zip((q, k, v), in_dims[:3], strict=True)
        q, k, v = (_leading(x, dim, size) for x, dim in sides)  # [members, B, H, N, E]
        n_series, n_heads = q.shape[1:3]
        if mask is not None:
            mask = _leading(mask, in_dims[3], size)  # [members, 1 | B, 1 | H, 1 | N, N]
        if mask is None or mask.shape[1] == n_series:
            q, k, v = q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1)
            mask = None if mask is None else mask.flatten(0, 1)
            out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=scale)
            return out.unflatten(0, (size, n_series)), 0
        q, k, v = (x.transpose(0, 1).flatten(1, 2) for x in (q, k, v))
        mask = mask.expand(-1, -1, n_heads, -1, -1).transpose(0, 1).flatten(1, 2)
        out = F.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, scale=scale)
        return out.unflatten(1, (size, n_heads)).transpose(0, 1), 0


def _leading(x: Tensor, dim: int | None, size: int) -> Tensor:
    """Return ``[members, ...]``, whether each member has its own or all share one."""
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


_RULES: dict[Any, Any] = {
    F.batch_norm: _batch_norm,
    F.scaled_dot_product_attention: _attention,
    Tensor.lerp_: _lerp_,
    Tensor.view: _view,
}
