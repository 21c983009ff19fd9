"""`tape`: the sinusoid, scaled to the length of the series."""

from torch import Tensor

from tsformer.encodings.base import PositionalEncoding, sinusoid


class TAPE(PositionalEncoding, name="tape"):
    """Add the sinusoid with wavelengths scaled to the length of the series: ``x + PE(t D / L)``.

    The time absolute position encoding of ConvTran. The angles are ``t w_k D / L`` with the trained
    length `L` = `max_len`, also at prediction time: a step of half a series keeps its code.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` is unused here.
    base : float, default=10000.0
        As in `fixed`.

    References
    ----------
    Foumani, Tan, Webb and Salehi, "Improving Position Encoding of Transformers for
    Multivariate Time Series Classification", Data Mining and Knowledge Discovery 38, 2024
    (ConvTran).

    Examples
    --------
    >>> import torch
    >>> encoding = TAPE(d_model=4, n_heads=1, max_len=8)
    >>> encoding.embed(torch.zeros(1, 8, 4), torch.arange(8.0)[None]).shape
    torch.Size([1, 8, 4])
    """

    reference = "Foumani et al. 2024"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, base: float = 10000.0):
        super().__init__()
        self.d_model, self.max_len, self.base = d_model, max_len, base

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        stretched = t * (self.d_model / self.max_len)
        return x + sinusoid(stretched, self.d_model, base=self.base).to(x.dtype)
