"""Norms of channels-first features that padding cannot reach, and of pooled series."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._names import unknown

__all__ = [
    "HEAD_NORMS",
    "NORMS",
    "ChannelNorm",
    "MaskedBatchNorm",
    "PooledBatchNorm",
    "make_norm",
]


class MaskedBatchNorm(nn.BatchNorm1d):
    """Normalise each feature by its mean and variance over the valid steps.

    In training these are the batch's; running averages of them serve prediction, where the output
    for a series depends on no other. A layer norm would do without the batch, but removes
    the amplitude of a step, which carries the class on many problems.

    Parameters are those of `torch.nn.BatchNorm1d`.

    Attributes
    ----------
    shared : bool
        Whether other processes have the rest of the batch, so that sums run over all of them.
    """

    shared = False
    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, D, N]`` or ``[B, D, 1, N]`` to the same shape.

        `mask` ``[B, N]`` is True for valid steps; None if all are.
        """
        # The fused norm takes no mask, and refuses a single value, whose variance is 0.
        alone = mask is None and not self.shared and x.shape[0] * x.shape[-1] > 1
        if not self.training or alone:
            return super().forward(x)
        x = x.to(torch.promote_types(x.dtype, torch.float32))  # bfloat16 counts only to 256
        weight = torch.ones_like(x[:, :1]) if mask is None else _beside(mask, x).to(x.dtype)
        count = self._over_all(weight.sum())
        dims = [d for d in range(x.dim()) if d != 1]
        mean = self._over_all((x * weight).sum(dims)) / count
        centred = x - _each_feature(mean, x)
        var = self._over_all((centred.square() * weight).sum(dims)) / count
        with torch.no_grad():
            unbiased = var * count / (count - 1).clamp(min=1)
            self.num_batches_tracked.add_(1)
            # As in torch, no momentum means the plain average of all batches.
            part = 1.0 / self.num_batches_tracked if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), part)
        scale = self.weight * torch.rsqrt(var + self.eps)
        return centred * _each_feature(scale, x) + _each_feature(self.bias, x)

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() not in (3, 4):
            raise ValueError(f"expected [B, D, N] or [B, D, 1, N]; got {tuple(input.shape)}")

    def _over_all(self, total: Tensor) -> Tensor:
        function: Any = _SumOverProcesses  # torch leaves `apply` without types
        return function.apply(total) if self.shared else total


class PooledBatchNorm(MaskedBatchNorm):
    """Normalise each feature of pooled series, ``[B, D]``, over the series of a batch.

    A batch of one series, which would be normalised to zero, is normalised by the running averages
    and leaves them as they are.
    """

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, D]`` to the same shape."""
        if self.training and len(x) == 1 and not self.shared:
            mean, var = self.running_mean, self.running_var
            return F.batch_norm(x, mean, var, self.weight, self.bias, eps=self.eps)
        return super().forward(x[..., None], mask)[..., 0]


class _SumOverProcesses(torch.autograd.Function):
    """The sum over all processes; its gradient is summed too, since each has its own loss."""

    @staticmethod
    def forward(ctx: Any, total: Tensor) -> Tensor:
        total = total.clone()
        torch.distributed.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        grad = grad.clone()
        torch.distributed.all_reduce(grad)
        return grad


class ChannelNorm(nn.LayerNorm):
    """Layer norm of each step by itself, channels first: the output depends on no other step."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, D, N]`` or ``[B, D, 1, N]`` to the same shape."""
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


def _beside(mask: Tensor, x: Tensor) -> Tensor:
    """Return `mask` ``[B, N]`` as ``[B, 1, N]`` or ``[B, 1, 1, N]``."""
    return mask[:, None] if x.dim() == 3 else mask[:, None, None]


def _each_feature(values: Tensor, x: Tensor) -> Tensor:
    """Return ``[D]`` as ``[D, 1]`` or ``[D, 1, 1]``."""
    return values[:, None] if x.dim() == 3 else values[:, None, None]


NORMS: dict[str, type[nn.Module]] = {"batch": MaskedBatchNorm, "layer": ChannelNorm}
HEAD_NORMS: dict[str, type[nn.Module]] = {"batch": PooledBatchNorm, "layer": nn.LayerNorm}


def make_norm(name: str, d_model: int, norms: Mapping[str, type[nn.Module]] = NORMS) -> nn.Module:
    """Return the norm of that name, or raise ValueError with the nearest match."""
    if name not in norms:
        raise ValueError(unknown("norm", name, norms))
    return norms[name](d_model)
