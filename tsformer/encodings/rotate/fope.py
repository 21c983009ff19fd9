"""`fope`: rotary position embedding with a Fourier series per pair of features."""

from math import pi

import torch
from torch import Tensor, nn

from tsformer.encodings.base import without_autocast
from tsformer.encodings.rotate.rope import RoPE


class FoPE(RoPE, name="fope"):
    """Rotate as `rope` does, with a sum of all frequencies in place of a single one.

    Pair `k` of each head is multiplied by ``cos(w_k t) + sum_m a_mk cos(w_m t)`` in place of
    ``cos(w_k t)``, and likewise for the sine with weights `b`; `a` and `b` ``[H, M, M]`` are
    trained. Pairs outside the `M` frequencies, at least one, that complete a period within the
    trained length are not rotated. An inner product depends on both times, not on their difference
    alone.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes. ``d_model / n_heads`` must be at least 2.
    base : float, optional
        Sets the wavelengths, as in `rope`. By default `max_len / (2 pi)`, at least 2, so that every
        frequency is used; 10000 in the paper, for texts.
    fraction : float, default=1.0
        As in `rope`.
    init_std : float, default=0.3
        Standard deviation of the initial weights, times ``sqrt(M)``.

    References
    ----------
    Hua et al., "Fourier Position Embedding: Enhancing Attention's Periodic Extension for Length
    Generalization", ICML 2025.

    Examples
    --------
    >>> encoding = FoPE(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(1, 2, 5, 4)
    >>> encoding.rotate(q, k, torch.arange(5.0)[None])[0].shape
    torch.Size([1, 2, 5, 4])
    """

    reference = "Hua et al. 2025"

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        base: float | None = None,
        fraction: float = 1.0,
        init_std: float = 0.3,
    ):
        base = max(max_len / (2 * pi), 2.0) if base is None else base
        super().__init__(
            d_model=d_model, n_heads=n_heads, max_len=max_len, base=base, fraction=fraction
        )
        pairs = range(self.rotated // 2)
        whole = [k for k in pairs if base ** (-2 * k / self.rotated) * max_len >= 2 * pi]
        n_whole = max(len(whole), 1)
        draws = torch.randn(2, n_heads, n_whole, n_whole)
        self.weights = nn.Parameter(draws * init_std * n_whole**-0.5)

    def _cos_sin(self, t: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = super()._cos_sin(t)
        n_whole = self.weights.shape[-1]
        with without_autocast(t.device):
            series = [
                waves[..., :n_whole] + waves[..., :n_whole] @ weight.to(waves.dtype)
                for waves, weight in zip((cos, sin), self.weights, strict=True)
            ]
        still = cos.new_zeros(*series[0].shape[:-1], cos.shape[-1] - n_whole)
        return torch.cat([series[0], still + 1], dim=-1), torch.cat([series[1], still], dim=-1)
