"""Hydra: competing random kernels, and how often each wins."""

from __future__ import annotations

from math import floor, log2

import torch
from torch import Tensor

from tsformer.features.convolution import (
    KERNEL_LENGTH,
    LONGEST,
    Learned,
    draw_channels,
    largest_dilation,
    response_blocks,
)


class Hydra(Learned):
    """How strongly and how often each of `k` competing kernels responds most, for `g` groups.

    At each step of a series, and for each dilation 1, 2, 4, ... up to ``(L - 1) / 8``, the `k`
    kernels of a group are compared. The one with the largest response adds it to its first
    feature, a soft count; the one with the smallest adds 1 to its second. A constant window, to
    which every kernel responds with 0, counts for none. Kernels have normal weights, centred, and
    scaled to absolute values that sum to 1. With several channels a group reads the sum of a
    random subset of them.

    There are ``F = 2 D g k`` features. Time ``O(B L F)``. Counts are not divided by the length.
    Only valid steps count: padding changes nothing.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "Hydra: competing convolutional kernels for fast and
       accurate time series classification", DMKD 37, 2023. https://arxiv.org/abs/2203.13652
    """

    #: The kernels of each dilation ``[D, g, k, 9]``.
    kernels: Tensor
    #: One where a group reads a channel ``[D, G, C]``; `G` is `g`, or 1 for a single channel.
    channels: Tensor

    def __init__(self, n_groups: int, n_kernels: int = 8):
        super().__init__()
        self.n_groups, self.n_kernels = n_groups, n_kernels
        self._empty(kernels=torch.float, channels=torch.float)

    @torch.no_grad()
    def fit(self, x: Tensor, generator: torch.Generator) -> Hydra:
        """Draw kernels and channels for series ``[n, C, L]``."""
        n_dilations = floor(log2(largest_dilation(x.shape[-1]))) + 1
        shape = (n_dilations, self.n_groups, self.n_kernels, KERNEL_LENGTH)
        kernels = torch.randn(shape, generator=generator)
        kernels -= kernels.mean(dim=-1, keepdim=True)
        self.kernels = (kernels / kernels.abs().sum(dim=-1, keepdim=True)).to(x.device)
        self.channels = torch.stack(
            [draw_channels(self.n_groups, x.shape[1], generator) for _ in range(n_dilations)]
        ).to(x.device)
        return self

    def check(self, n_channels: int) -> int:
        """Return the number of features; raise ValueError if loaded tensors are not consistent."""
        n_dilations = len(self.kernels)
        if not 0 < n_dilations <= LONGEST.bit_length():
            raise ValueError(
                f"Hydra must have kernels of 1 to {LONGEST.bit_length()} dilations; got "
                f"{n_dilations}"
            )
        n_groups = 1 if n_channels == 1 else self.n_groups
        self._check_shapes(
            kernels=(n_dilations, self.n_groups, self.n_kernels, KERNEL_LENGTH),
            channels=(n_dilations, n_groups, n_channels),
        )
        return 2 * n_dilations * self.n_groups * self.n_kernels

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the features ``[B, F]`` of series ``[B, C, L]``, zero where not valid."""
        counts: list[Tensor] = []
        for exponent, (kernels, channels) in enumerate(
            zip(self.kernels, self.channels, strict=True)
        ):
            kernels = kernels.reshape(len(channels), -1, KERNEL_LENGTH)
            blocks = [
                _counts(
                    each.unflatten(1, (self.n_groups, self.n_kernels)),
                    None if mask is None else mask[:, steps],
                )
                for steps, each in response_blocks(channels @ x, kernels, 2**exponent)
            ]
            counts += [torch.stack(parts).sum(dim=0) for parts in zip(*blocks, strict=True)]
        return torch.cat(counts, dim=1)


def _counts(responses: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return soft and hard counts ``[B, g k]`` of competing responses ``[B, g, k, L]``."""
    most, least = responses.amax(dim=2, keepdim=True), responses.amin(dim=2, keepdim=True)
    least = least.masked_fill(least == 0, torch.inf)
    if mask is not None:
        padding = ~mask[:, None, None]
        most, least = most.masked_fill(padding, torch.inf), least.masked_fill(padding, torch.inf)
    wins = torch.empty_like(responses)  # as floats, for sums of bools are slow on a CPU
    hard = torch.eq(responses, least, out=wins).sum(dim=-1)
    soft = torch.eq(responses, most, out=wins).mul_(responses).sum(dim=-1)
    return soft.flatten(1), hard.flatten(1)
