"""Stems map values to tokens, along with the mask and the times.

Every stem takes `x` ``[B, L, C]`` with zeros at padding, `mask` ``[B, L]`` or None and `t`
``[1 | B, L]``. It returns tokens ``[B, N, D]``, their mask ``[B, N]`` or None, and their times
``[1 | B, N]`` in units of one token. Padding never reaches a valid token: it is zero before every
convolution, like the zeros past the end of a series, and norms exclude it.
"""

import inspect
from math import ceil
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._checks import check_known, check_number
from tsformer._registry import check_options
from tsformer.model.layers import MaskedBatchNorm

DOWNSAMPLINGS = ("stride", "pool")
#: Smaller than every value of GELU, so that a masked step is never the maximum of a window.
_BELOW_GELU = -1.0
StemOutput = tuple[Tensor, Tensor | None, Tensor]


class Stem(nn.Module):
    """Base class of the stems: one token for every `stride` steps."""

    stride: int
    #: Whether a token depends on a single step, so that only the encoding sees the order.
    pointwise = False

    def n_tokens(self, length: int) -> int:
        """Return the number of tokens `N` of a series of `length` steps."""
        return ceil(length / self.stride)

    @property
    def receptive_field(self) -> int:
        """Number of consecutive steps that a token depends on."""
        return self.stride


def _windows(x: Tensor, stride: int) -> Tensor:
    """Cut ``[B, L]`` into zero-padded windows ``[B, N, stride]``."""
    n = (x.shape[1] - 1) // stride + 1  # the formula of convolutions, so that exports trace one
    return F.pad(x, (0, n * stride - x.shape[1])).unflatten(1, (n, stride))


class LinearStem(Stem):
    """One token per step: ``x W + b``."""

    stride = 1
    pointwise = True

    def __init__(self, n_channels: int, d_model: int, max_len: int):
        super().__init__()
        self.project = nn.Linear(n_channels, d_model)

    def forward(self, x: Tensor, mask: Tensor | None, t: Tensor) -> StemOutput:
        return self.project(x), mask, t


class EmbeddingStem(Stem):
    """One token per step: a learned vector for each code of a symbolic series, ``W[x]``.

    Row 0, for codes that are absent from training, starts at zero and stays zero.
    """

    stride = 1
    pointwise = True

    def __init__(self, n_channels: int, d_model: int, max_len: int, n_codes: int):
        super().__init__()
        if n_channels != 1:
            raise ValueError(f"the embedding stem reads one channel of codes; X has {n_channels}")
        check_number("n_codes of the embedding stem", n_codes, 1, whole=True)
        self.embedding = nn.Embedding(n_codes + 1, d_model)
        nn.init.zeros_(self.embedding.weight[0])

    def forward(self, x: Tensor, mask: Tensor | None, t: Tensor) -> StemOutput:
        return self.embedding(x[..., 0].long()), mask, t


class PatchStem(Stem):
    """A token for every `stride` consecutive steps of all channels, at their mean time."""

    def __init__(self, n_channels: int, d_model: int, max_len: int, stride: int | None = None):
        super().__init__()
        self.stride = max(round(max_len / 64), 2) if stride is None else stride
        self.project = nn.Linear(n_channels * self.stride, d_model)

    def forward(self, x: Tensor, mask: Tensor | None, t: Tensor) -> StemOutput:
        missing = -x.shape[1] % self.stride
        patches = F.pad(x, (0, 0, 0, missing)).unflatten(1, (-1, self.stride)).flatten(2)
        there = torch.ones_like(t, dtype=torch.bool) if mask is None else mask
        weight = _windows(there.to(t.dtype), self.stride)
        total = _windows(t.where(there, 0.0), self.stride).sum(-1)
        centre = total / weight.sum(-1).clamp(min=1.0)
        # Times of a regular series are 0, 1, 2...
        centre = (centre - (self.stride - 1) / 2) / self.stride
        valid = None if mask is None else _windows(mask, self.stride).any(dim=-1)
        return self.project(patches), valid, centre


