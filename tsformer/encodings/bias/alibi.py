"""`alibi`: a linear function of the distance."""

import torch
from torch import Tensor

from tsformer.encodings.base import PositionalEncoding, mask_negligible, relative_times


class ALiBi(PositionalEncoding, name="alibi"):
    """Subtract from each score a multiple of the distance: ``-m_h abs(t_j - t_i)``.

    The slopes ``m_h = 2^(-8 h / H)``, ``h = 1..H``, are constants. The paper's model is causal; the
    distance alone cannot tell past from future, and the encoding is symmetric unless `signed`.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `d_model` and `max_len` are unused here.
    signed : bool, default=False
        Whether to halve the distance to later tokens, as the authors suggest for attention both
        ways.

    References
    ----------
    Press, Smith and Lewis, "Train Short, Test Long: Attention with Linear Biases Enables
    Input Length Extrapolation", ICLR 2022.

    Examples
    --------
    >>> encoding = ALiBi(d_model=4, n_heads=1, max_len=3)
    >>> q = torch.zeros(1, 1, 3, 4)
    >>> encoding.bias(q, q, torch.arange(3.0)[None])[0, 0, 0] * 2**8
    tensor([-0., -1., -2.])
    """

    bias_of_times = True
    symmetric = True
    reference = "Press et al. 2022"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, signed: bool = False):
        super().__init__()
        self.n_heads, self.signed, self.symmetric = n_heads, signed, not signed

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        gap = relative_times(t)
        distance = torch.maximum(gap / 2, -gap) if self.signed else gap.abs()
        head = torch.arange(1, self.n_heads + 1, device=t.device, dtype=t.dtype)
        slope = 2.0 ** (-8.0 * head / self.n_heads)
        return mask_negligible(-slope[:, None, None] * distance).to(q.dtype)
