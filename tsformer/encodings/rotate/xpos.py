"""`xpos`: rotary position embedding with exponential scaling."""

import torch
from torch import Tensor

from tsformer._checks import check_number
from tsformer.encodings.rotate.rope import RoPE


class XPos(RoPE, name="xpos"):
    """Rotate as `rope` does, and scale each pair by how much later the query is than the key.

    In addition to the rotation, pair `k` of a query at `t_i` is multiplied by ``z_k^(t_i / s)`` and
    pair `k` of a key at `t_j` by ``z_k^(-t_j / s)`` with ``z_k = (2 k / R + gamma) / (1 + gamma)``.
    Its term of the inner product is scaled by ``z_k^((t_i - t_j) / s)``: pairs of higher frequency
    decay faster.

    The paper's model is causal, and the factor only decays; towards later keys it grows. So `s` is
    the trained length by default, where the paper uses 512 for texts of 1,024 tokens, and times are
    counted from the middle of the series, which changes no inner product.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes. ``d_model / n_heads`` must be at least 2.
    base : float, default=10000.0
        As in `rope`.
    fraction : float, default=1.0
        As in `rope`.
    gamma : float > 0, default=0.4
        The larger, the slower all pairs decay.
    scale_base : float > 0, optional
        The distance `s` in tokens; `max_len` by default.

    References
    ----------
    Sun et al., "A Length-Extrapolatable Transformer", ACL 2023.

    Examples
    --------
    >>> encoding = XPos(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(1, 2, 5, 4)
    >>> encoding.rotate(q, k, torch.arange(5.0)[None])[0].shape
    torch.Size([1, 2, 5, 4])
    """

    reference = "Sun et al. 2023"

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        base: float = 10000.0,
        fraction: float = 1.0,
        gamma: float = 0.4,
        scale_base: float | None = None,
    ):
        super().__init__(
            d_model=d_model, n_heads=n_heads, max_len=max_len, base=base, fraction=fraction
        )
        scale_base = float(max_len) if scale_base is None else scale_base
        for name, value in (("gamma", gamma), ("scale_base", scale_base)):
            check_number(f"{name} of xpos", value, 0, excluded=True)
        self.gamma, self.scale_base = gamma, scale_base

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self._cos_sin(t)
        middle = (t[:, :1] + t.amax(dim=1, keepdim=True)) / 2  # the same with and without padding
        after = ((t - middle) / self.scale_base).to(cos.dtype)[:, None, :, None]
        pair = torch.arange(0, self.rotated, 2, device=t.device, dtype=cos.dtype)
        scale = ((pair / self.rotated + self.gamma) / (1 + self.gamma)) ** after
        return self._turn(q, cos * scale, sin * scale), self._turn(k, cos / scale, sin / scale)
