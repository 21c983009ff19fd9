"""Norms of features that come channels first, out of the reach of padding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tsformer._names import unknown

__all__ = ["NORMS", "ChannelNorm", "MaskedBatchNorm", "make_norm"]


class MaskedBatchNorm(nn.BatchNorm1d):
    """Normalise each feature by its mean and variance over the steps that are there.

    In training these are the batch's, and running averages of them are kept for predicting, when
    what comes out for a series depends on no other series. A layer norm would do without the
    batch, but takes away the amplitude of a step, which carries the class on many problems.

    Parameters are those of `torch.nn.BatchNorm1d`.
    """

    running_mean: Tensor
    running_var: Tensor
    num_batches_tracked: Tensor

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """Map ``[B, D, N]`` to the same shape; `keep` ``[B, N]`` is False at padding."""
        # The fused norm knows no mask, and refuses a single value, whose variance is 0.
        if not self.training or (keep is None and x.shape[0] * x.shape[2] > 1):
            return super().forward(x)
        x = x.to(torch.promote_types(x.dtype, torch.float32))  # 16 bits count to 256 only
        weight = torch.ones_like(x[:, :1]) if keep is None else keep[:, None].to(x.dtype)
        count = weight.sum()
        mean = (x * weight).sum(dim=(0, 2)) / count
        centred = x - mean[:, None]
        var = (centred.square() * weight).sum(dim=(0, 2)) / count
        with torch.no_grad():
            unbiased = var * count / (count - 1).clamp(min=1)
            self.num_batches_tracked.add_(1)
            # As in torch, no momentum means the plain average of all batches.
            part = 1.0 / self.num_batches_tracked if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), part)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), part)
        scale = self.weight * torch.rsqrt(var + self.eps)
        return centred * scale[:, None] + self.bias[:, None]


class ChannelNorm(nn.LayerNorm):
    """Layer norm of each step on its own, channels first; its outcome depends on no other step."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        """Map ``[B, D, N]`` to the same shape."""
        return super().forward(x.transpose(1, 2)).transpose(1, 2)


NORMS: dict[str, type[nn.Module]] = {"batch": MaskedBatchNorm, "layer": ChannelNorm}


def make_norm(name: str, d_model: int) -> nn.Module:
    """Return the norm of that name, or raise ValueError with the nearest match."""
    if name not in NORMS:
        raise ValueError(unknown("norm", name, NORMS))
    return NORMS[name](d_model)
