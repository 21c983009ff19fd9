"""`wavelet`: trained codes of scales, weighted by a wavelet transform of the series."""

from itertools import pairwise
from math import log2, sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._checks import check_known, check_number
from tsformer.encodings.base import PositionalEncoding

_ROOT3 = sqrt(3.0)

#: Low-pass filters of Daubechies' orthogonal wavelets with 1, 2 and 4 vanishing moments.
WAVELETS = {
    "haar": [sqrt(0.5), sqrt(0.5)],
    "db2": [c / (4 * sqrt(2.0)) for c in (1 + _ROOT3, 3 + _ROOT3, 3 - _ROOT3, 1 - _ROOT3)],
    "db4": [
        *(0.23037781330885523, 0.7148465705525415, 0.6308807679295904, -0.02798376941698385),
        *(-0.18703481171888114, 0.030841381835986965, 0.032883011666982945, -0.010597401784997278),
    ],
}


def multiresolution(signal: Tensor, low_pass: Tensor, n_levels: int) -> Tensor:
    """Decompose signals into their components at each level of a wavelet transform.

    Maps ``[B, N]`` to ``[B, J + 1, N]`` with an even filter ``[F]``. Row 0 is what remains after
    all smoothings, row `j` the detail between smoothing number ``J - j`` and the next; the rows add
    up to the signal, which is padded with zeros.
    """
    kernel, before = low_pass[None, None], len(low_pass) - 2
    approximation = signal[:, None]
    lengths: list[int] = []
    smooth = [approximation]
    for _ in range(n_levels):
        lengths.append(approximation.shape[-1])
        # An even offset and all windows that touch the signal, so that nothing is lost at the ends.
        margins = before, (lengths[-1] + len(low_pass) - 1) // 2 * 2 - lengths[-1]
        approximation = smoothed = F.conv1d(F.pad(approximation, margins), kernel, stride=2)
        for length in reversed(lengths):
            smoothed = F.conv_transpose1d(smoothed, kernel, stride=2)
            # A negative pad, as a slice would export a length check.
            smoothed = F.pad(smoothed, (-before, before + length - smoothed.shape[-1]))
        smooth.append(smoothed)
    return _components(smooth)


def causal_multiresolution(signal: Tensor, low_pass: Tensor, n_levels: int) -> Tensor:
    """Decompose signals as `multiresolution` does, undecimated, from present and past values.

    Smoothing number `j` is the filter's mean of the present and past values ``2^(j - 1)`` steps
    apart.
    """
    kernel = (low_pass.flip(0) / sqrt(2.0))[None, None]
    smooth = [signal[:, None]]
    for level in range(n_levels):
        past = F.pad(smooth[-1], ((len(low_pass) - 1) * 2**level, 0))
        smooth.append(F.conv1d(past, kernel, dilation=2**level))
    return _components(smooth)


def _components(smooth: list[Tensor]) -> Tensor:
    """Return the smoothest signal, and what each smoothing removed."""
    details = [finer - coarser for finer, coarser in pairwise(smooth)]
    return torch.cat([smooth[-1], *reversed(details)], dim=1)


class WaveletEncoding(PositionalEncoding, name="wavelet"):
    """Add trained codes of scales, weighted by how strong each scale is at that token.

    The dynamic wavelet positional encoding: ``x + sum_j g_j s_j``, where ``s = w . x`` is the
    sequence of tokens projected to one channel, ``s_j`` ``[B, N]`` its component at level `j` of a
    wavelet transform (`J` details and the smooth remainder) and
    ``g_j = sigmoid(U e_j) tanh(V e_j)`` ``[D]`` the gated code of that level, with ``w, e, U, V``
    trained. The paper projects values, and the authors' code reflects the series at its ends.

    It depends on the contents and the order of the tokens, not on their times: a constant series
    gets no code except at its ends. With the symmetric "haar", and a length that is a multiple of
    ``2^J``, it cannot tell a series from its reverse.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` is unused here.
    n_levels : int >= 1, optional
        Levels `J`; by default ``log2(max_len) - 2`` rounded down, as advised, and at least 1.
    wavelet : {"haar", "db2", "db4"}, default="db4"
        Daubechies' wavelet with 1, 2 or 4 vanishing moments.
    causal : bool, default=False
        Whether a code depends only on the tokens up to it; the transform is then undecimated.

    References
    ----------
    Irani and Metsis, "DyWPE: Signal-Aware Dynamic Wavelet Positional Encoding for Time Series
    Transformers", ICASSP 2026.

    Examples
    --------
    >>> encoding = WaveletEncoding(d_model=8, n_heads=2, max_len=20)
    >>> encoding.embed(torch.randn(2, 20, 8), torch.arange(20.0)[None]).shape
    torch.Size([2, 20, 8])
    """

    reference = "Irani and Metsis 2026"

    low_pass: Tensor

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        n_levels: int | None = None,
        wavelet: str = "db4",
        causal: bool = False,
    ):
        super().__init__()
        self.causal = causal
        check_known("wavelet", wavelet, WAVELETS)
        self.n_levels = max(int(log2(max_len)) - 2, 1) if n_levels is None else n_levels
        check_number("n_levels of wavelet", self.n_levels, 1, whole=True)
        self.register_buffer("low_pass", torch.tensor(WAVELETS[wavelet]), persistent=False)
        self.project = nn.Linear(d_model, 1, bias=False)
        self.scale_table = nn.Parameter(torch.randn(self.n_levels + 1, d_model))
        self.gate = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        signal = self.project(x)[..., 0]
        split = causal_multiresolution if self.causal else multiresolution
        parts = split(signal, self.low_pass.to(signal.dtype), self.n_levels)
        codes = self.gate(self.scale_table).sigmoid() * self.value(self.scale_table).tanh()
        return x + (parts.mT @ codes.to(parts.dtype)).to(x.dtype)
