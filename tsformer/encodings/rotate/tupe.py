"""`tupe`: positions attend to positions, separately from the contents of the tokens."""

import torch
from torch import Tensor, nn

from tsformer.encodings.base import PositionalEncoding, interpolated_rows


class TUPE(PositionalEncoding, name="tupe"):
    """Add to each score the product of the two positions: ``(q k + p_q p_k) / sqrt(2 E)``.

    The untied positional encoding: ``p = LayerNorm(P[t])`` ``[N, D]``, where `P` is a table of
    trained vectors, interpolated as in `learnable`, and ``p_q = p U_q`` and ``p_k = p U_k`` have
    projections ``U_q, U_k`` ``[D, D]`` of their own and are split into heads, which become twice as
    wide: ``[q, p_q]`` and ``[k, p_k]``. All blocks share `P`, `U_q` and `U_k`.

    The class token of the paper is left out. Its second model, with relative biases, is
    ``"tupe+t5"``.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes.
    init_std : float, default=0.02
        Standard deviation of the initial rows of `P`.

    References
    ----------
    Ke, He and Liu, "Rethinking Positional Encoding in Language Pre-training", ICLR 2021.

    Examples
    --------
    >>> encoding = TUPE(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(3, 2, 5, 4)
    >>> encoding.rotate(q, k, torch.arange(5.0)[None])[0].shape
    torch.Size([3, 2, 5, 8])
    """

    extrapolation = "interpolates"
    reference = "Ke et al. 2021"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, init_std: float = 0.02):
        super().__init__()
        self.n_heads = n_heads
        self.table = nn.Parameter(init_std * torch.randn(max_len, d_model))
        self.norm = nn.LayerNorm(d_model)
        self.project = nn.Linear(d_model, 2 * d_model)

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        position = self.project(self.norm(interpolated_rows(self.table, t)))
        p_q, p_k = (
            half.unflatten(-1, (self.n_heads, -1)).transpose(1, 2).to(q.dtype)
            for half in position.chunk(2, dim=-1)
        )
        # Attention divides by sqrt(E); the remaining sqrt(2) goes into the queries.
        wide_q = torch.cat([q, p_q.expand(q.shape[0], -1, -1, -1)], dim=-1) * 2**-0.5
        return wide_q, torch.cat([k, p_k.expand(k.shape[0], -1, -1, -1)], dim=-1)
