"""`fixed`: the sinusoid of the original transformer."""

from torch import Tensor

from tsformer.encodings.base import PositionalEncoding, sinusoid


class FixedEncoding(PositionalEncoding, name="fixed"):
    """Add the sinusoid of the original transformer: ``x + PE(t)``.

    ``PE(t)[2k] = sin(t w_k)``, ``PE(t)[2k+1] = cos(t w_k)``, ``w_k = base^(-2k / D)``, with
    `x` ``[B, N, D]`` and `t` ``[1 | B, N]``. It has no parameters and is defined for any length and
    any real-valued time. The paper's dropout on the sum is left to the model.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` and `max_len` are unused here.
    base : float, default=10000.0
        Sets the wavelengths, from ``2 pi`` to about ``2 pi base`` tokens.

    References
    ----------
    Vaswani et al., "Attention Is All You Need", NeurIPS 2017.

    Examples
    --------
    >>> import torch
    >>> encoding = FixedEncoding(d_model=4, n_heads=1, max_len=3)
    >>> encoding.embed(torch.zeros(1, 3, 4), torch.arange(3.0)[None])[0, 0]
    tensor([0., 1., 0., 1.])
    """

    reference = "Vaswani et al. 2017"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, base: float = 10000.0):
        super().__init__()
        self.d_model, self.base = d_model, base

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        return x + sinusoid(t, self.d_model, base=self.base).to(x.dtype)