class DilatedConvolution(nn.Module):
    """Convolutions of one kernel size and several dilations side by side, a batch norm and GELU.

    The convolutions are strided. With `pools` they have stride 1, and the maximum of each window of
    `stride` outputs is concatenated with its mean, which gives ``2 n_out`` features.
    """

    def __init__(
        self,
        n_in: int,
        n_out: int,
        kernel: int,
        dilations: tuple[int, ...],
        stride: int,
        pools: bool = False,
    ):
        super().__init__()
        self.stride, self.pools = stride, pools
        share, rest = divmod(n_out, len(dilations))
        self.dilations = list(dilations if share else dilations[:rest])
        options: Any = {"stride": 1 if pools else stride}
        options["bias"] = False  # the batch norm would subtract it again
        self.branches = nn.ModuleList(
            nn.Conv1d(
                n_in, share + (i < rest), kernel, padding=d * (kernel // 2), dilation=d, **options
            )
            for i, d in enumerate(self.dilations)
        )
        self.norm = MaskedBatchNorm(n_out)
        self.n_features = 2 * n_out if pools else n_out
        #: Number of consecutive inputs that an output depends on.
        self.span = (kernel - 1) * max(self.dilations) + (stride if pools else 1)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Map ``[B, L, C]`` to ``[B, ceil(L / stride), D]``, and the mask along with it."""
        if mask is not None:
            x = x * mask[..., None]
        row = x.transpose(1, 2)[:, :, None]
        branches: Any = self.branches
        # torch's convolutions of one dimension take half as long again.
        convolved = [
            F.conv2d(
                row,
                branch.weight[:, :, None],
                stride=(1, *branch.stride),
                padding=(0, *branch.padding),
                dilation=(1, *branch.dilation),
            )
            for branch in branches
        ]
        row = torch.cat(convolved, dim=1)
        strided = None if mask is None else _windows(mask, self.stride).any(dim=-1)
        row = F.gelu(self.norm(row, mask if self.pools else strided))
        if self.pools:
            row = self._pooled(row, mask)
        # Indexing instead would change the memory order of its gradient.
        return row.squeeze(2).transpose(1, 2), strided

    def _pooled(self, row: Tensor, mask: Tensor | None) -> Tensor:
        """Return maximum and mean of the valid steps of each window of ``[B, D, 1, L]``."""
        window: Any = {"kernel_size": (1, self.stride), "ceil_mode": True}
        if mask is None:
            return torch.cat([F.max_pool2d(row, **window), F.avg_pool2d(row, **window)], dim=1)
        largest = F.max_pool2d(row.where(mask[:, None, None], _BELOW_GELU), **window)
        valid = mask[:, None, None].to(row.dtype)
        share = F.avg_pool2d(valid, **window).clamp(min=1e-6)
        return torch.cat([largest, F.avg_pool2d(row * valid, **window) / share], dim=1)


class ConvStem(Stem):
    """Two layers of convolutions at several dilations side by side, strided to `n_tokens` tokens.

    Token `n` is centred at step ``n * stride`` and has the time of that step. Residual layers,
    ``x + conv(x)`` of stride 1 and the same dilations, may follow.

    References
    ----------
    Dilations: Yu and Koltun, "Multi-Scale Context Aggregation by Dilated Convolutions", ICLR 2016.
    Parallel kernels of several spans: Fawaz et al., "InceptionTime", DMKD 2020. Residual layers: He
    et al., "Deep Residual Learning for Image Recognition", CVPR 2016. Pooling of the maximum and a
    second statistic: Dempster et al., "ROCKET", DMKD 2020.
    """

    def __init__(
        self,
        n_channels: int,
        d_model: int,
        max_len: int,
        kernel_size: int = 9,
        dilations: tuple[int, ...] = (1, 2, 4, 8),
        strides: tuple[int, int] | None = None,
        n_residual: int = 0,
        downsampling: str = "stride",
        n_tokens: int | None = None,
    ):
        super().__init__()
        check_known("downsampling", downsampling, DOWNSAMPLINGS)
        check_number("n_tokens of the conv stem", n_tokens, 1, whole=True, also=(None,))
        if n_tokens is not None and strides is not None:
            raise ValueError(f"pass n_tokens={n_tokens} or strides={strides}, not both")
        check_number("n_residual of the conv stem", n_residual, 0, whole=True)
        if kernel_size % 2 == 0:
            raise ValueError(f"kernel_size of the conv stem must be odd; got {kernel_size}")
        if strides is None:
            wanted = max(max_len / (n_tokens or 64), 1.0)
            first = max(int(wanted**0.5), 1)
            strides = (first, max(round(wanted / first), 1))
        self.strides = strides
        self.stride = strides[0] * strides[1]
        dilations = tuple(dilations)

        def layer(n_in: int, n_out: int, stride: int, pools: bool = False) -> DilatedConvolution:
            return DilatedConvolution(n_in, n_out, kernel_size, dilations, stride, pools)

        pools = downsampling == "pool" and strides[0] > 1
        narrow = ceil(d_model / 4) if pools else d_model
        self.first = layer(n_channels, narrow, strides[0], pools)
        self.second = layer(2 * narrow if pools else d_model, d_model, strides[1])
        self.residual = nn.ModuleList(layer(d_model, d_model, 1) for _ in range(n_residual))

    @property
    def receptive_field(self) -> int:
        """Number of consecutive steps that a token depends on."""
        field, stride = 1, 1
        for layer in self.modules():
            if isinstance(layer, DilatedConvolution):
                field += (layer.span - 1) * stride
                stride *= layer.stride
        return field

    def forward(self, x: Tensor, mask: Tensor | None, t: Tensor) -> StemOutput:
        x, mask = self.second(*self.first(x, mask))
        for layer in self.residual:
            x = x + layer(x, mask)[0]
        return x, mask, _windows(t, self.stride)[..., 0] / self.stride


STEMS: dict[str, type[Stem]] = {
    "conv": ConvStem,
    "linear": LinearStem,
    "patch": PatchStem,
    "embedding": EmbeddingStem,
}


def make_stem(name: str, n_channels: int, d_model: int, max_len: int, **params: Any) -> Stem:
    """Return the stem of that name, or raise ValueError with the nearest match."""
    check_known("stem", name, STEMS)
    cls = STEMS[name]
    options = list(inspect.signature(cls).parameters)[3:]
    check_options(f"the {name} stem", options, params)
    return cls(n_channels, d_model, max_len, **params)
