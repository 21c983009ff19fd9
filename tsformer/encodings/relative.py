"""Functions of the distance between two tokens, added to the scores: `alibi`, `kerple`, `gaussian`.

`q`, `k` are ``[B, H, N, E]``, `t` ``[1 | B, N]``; `i` is the query's token, `j` the key's. A bias
``[1 | B, H, N, N]`` is made of times alone, so one matrix a head serves a batch of regular series.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._names import unknown
from tsformer.encodings.base import PositionalEncoding

__all__ = ["ALiBi", "GaussianBias", "Kerple", "ahead"]


def ahead(t: Tensor) -> Tensor:
    """Return how far keys are ahead of queries in time: ``t_j - t_i``, ``[1 | B, 1, N, N]``."""
    return t[:, None, None, :] - t[:, None, :, None]


def without_traces(bias: Tensor) -> Tensor:
    """Turn biases below -60 into minus infinity, for a bias that is zero at a distance of zero.

    A weight of ``exp(-60)`` beside the query's own token is nothing in float32; but weights
    somewhat smaller are denormal numbers, with which a processor calculates many times slower than
    with the exact zeros that these become.
    """
    return bias.masked_fill(bias < -60.0, float("-inf"))


class ALiBi(PositionalEncoding, name="alibi"):
    """Subtract from each score a multiple of the distance: ``-m_h abs(t_j - t_i)``.

    Slopes ``m_h = 2^(-8 h / H)``, ``h = 1..H``, are constants. The paper's model is causal; here
    attention looks both ways, and the distance alone cannot tell past from future: by default the
    encoding is symmetric. ``signed=True`` makes later tokens count half as far, one of the ways
    that its authors suggest for models that look both ways.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `d_model` and `max_len` are unused here.
    signed : bool, default=False
        Halve the slope towards later tokens, so that direction is known.

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

    kind = "bias"
    bias_of_times = True
    beyond = "extends"
    symmetric = True
    reference = "Press et al. 2022"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, signed: bool = False):
        super().__init__()
        self.n_heads = n_heads
        self.signed = signed
        self.symmetric = not signed

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        gap = ahead(t)
        distance = torch.where(gap > 0, gap / 2, -gap) if self.signed else gap.abs()
        head = torch.arange(1, self.n_heads + 1, device=t.device, dtype=t.dtype)
        slope = 2.0 ** (-8.0 * head / self.n_heads)
        return without_traces(-slope[:, None, None] * distance).to(q.dtype)


class Kerple(PositionalEncoding, name="kerple"):
    """Subtract from each score a trained concave function of the distance.

    ``-r1_h log(1 + r2_h abs(t_j - t_i))`` (`variant` "log") or ``-r1_h abs(t_j - t_i)^(r2_h)``
    ("power"), with ``r1, r2`` ``[H]`` above zero, and `r2` at most 2 for "power": then the bias is
    a conditionally positive definite kernel. Both are kept in their ranges by a softplus, or a
    sigmoid, of what is trained; the authors' code cuts them off at 0.01, where the gradient ends.

    The paper's model is causal; here attention looks both ways, and the distance alone cannot
    tell past from future: the encoding is symmetric.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `d_model` and `max_len` are unused here.
    variant : {"log", "power"}, default="log"
        The function; the paper finds the logarithm better.

    Raises
    ------
    ValueError
        If `variant` is neither.

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

    kind = "bias"
    bias_of_times = True
    beyond = "extends"
    symmetric = True
    reference = "Chi et al. 2022"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, variant: str = "log"):
        super().__init__()
        if variant not in ("log", "power"):
            raise ValueError(unknown("variant of kerple", variant, ("log", "power")))
        self.variant = variant
        self.r1_raw = nn.Parameter(torch.empty(n_heads).uniform_(-2.0, 2.0))
        self.r2_raw = nn.Parameter(torch.empty(n_heads).uniform_(-2.0, 0.5))

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        r1 = F.softplus(self.r1_raw)[:, None, None]
        distance = ahead(t).abs()
        if self.variant == "log":
            scaled = (F.softplus(self.r2_raw)[:, None, None] * distance).log1p()
        else:
            # A distance of zero stays zero, and its gradient is not that of 0 ** r.
            exponent = 2 * self.r2_raw.sigmoid()[:, None, None]
            scaled = distance.clamp(min=1e-12) ** exponent * (distance > 0)
        return without_traces(-r1 * scaled).to(q.dtype)


class GaussianBias(PositionalEncoding, name="gaussian"):
    """Subtract from each score the squared distance: ``-(t_j - t_i)^2 / (2 s_h^2)``.

    After the softmax this multiplies the attention weights by a Gaussian window around the query.
    The widths `s` ``[H]``, in tokens, are trained as logarithms and start spread evenly over the
    scales, from half the trained length for the first head down to two tokens for the last.

    The distance alone cannot tell past from future: the encoding is symmetric.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `d_model` is unused here.
    trainable : bool, default=True
        Whether the widths are trained. False keeps the fused attention kernel, which gives
        no gradient to a bias.

    References
    ----------
    Guo, Zhang and Liu, "Gaussian Transformer: A Lightweight Approach for Natural Language
    Inference", AAAI 2019.

    Examples
    --------
    >>> encoding = GaussianBias(d_model=8, n_heads=1, max_len=8)
    >>> q = torch.zeros(1, 1, 3, 8)
    >>> encoding.bias(q, q, torch.arange(3.0)[None])[0, 0, 0].detach() * 32
    tensor([-0., -1., -4.])
    """

    kind = "bias"
    bias_of_times = True
    beyond = "extends"
    symmetric = True
    reference = "Guo et al. 2019"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, trainable: bool = True):
        super().__init__()
        widest, narrowest = max(max_len / 2, 2.0), 2.0
        share = torch.arange(n_heads) / max(n_heads - 1, 1)
        start = (narrowest / widest) ** share * widest
        self.log_width = nn.Parameter(start.log(), requires_grad=trainable)

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        width = self.log_width.exp()[:, None, None]
        return without_traces((ahead(t) / width).square() / -2).to(q.dtype)
