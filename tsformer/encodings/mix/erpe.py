"""`erpe`: a trained weight for each distance, added after the softmax."""

import torch
from torch import Tensor, nn

from tsformer.encodings.base import PositionalEncoding, without_autocast


class ERPE(PositionalEncoding, name="erpe"):
    """Add a trained weight for each distance to the attention weights, after the softmax.

    The efficient relative position encoding of ConvTran: ``(softmax(q k^T / sqrt(E)) + W) v`` with
    ``W[i, j] = w_h[i - j]`` and `w` ``[H, 2 M - 1]`` for `M` = `max_len`, initially zero, one table
    per block. Distances past `M - 1` take the outermost weight. The second term is computed by FFT,
    in memory linear in `N`. It counts tokens: for irregular times combine it, as in "tape+erpe".

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `d_model` is unused here.
    causal : bool, default=False
        Whether only earlier tokens and the query's own have a weight.

    References
    ----------
    Foumani, Tan, Webb and Salehi, "Improving Position Encoding of Transformers for
    Multivariate Time Series Classification", Data Mining and Knowledge Discovery 38, 2024
    (ConvTran).

    Examples
    --------
    >>> encoding = ERPE(d_model=4, n_heads=1, max_len=3)
    >>> encoding.mix(torch.randn(1, 1, 3, 4), torch.arange(3.0)[None]).abs().sum().item()
    0.0
    """

    extrapolation = "clamps"
    per_block = True
    reference = "Foumani et al. 2024"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, causal: bool = False):
        super().__init__()
        self.causal = causal
        self.table = nn.Parameter(torch.zeros(n_heads, 2 * max_len - 1))

    def mix(self, v: Tensor, t: Tensor) -> Tensor:
        n = v.shape[-2]
        reach = self.table.shape[-1] // 2
        # The circular kernel of length 2 n: distances 0 .. n-1, one unused entry, -(n-1) .. -1.
        distance = torch.arange(2 * n, device=v.device)
        distance = torch.where(distance < n, distance, distance - 2 * n)
        kernel = self.table.index_select(1, distance.clamp(-reach, reach) + reach)
        if self.causal:
            kernel = kernel * (distance >= 0)
        with without_autocast(v.device):  # FFTs do not support 16-bit types
            wide = v if v.dtype == torch.float64 else v.float()
            spectrum = torch.fft.rfft(kernel.to(wide.dtype)[..., None], n=2 * n, dim=-2)
            product = spectrum * torch.fft.rfft(wide, n=2 * n, dim=-2)
            return torch.fft.irfft(product, n=2 * n, dim=-2)[..., :n, :].to(v.dtype)
