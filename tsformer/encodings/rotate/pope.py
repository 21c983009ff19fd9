"""`pope`: polar coordinate position embedding."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer.encodings.base import PositionalEncoding, at_least_float32


class PoPE(PositionalEncoding, name="pope"):
    """Turn each feature into a magnitude from its value and an angle from the time alone.

    Feature `c` of a query has the magnitude ``softplus(q_c)`` and the angle ``t_i w_c``; feature
    `c` of a key has the magnitude ``softplus(k_c)`` and the angle ``t_j w_c + d_c``; ``w_c =
    base^(-c / E)``. A score is the sum of ``softplus(q_c) softplus(k_c) cos((t_j - t_i) w_c +
    d_c)``. Heads are twice as wide inside attention. The phases `d` ``[H, E]`` are trained without
    limits, shared by all blocks, and start at zero.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `max_len` is unused here.
    base : float, default=10000.0
        Sets the wavelengths, as in `fixed`.

    References
    ----------
    Gopalakrishnan, Csordás, Schmidhuber and Mozer, "Decoupling the What and Where With Polar
    Coordinate Positional Embeddings", arXiv 2509.10534, 2025.

    Examples
    --------
    >>> encoding = PoPE(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(3, 2, 5, 4)
    >>> encoding.rotate(q, k, torch.arange(5.0)[None])[0].shape
    torch.Size([3, 2, 5, 8])
    """

    reference = "Gopalakrishnan et al. 2025"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, base: float = 10000.0):
        super().__init__()
        self.base = base
        self.phase = nn.Parameter(torch.zeros(n_heads, d_model // n_heads))

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        t = at_least_float32(t)
        width = self.phase.shape[-1]
        feature = torch.arange(width, device=t.device, dtype=t.dtype)
        angle = t[:, None, :, None] * self.base ** (-feature / width)
        return _polar(q, angle), _polar(k, angle + self.phase[:, None].to(t.dtype))


def _polar(x: Tensor, angle: Tensor) -> Tensor:
    width = angle.shape[-1]
    magnitude = F.softplus(x[..., :width])
    points = torch.cat([magnitude * angle.cos(), magnitude * angle.sin()], dim=-1).to(x.dtype)
    return torch.cat([points, x[..., width:]], dim=-1)  # the rest was added by a part before
