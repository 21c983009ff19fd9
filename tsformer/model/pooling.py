"""Pooling of tokens into one vector: masked mean, attention or maximum."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tsformer._names import unknown

__all__ = ["POOLINGS", "AttentionPooling", "MaxPooling", "MeanPooling", "make_pooling"]


class MeanPooling(nn.Module):
    """The mean over the valid tokens."""

    def __init__(self, d_model: int):
        super().__init__()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, N, D]`` to ``[B, D]``; `mask` ``[B, N]`` is True for valid tokens."""
        if mask is None:
            return x.mean(dim=1)
        weight = mask[..., None].to(x.dtype)
        return (x * weight).sum(dim=1) / weight.sum(dim=1)

    def shares(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the contribution of each token, ``[B, N]``; rows sum to 1."""
        valid = torch.ones_like(x[..., 0]) if mask is None else mask.to(x.dtype)
        return valid / valid.sum(dim=1, keepdim=True)


class MaxPooling(nn.Module):
    """The maximum of each feature over the valid tokens."""

    def __init__(self, d_model: int):
        super().__init__()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, N, D]`` to ``[B, D]``; `mask` ``[B, N]`` is True for valid tokens."""
        return self._valid(x, mask).amax(dim=1)

    def shares(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the share of features with their maximum at each token, ``[B, N]``."""
        holder = self._valid(x, mask).argmax(dim=1)
        return nn.functional.one_hot(holder, x.shape[1]).to(x.dtype).mean(dim=1)

    def _valid(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return x if mask is None else x.masked_fill(~mask[..., None], float("-inf"))


class AttentionPooling(nn.Module):
    """A mean weighted by a learned score of each token: ``softmax(x w) x``.

    Scores start at zero: the initial pooling is the mean.
    """

    def __init__(self, d_model: int):
        super().__init__()
        self.score = nn.Linear(d_model, 1)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, N, D]`` to ``[B, D]``; `mask` ``[B, N]`` is True for valid tokens."""
        return torch.sum(self.shares(x, mask)[..., None] * x, dim=1)

    def shares(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weight of each token, ``[B, N]``; rows sum to 1."""
        score = self.score(x)
        if mask is not None:
            score = score.masked_fill(~mask[..., None], float("-inf"))
        weights: Tensor = score.softmax(dim=1)[..., 0]
        return weights


POOLINGS = {"mean": MeanPooling, "attention": AttentionPooling, "max": MaxPooling}


def make_pooling(name: str, d_model: int) -> nn.Module:
    """Return the pooling of that name, or raise ValueError with the nearest match."""
    if name not in POOLINGS:
        raise ValueError(unknown("pooling", name, POOLINGS))
    return POOLINGS[name](d_model)
