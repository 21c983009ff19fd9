"""`fourier`: trained Fourier features passed through a small network."""

import torch
from torch import Tensor, nn

from tsformer._checks import check_number
from tsformer.encodings.base import PositionalEncoding, at_least_float32


class FourierEncoding(PositionalEncoding, name="fourier"):
    """Add Fourier features passed through a network: ``x + MLP([cos(W t), sin(W t)] / sqrt(F))``.

    `W` ``[F]`` holds `F` = `n_frequencies` trained angular frequencies, initially drawn from
    ``N(0, 1 / gamma^2)``: before the network, the inner product of two codes is about
    ``exp(-(t_i - t_j)^2 / (2 gamma^2))``. The network is linear, GELU, linear, with ``2 F`` inputs,
    `d_hidden` hidden units and `D` outputs. The paper encodes positions in images.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` and `max_len` are unused here.
    n_frequencies : int, optional
        Number of frequencies `F`; by default ``D / 2``, at least 1.
    d_hidden : int, optional
        Hidden width of the network; `D` by default.
    gamma : float > 0, default=10.0
        Distance in tokens over which the initial codes stay similar.
    trainable : bool, default=True
        Whether the frequencies are trained; False gives random Fourier features.

    References
    ----------
    Li, Si, Li, Hsieh and Bengio, "Learnable Fourier Features for Multi-Dimensional Spatial
    Positional Encoding", NeurIPS 2021; Tancik et al., "Fourier Features Let Networks Learn High
    Frequency Functions in Low Dimensional Domains", NeurIPS 2020 (frequencies not trained).

    Examples
    --------
    >>> encoding = FourierEncoding(d_model=4, n_heads=1, max_len=3)
    >>> encoding.embed(torch.zeros(2, 3, 4), torch.arange(3.0)[None]).shape
    torch.Size([2, 3, 4])
    """

    reference = "Li et al. 2021"

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        n_frequencies: int | None = None,
        d_hidden: int | None = None,
        gamma: float = 10.0,
        trainable: bool = True,
    ):
        super().__init__()
        check_number("gamma of fourier", gamma, 0, excluded=True)
        n_frequencies = max(d_model // 2, 1) if n_frequencies is None else n_frequencies
        d_hidden = d_model if d_hidden is None else d_hidden
        self.frequencies = nn.Parameter(torch.randn(n_frequencies) / gamma, requires_grad=trainable)
        self.mlp = nn.Sequential(
            nn.Linear(2 * n_frequencies, d_hidden), nn.GELU(), nn.Linear(d_hidden, d_model)
        )

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        angle = at_least_float32(t)[..., None] * self.frequencies
        features = torch.cat([angle.cos(), angle.sin()], dim=-1) * len(self.frequencies) ** -0.5
        return x + self.mlp(features.to(x.dtype)).to(x.dtype)
