"""MiniRocket: the shares of positive values of 84 fixed kernels at many dilations."""

from __future__ import annotations

from itertools import combinations
from math import log2, sqrt

import numpy as np
import torch
from torch import Tensor

from tsformer.features.convolution import (
    KERNEL_LENGTH,
    LONGEST,
    Learned,
    draw_channels,
    largest_dilation,
    response_blocks,
    responses,
)

N_KERNELS = 84
_MAX_DILATIONS = 32
#: Kernels that read the same channels. Seven, so that both halves below are whole groups.
_TOGETHER = 7
#: Values of drawn series that `fit` convolves at a time.
_VALUES = 2**23
_GOLDEN = (sqrt(5) + 1) / 2


def _kernels() -> Tensor:
    """Return the 84 kernels ``[84, 9]`` with three weights 2 and six -1."""
    chosen = list(combinations(range(KERNEL_LENGTH), 3))
    kernels = torch.full((N_KERNELS, KERNEL_LENGTH), -1.0)
    for kernel, places in zip(kernels, chosen[::2] + chosen[1::2], strict=True):
        kernel[list(places)] = 2.0
    return kernels


KERNELS = _kernels()


class MiniRocket(Learned):
    """Shares of the steps at which a convolution exceeds a bias, for 84 kernels and many dilations.

    ``out = mean_t [sum_c (w * x_c)_t > b]``. The kernels `w` of length 9 have three weights 2
    and six -1. Dilations are spaced exponentially, up to ``(L - 1) / 8``, where a kernel
    spans the series. The biases of a kernel and dilation are quantiles of the convolution of one
    training series, drawn at random. Half of the pairs of kernel and dilation are convolved with
    zero padding, and half take their share over the steps whose whole window lies in the series
    (with padding after all if there is no such step). With several channels a convolution is that
    of the sum of a random subset of them [2]_, here drawn for seven kernels at a time.

    `n_features` is rounded down to a multiple of 84, but at least 84. Time ``O(B L F)``. Only valid
    steps count: padding changes nothing.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "MiniRocket: a very fast (almost) deterministic transform
       for time series classification", KDD 2021. https://arxiv.org/abs/2012.08791
    .. [2] Ruiz, Flynn, Large, Middlehurst and Bagnall, "The great multivariate time series
       classification bake off", DMKD 35, 2021.
    """

    #: The dilations ``[D]``, and the number of biases of each kernel at each.
    dilations: Tensor
    n_biases: Tensor
    #: By dilation, kernel and quantile, ``[F]``.
    biases: Tensor
    #: One where a group of kernels reads a channel ``[D, G, C]``: 12 groups of seven, or one.
    channels: Tensor
    _kernels: Tensor

    def __init__(self, n_features: int):
        super().__init__()
        self.per_kernel = max(n_features // N_KERNELS, 1)
        self._empty(
            dilations=torch.long, n_biases=torch.long, biases=torch.float, channels=torch.float
        )
        self.register_buffer("_kernels", KERNELS, persistent=False)

    @torch.no_grad()
    def fit(self, x: Tensor, mask: Tensor | None, generator: torch.Generator) -> MiniRocket:
        """Choose dilations for series ``[n, C, L]``, and draw channels and biases."""
        n_series, n_channels, length = x.shape
        dilations, n_biases = _spread(length, self.per_kernel)
        self.dilations, self.n_biases = dilations, n_biases
        n_groups = N_KERNELS // _TOGETHER
        self.channels = torch.stack(
            [draw_channels(n_groups, n_channels, generator) for _ in dilations]
        ).to(x.device)
        quantiles = torch.arange(1, int(n_biases.sum()) * N_KERNELS + 1, dtype=torch.float64)
        quantiles = (quantiles * _GOLDEN % 1).split([N_KERNELS * k for k in n_biases.tolist()])
        every = torch.ones_like(x[:, 0], dtype=torch.bool) if mask is None else mask
        biases = []
        for place, (dilation, at) in enumerate(zip(dilations.tolist(), quantiles, strict=True)):
            drawn = torch.randint(n_series, (N_KERNELS,), generator=generator).to(x.device)
            groups = self.channels[place].repeat_interleave(
                N_KERNELS // len(self.channels[place]), 0
            )
            padded = torch.arange(N_KERNELS, device=x.device) // (N_KERNELS // 2) == place % 2
            at = at.view(N_KERNELS, -1).to(x.device)
            for some in torch.arange(N_KERNELS).split(max(_VALUES // x[0].numel(), 1)):
                series = torch.einsum("kcl,kc->kl", x[drawn[some]], groups[some])
                kernels = self._kernels[some, None].to(x.device)
                convolved = responses(series[None], kernels, dilation)[0]
                valid = every[drawn[some]]
                valid = valid.where(padded[some, None], _whole(valid, dilation))
                biases.append(_quantiles(convolved, valid, at[some]).flatten())
        self.biases = torch.cat(biases)
        return self

    def check(self, n_channels: int) -> int:
        """Return the number of features; raise ValueError if loaded tensors are not consistent."""
        n_dilations = len(self.dilations)
        counted = bool((self.n_biases > 0).all()) and n_dilations > 0
        if not counted or not bool(((self.dilations > 0) & (self.dilations <= LONGEST)).all()):
            raise ValueError(
                f"dilations of MiniRocket must be from 1 to {LONGEST:,}, each with a bias or more"
            )
        n_groups = 1 if n_channels == 1 else N_KERNELS // _TOGETHER
        n_features = N_KERNELS * int(self.n_biases.sum())
        self._check_shapes(
            dilations=(n_dilations,),
            n_biases=(n_dilations,),
            channels=(n_dilations, n_groups, n_channels),
            biases=(n_features,),
        )
        return n_features

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the features ``[B, F]`` of series ``[B, C, L]``, as in `fit`."""
        valid = torch.ones_like(x[:, 0], dtype=torch.bool) if mask is None else mask
        all_biases = self.biases.split([N_KERNELS * k for k in self.n_biases.tolist()])
        shares = []
        for place, dilation in enumerate(self.dilations.tolist()):
            channels, biases = self.channels[place], all_biases[place].view(N_KERNELS, -1)
            kernels = self._kernels.view(len(channels), -1, KERNEL_LENGTH)
            whole = _whole(valid, dilation)
            halves = [valid, whole] if place % 2 == 0 else [whole, valid]
            blocks = [
                [
                    _above(some, own[:, steps], bias)
                    for some, own, bias in zip(
                        convolved.chunk(2, 1), halves, biases.chunk(2), strict=True
                    )
                ]
                for steps, convolved in response_blocks(channels @ x, kernels, dilation)
            ]
            parts = [
                torch.stack(counts).sum(dim=0) / own.sum(dim=1).clamp(min=1)[:, None, None]
                for counts, own in zip(zip(*blocks, strict=True), halves, strict=True)
            ]
            shares.append(torch.cat(parts, dim=1).flatten(1))
        return torch.cat(shares, dim=1)


def _spread(length: int, per_kernel: int) -> tuple[Tensor, Tensor]:
    """Return dilations, and for each the number of features of a kernel, `per_kernel` in all."""
    n_exponents = min(per_kernel, _MAX_DILATIONS)
    exponents = torch.linspace(0, log2(largest_dilation(length)), n_exponents, dtype=torch.float64)
    # Rounding must not take the last dilation below a whole number.
    dilations, counts = (exponents.exp2() + 1e-9).long().unique(return_counts=True)
    shares = counts * per_kernel // n_exponents
    left = per_kernel - int(shares.sum())
    shares[:left] += 1
    return dilations, shares


def _whole(valid: Tensor, dilation: int) -> Tensor:
    """Return the steps of ``[B, L]`` whose window is valid; of a series without any, all valid."""
    reach = dilation * (KERNEL_LENGTH // 2)
    padded = torch.nn.functional.pad(valid, (reach, reach))
    whole = valid & padded[:, : -2 * reach] & padded[:, 2 * reach :]
    return whole.where(whole.any(dim=1, keepdim=True), valid)


def _above(convolved: Tensor, valid: Tensor, biases: Tensor) -> Tensor:
    """Count the valid steps of ``[B, M, L]`` above biases ``[M, Q]``, as ``[B, M, Q]``."""
    if torch.compiler.is_compiling() or not bool(valid.all()):  # it costs as much as the rest
        convolved = convolved.masked_fill(~valid[:, None], -torch.inf)
    # Floats and not bools, whose sum is slow on a CPU.
    above = convolved.new_empty(*convolved.shape[:2], biases.shape[1], convolved.shape[2])
    torch.gt(convolved[:, :, None], biases[..., None], out=above)
    return above.sum(dim=-1)


def _quantiles(values: Tensor, valid: Tensor, at: Tensor) -> Tensor:
    """Return quantiles `at` ``[M, Q]`` of the valid values of each row of ``[M, L]``; 0 of none."""
    # NumPy sorts ten times faster.
    ordered = torch.from_numpy(np.sort(values.masked_fill(~valid, torch.inf).cpu().numpy(), axis=1))
    ordered = ordered.to(values.device)
    last = valid.sum(dim=1, keepdim=True) - 1
    place = at * last.clamp(min=0)
    low = ordered.gather(1, place.long())
    high = ordered.gather(1, place.ceil().long())
    between = low + (place - place.floor()).float() * (high - low)
    # Below the value of a single step, which rounding would put on either side of its own.
    return (between - 1e-5 * between.abs()).where(last >= 0, 0.0)
