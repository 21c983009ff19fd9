"""`learnable`: a trained vector for each position."""

import torch
from torch import Tensor, nn

from tsformer.encodings.base import PositionalEncoding, interpolated_rows


class LearnableEncoding(PositionalEncoding, name="learnable"):
    """Add a trained vector for each position: ``x + P[t]``.

    `P` ``[M, D]`` has one row for each of the `M` = `max_len` trained positions, drawn from ``N(0,
    init_std^2)``. Between two positions, their rows are interpolated linearly; the times of a
    series longer than `M` are scaled to end at the last row.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` is unused here.
    init_std : float, default=0.02
        Standard deviation of the initial rows; 1.0 in some implementations.

    References
    ----------
    Devlin et al., "BERT", NAACL 2019; Dosovitskiy et al., "An Image Is Worth 16x16 Words",
    ICLR 2021 (rows interpolated to other lengths).

    Examples
    --------
    >>> encoding = LearnableEncoding(d_model=4, n_heads=1, max_len=3)
    >>> encoding.embed(torch.zeros(1, 9, 4), torch.arange(9.0)[None]).shape
    torch.Size([1, 9, 4])
    """

    extrapolation = "interpolates"
    reference = "Devlin et al. 2019"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, init_std: float = 0.02):
        super().__init__()
        self.table = nn.Parameter(init_std * torch.randn(max_len, d_model))

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        return x + interpolated_rows(self.table, t).to(x.dtype)
