"""`rope`: rotary position embedding."""

import torch
from torch import Tensor

from tsformer.encodings.base import PositionalEncoding, at_least_float32


class RoPE(PositionalEncoding, name="rope"):
    """Rotate pairs of query and key features by an angle that grows with time.

    Features ``(2k, 2k + 1)`` of every head are rotated by ``t base^(-2k / R)``, where `R` is the
    rotated part of the head width `E`. Inner products depend on the times through `t_i - t_j`
    alone. It has no parameters and is defined for any length. Pairs are interleaved, as in the
    paper; some language models have the layout ``(k, k + E / 2)``.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `max_len` is unused here. ``d_model / n_heads`` must be at least 2.
    base : float, default=10000.0
        Sets the wavelengths, as in `fixed`.
    fraction : float, default=1.0
        Fraction of the head width that is rotated, in (0, 1]; whole pairs, and at least one.

    References
    ----------
    Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.

    Examples
    --------
    >>> encoding = RoPE(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(1, 2, 5, 4)
    >>> encoding.rotate(q, k, torch.arange(5.0)[None])[0].shape
    torch.Size([1, 2, 5, 4])
    """

    reference = "Su et al. 2021"

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        base: float = 10000.0,
        fraction: float = 1.0,
    ):
        super().__init__()
        width = d_model // n_heads
        if width < 2:
            raise ValueError(
                f"{self.registered_name} rotates pairs of features, but a head is {width} wide "
                f"(d_model={d_model}, n_heads={n_heads}); use at most {d_model // 2} heads"
            )
        if not 0 < fraction <= 1:
            raise ValueError(
                f"fraction of {self.registered_name} must be in (0, 1]; got {fraction!r}"
            )
        self.rotated = max(int(fraction * width) // 2, 1) * 2
        self.base = base
        self._add_weights(n_heads)

    def _add_weights(self, n_heads: int) -> None:
        """Create the trained frequencies of a subclass."""

    def rotate(self, q: Tensor, k: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = self._cos_sin(t)
        return self._turn(q, cos, sin), self._turn(k, cos, sin)

    def _cos_sin(self, t: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine of the angles, ``[1 | B, 1 | H, N, R / 2]``, at least float32."""
        t = at_least_float32(t)
        angle = t[:, None, :, None] * self._frequencies(t)
        return angle.cos(), angle.sin()

    def _frequencies(self, t: Tensor) -> Tensor:
        """Return radians per unit of time, one per pair."""
        pair = torch.arange(0, self.rotated, 2, device=t.device, dtype=t.dtype)
        return self.base ** (-pair / self.rotated)

    def _turn(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        turned, rest = x[..., : self.rotated], x[..., self.rotated :]
        even, odd = turned[..., 0::2], turned[..., 1::2]
        pairs = torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1)
        return torch.cat([pairs.flatten(-2).to(x.dtype), rest], dim=-1)
