"""`kerple`: a trained concave function of the distance."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._checks import check_known
from tsformer.encodings.base import PositionalEncoding, mask_negligible, relative_times


class Kerple(PositionalEncoding, name="kerple"):
    """Subtract from each score a trained concave function of the distance.

    ``-r1_h log(1 + r2_h abs(t_j - t_i))`` (`variant` "log") or ``-r1_h abs(t_j - t_i)^(r2_h)``
    ("power"), with ``r1, r2`` ``[H]`` above zero and, for "power", `r2` at most 2: the bias is then
    a conditionally positive definite kernel. A softplus or sigmoid keeps both in their ranges,
    where the authors' code clips them. The encoding is symmetric.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `d_model` and `max_len` are unused here.
    variant : {"log", "power"}, default="log"
        The function of the distance; in the paper the logarithm works better.

    References
    ----------
    Chi, Fan, Ramadge and Rudnicky, "KERPLE: Kernelized Relative Positional Embedding for Length
    Extrapolation", NeurIPS 2022.

    Examples
    --------
    >>> encoding = Kerple(d_model=8, n_heads=2, max_len=3)
    >>> q = torch.zeros(1, 2, 3, 4)
    >>> encoding.bias(q, q, torch.arange(3.0)[None]).shape
    torch.Size([1, 2, 3, 3])
    """

    bias_of_times = True
    symmetric = True
    reference = "Chi et al. 2022"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, variant: str = "log"):
        super().__init__()
        check_known("variant of kerple", variant, ("log", "power"))
        self.variant = variant
        self.r1_raw = nn.Parameter(torch.empty(n_heads).uniform_(-2.0, 2.0))
        self.r2_raw = nn.Parameter(torch.empty(n_heads).uniform_(-2.0, 0.5))

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        r1 = F.softplus(self.r1_raw)[:, None, None]
        distance = relative_times(t).abs()
        if self.variant == "log":
            scaled = (F.softplus(self.r2_raw)[:, None, None] * distance).log1p()
        else:
            # A distance of zero gives zero, without the undefined gradient of 0 ** r.
            exponent = 2 * self.r2_raw.sigmoid()[:, None, None]
            scaled = distance.clamp(min=1e-12) ** exponent * (distance > 0)
        return mask_negligible(-r1 * scaled).to(q.dtype)
