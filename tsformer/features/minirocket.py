"""MiniRocket: the shares of positive values of 84 fixed kernels at many dilations."""

from __future__ import annotations

from itertools import combinations
from math import log2, sqrt

import torch
from torch import Tensor

from tsformer.features.convolution import (
    KERNEL_LENGTH,
    LONGEST,
    draw_channels,
    largest_dilation,
    responses,
)
from tsformer.features.learned import Learned

__all__ = ["KERNELS", "MiniRocket"]

N_KERNELS = 84
_MAX_DILATIONS = 32
#: Kernels that read the same channels. Seven, so that both halves below are whole groups.
_TOGETHER = 7
_GOLDEN = (sqrt(5) + 1) / 2


def _kernels() -> Tensor:
    """Return the 84 kernels ``[84, 9]`` with three weights 2 and six -1.

    Every second one comes first: these two halves take turns in being padded.
    """
    chosen = list(combinations(range(KERNEL_LENGTH), 3))
    kernels = torch.full((N_KERNELS, KERNEL_LENGTH), -1.0)
    for kernel, places in zip(kernels, chosen[::2] + chosen[1::2], strict=True):
        kernel[list(places)] = 2.0
    return kernels


KERNELS = _kernels()


class MiniRocket(Learned):
    """Shares of the steps at which a convolution exceeds a bias, for 84 kernels and many dilations.

    ``out = mean_t [sum_c (w * x_c)_t > b]``. The kernels `w` are all those of length 9 with three
    weights 2 and six -1. Dilations are spaced exponentially, up to ``(L - 1) / 8``, where a kernel
    spans the series. The biases of a kernel and dilation are quantiles of the convolution of one
    training series, drawn at random. Half of the pairs of kernel and dilation are convolved with
    zero padding, and half take their share over the steps whose whole window lies in the series
    (with padding after all if there is no such step). With several channels a convolution is that
    of the sum of a random subset of them [2]_, here drawn for seven kernels at a time.

    Parameters
    ----------
    n_features : int
        Number of features, rounded down to a multiple of 84, but at least 84.

    Attributes
    ----------
    dilations, n_biases : Tensor [D] of int64
        The dilations, and the number of biases of each kernel at each.
    biases : Tensor [n_features]
        By dilation, kernel and quantile.
    channels : Tensor [D, G, C]
        One where a group of kernels reads a channel; 12 groups of seven, or one of all.

    Notes
    -----
    Time ``O(B L F)``: for each step and feature one comparison, and for each step, kernel and
    dilation a product with 9 weights. A step counts only if it is valid, so that padding changes
    nothing. Deterministic but for the choice of series and channels.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "MiniRocket: a very fast (almost) deterministic transform
       for time series classification", KDD 2021. https://arxiv.org/abs/2012.08791
    .. [2] Ruiz, Flynn, Large, Middlehurst and Bagnall, "The great multivariate time series
       classification bake off", DMKD 35, 2021.

    Examples
    --------
    >>> import torch
    >>> x = torch.randn(5, 1, 40)
    >>> MiniRocket(168).fit(x, None, torch.Generator().manual_seed(0))(x).shape
    torch.Size([5, 168])
    """

    dilations: Tensor
    n_biases: Tensor
    biases: Tensor
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
        """Choose dilations for the longest series, and draw channels and biases.

        Parameters
        ----------
        x : Tensor [n, C, L]
            Training series, zero where `mask` is False.
        mask : Tensor [n, L] of bool, optional
            True at valid steps.
        generator : torch.Generator
            Of the CPU; the only source of randomness.
        """
        n_series, n_channels, length = x.shape
        dilations, n_biases = _spread(length, self.per_kernel)
        self.dilations, self.n_biases = dilations, n_biases
        n_groups = N_KERNELS // _TOGETHER
        self.channels = torch.stack(
            [draw_channels(n_groups, n_channels, generator) for _ in dilations]
        ).to(x.device)
        quantiles = torch.arange(1, int(n_biases.sum()) * N_KERNELS + 1, dtype=torch.float64)
        quantiles = (quantiles * _GOLDEN % 1).split([N_KERNELS * k for k in n_biases.tolist()])
        biases = []
        for place, (dilation, at) in enumerate(zip(dilations.tolist(), quantiles, strict=True)):
            drawn = torch.randint(n_series, (N_KERNELS,), generator=generator).to(x.device)
            groups = self.channels[place].repeat_interleave(
                N_KERNELS // len(self.channels[place]), 0
            )
            series = torch.einsum("kcl,kc->kl", x[drawn], groups)
            convolved = responses(series[None], self._kernels[:, None].to(x.device), dilation)[0]
            valid = torch.ones_like(convolved, dtype=torch.bool) if mask is None else mask[drawn]
            unpadded = torch.arange(N_KERNELS, device=x.device) // (N_KERNELS // 2) != place % 2
            valid = valid.where(~unpadded[:, None], _whole(valid, dilation))
            biases.append(
                _quantiles(convolved, valid, at.view(N_KERNELS, -1).to(x.device)).flatten()
            )
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
        length = x.shape[-1]
        all_biases = self.biases.split([N_KERNELS * k for k in self.n_biases.tolist()])
        shares = []
        for place, dilation in enumerate(self.dilations.tolist()):
            channels, biases = self.channels[place], all_biases[place].view(N_KERNELS, -1)
            kernels = self._kernels.view(len(channels), -1, KERNEL_LENGTH)
            convolved = responses(channels @ x, kernels, dilation)
            parts = []
            for half, (steps, bias) in enumerate(
                zip(convolved.chunk(2, 1), biases.chunk(2), strict=True)
            ):
                if half == place % 2:
                    parts.append(_shares(steps, mask, bias))
                    continue
                reach = dilation * (KERNEL_LENGTH // 2)
                if mask is None and length > 2 * reach:
                    steps = steps[..., reach : length - reach]
                    parts.append(_shares(steps, None, bias))
                else:
                    valid = torch.ones_like(x[:, 0], dtype=torch.bool) if mask is None else mask
                    parts.append(_shares(steps, _whole(valid, dilation), bias))
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


def _shares(convolved: Tensor, valid: Tensor | None, biases: Tensor) -> Tensor:
    """Return the shares ``[B, M, Q]`` of valid steps of ``[B, M, L]`` above biases ``[M, Q]``."""
    if valid is None:
        count: Tensor | int = convolved.shape[-1]
    else:
        convolved = convolved.masked_fill(~valid[:, None], -torch.inf)
        count = valid.sum(dim=1).clamp(min=1)[:, None, None]
    # Floats and not bools, whose sum is slow on a CPU.
    above = convolved.new_empty(*convolved.shape[:2], biases.shape[1], convolved.shape[2])
    torch.gt(convolved[:, :, None], biases[..., None], out=above)
    return above.sum(dim=-1) / count


def _quantiles(values: Tensor, valid: Tensor, at: Tensor) -> Tensor:
    """Return quantiles `at` ``[M, Q]`` of the valid values of each row of ``[M, L]``; 0 of none."""
    ordered = values.masked_fill(~valid, torch.inf).sort(dim=1).values
    last = valid.sum(dim=1, keepdim=True) - 1
    place = at * last.clamp(min=0)
    low = ordered.gather(1, place.long())
    high = ordered.gather(1, place.ceil().long())
    between = low + (place - place.floor()).float() * (high - low)
    # Below the value of a single step, which rounding would put on either side of its own.
    return (between - 1e-5 * between.abs()).where(last >= 0, 0.0)
