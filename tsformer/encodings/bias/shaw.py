"""`shaw`: trained vectors of the distance."""

import torch
from torch import Tensor, nn

from tsformer._checks import check_number
from tsformer.encodings.base import PositionalEncoding, relative_times


class Shaw(PositionalEncoding, name="shaw"):
    """Add to each score the query's product with a trained vector of the distance.

    ``q_i . a[clip(t_j - t_i, -K, K)] / sqrt(E)`` with `a` ``[2 K + 1, E]``, one table per block,
    which its heads share. Distances are rounded to whole tokens. The paper also adds vectors to the
    values, without a difference; they are left out.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes.
    max_distance : int >= 1, optional
        The clipping distance `K`; by default 16 as in the paper, or `max_len - 1` if smaller.
    init_std : float, default=0.02
        Standard deviation of the initial vectors.

    References
    ----------
    Shaw, Uszkoreit and Vaswani, "Self-Attention with Relative Position Representations", NAACL
    2018.

    Examples
    --------
    >>> encoding = Shaw(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(3, 2, 5, 4)
    >>> encoding.bias(q, k, torch.arange(5.0)[None]).shape
    torch.Size([3, 2, 5, 5])
    """

    extrapolation = "clamps"
    per_block = True
    reference = "Shaw et al. 2018"
    usual_distance = 16

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        max_distance: int | None = None,
        init_std: float = 0.02,
    ):
        super().__init__()
        check_number(f"max_distance of {self.name}", max_distance, 1, whole=True, also=(None,))
        self.max_distance = max_distance or max(min(self.usual_distance, max_len - 1), 1)
        shape = 2 * self.max_distance + 1, d_model // n_heads
        self.table = nn.Parameter(init_std * torch.randn(shape))

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        products = q @ self.table.to(q.dtype).transpose(0, 1) * self.table.shape[1] ** -0.5
        row = relative_times(t).round().clamp(-self.max_distance, self.max_distance).long()
        row = (row + self.max_distance).expand(*q.shape[:2], -1, -1)
        return products.gather(-1, row)
