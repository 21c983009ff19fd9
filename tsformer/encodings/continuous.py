"""Functions of continuous time added to the tokens: `fourier`, `time2vec`, `cape`.

`x` are tokens ``[B, N, D]``, `t` ``[1 | B, N]`` their times.
"""

from __future__ import annotations

from math import log, pi

import torch
from torch import Tensor, nn

from tsformer.encodings.absolute import sinusoid
from tsformer.encodings.base import PositionalEncoding

__all__ = ["CAPE", "FourierEncoding", "Time2Vec"]


def _precise(t: Tensor) -> Tensor:
    """At least float32: 16 bits tell no two times above 256 apart."""
    return t if t.dtype == torch.float64 else t.float()


class FourierEncoding(PositionalEncoding, name="fourier"):
    """Add a small network of trained Fourier features: ``x + MLP([cos(W t), sin(W t)] / sqrt(F))``.

    `W` ``[F]`` are `F` = `n_frequencies` angular frequencies, drawn from ``N(0, 1 / gamma^2)``:
    before the network the product of two codes is about ``exp(-(t_i - t_j)^2 / (2 gamma^2))``, so
    `gamma` is the distance, in tokens, over which codes stay alike. The network is linear, GELU,
    linear, with `F` x 2 inputs, `d_hidden` hidden units and `D` outputs.

    The paper is about positions in images; here a position has one coordinate, time.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` and `max_len` are unused here.
    n_frequencies : int, optional
        Number of frequencies `F`; by default ``D / 2``, at least 1.
    d_hidden : int, optional
        Hidden width of the network; `D` by default.
    gamma : float, default=10.0
        Scale of the frequencies, in tokens.
    trainable : bool, default=True
        Whether the frequencies are trained. False gives random Fourier features.

    Raises
    ------
    ValueError
        If `gamma` is not above zero.

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

    kind = "embed"
    beyond = "extends"
    symmetric = False
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
        if not gamma > 0:
            raise ValueError(f"gamma of fourier is a distance in tokens, above 0; got {gamma!r}")
        n_frequencies = max(d_model // 2, 1) if n_frequencies is None else n_frequencies
        d_hidden = d_model if d_hidden is None else d_hidden
        self.frequencies = nn.Parameter(torch.randn(n_frequencies) / gamma, requires_grad=trainable)
        self.mlp = nn.Sequential(
            nn.Linear(2 * n_frequencies, d_hidden), nn.GELU(), nn.Linear(d_hidden, d_model)
        )

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        angle = _precise(t)[..., None] * self.frequencies
        features = torch.cat([angle.cos(), angle.sin()], dim=-1) * len(self.frequencies) ** -0.5
        return x + self.mlp(features.to(x.dtype)).to(x.dtype)


class Time2Vec(PositionalEncoding, name="time2vec"):
    """Add one trained line and trained sines of time: ``x + [w_0 s + f_0, sin(w_k s + f_k)]``.

    ``s = t / L`` is the time as part of the trained length `L` = `max_len`, kept at predict;
    `w` and `f` ``[D]`` are trained, ``k = 1 .. D - 1``. In units of the whole series a step of the
    optimizer moves all of it by a like angle, however long it is.

    The paper leaves the start open: periods are drawn log-uniformly from two tokens to the trained
    length, phases uniformly; the line goes from -1/2 to 1/2. The paper appends the code
    to the features of a step; here it is added to the tokens, as other encodings are.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` is unused here.

    References
    ----------
    Kazemi et al., "Time2Vec: Learning a Vector Representation of Time", 2019.

    Examples
    --------
    >>> encoding = Time2Vec(d_model=4, n_heads=1, max_len=3)
    >>> encoding.embed(torch.zeros(2, 3, 4), torch.arange(3.0)[None])[:, :, 0]
    tensor([[-0.5000, -0.1667,  0.1667],
            [-0.5000, -0.1667,  0.1667]], grad_fn=<SelectBackward0>)
    """

    kind = "embed"
    beyond = "extends"
    symmetric = False
    reference = "Kazemi et al. 2019"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int):
        super().__init__()
        self.max_len = max_len
        period = 2.0 * max(max_len / 2, 1.0) ** torch.rand(d_model)
        weight, phase = 2 * pi * max_len / period, 2 * pi * torch.rand(d_model)
        weight[0], phase[0] = 1.0, -0.5
        self.weight = nn.Parameter(weight)
        self.phase = nn.Parameter(phase)

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        angle = (_precise(t) / self.max_len)[..., None] * self.weight + self.phase
        return x + torch.cat([angle[..., :1], angle[..., 1:].sin()], dim=-1).to(x.dtype)


class CAPE(PositionalEncoding, name="cape"):
    """Add the sinusoid of times that are shifted, jittered and stretched at random in training.

    ``x + PE(t')`` with ``t' = (t + shift + jitter) scale``: one `shift` and one `scale` a series,
    one `jitter` a token, drawn uniformly, and log-uniformly for `scale`, in each forward pass of
    training. At predict ``t' = t``, so that two predictions agree. The model then cannot rely on
    absolute times, only on their differences. Nothing is learned or stored.

    The paper also centres the positions of a text before the draw; here they start at zero as
    everywhere. Ranges are in tokens.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` is unused here.
    max_shift : float, optional
        Largest shift either way; a tenth of the trained length by default.
    max_jitter : float, default=0.5
        Largest jitter either way; up to 0.5 the order of the steps of a regular series is kept.
    max_scale : float, default=1.1
        Largest stretch; the smallest is its inverse. 1 for none.
    base : float, default=10000.0
        As in `fixed`.

    Raises
    ------
    ValueError
        If a range is negative, or `max_scale` below 1.

    References
    ----------
    Likhomanenko et al., "CAPE: Encoding Relative Positions with Continuous Augmented Positional
    Embeddings", NeurIPS 2021.

    Examples
    --------
    >>> encoding = CAPE(d_model=4, n_heads=1, max_len=3).eval()
    >>> encoding.embed(torch.zeros(1, 3, 4), torch.arange(3.0)[None])[0, 0]
    tensor([0., 1., 0., 1.])
    """

    kind = "embed"
    beyond = "extends"
    symmetric = False
    reference = "Likhomanenko et al. 2021"

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        max_shift: float | None = None,
        max_jitter: float = 0.5,
        max_scale: float = 1.1,
        base: float = 10000.0,
    ):
        super().__init__()
        max_shift = max_len / 10 if max_shift is None else max_shift
        for name, value, least in (
            ("max_shift", max_shift, 0),
            ("max_jitter", max_jitter, 0),
            ("max_scale", max_scale, 1),
        ):
            if not value >= least:
                raise ValueError(f"{name} of cape must be at least {least}; got {value!r}")
        self.d_model = d_model
        self.max_shift = max_shift
        self.max_jitter = max_jitter
        self.max_scale = max_scale
        self.base = base

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        if self.training:
            t = self.augmented(t.expand(x.shape[:2]))
        return x + sinusoid(t, self.d_model, base=self.base).to(x.dtype)

    def augmented(self, t: Tensor) -> Tensor:
        """Draw shifts, jitters and scales for the times `t` ``[B, N]`` of a training batch."""
        shift = self.max_shift * _uniform(t[:, :1])
        jitter = self.max_jitter * _uniform(t)
        scale = (log(self.max_scale) * _uniform(t[:, :1])).exp()
        return (t + shift + jitter) * scale


def _uniform(like: Tensor) -> Tensor:
    """Draw from -1 to 1."""
    return 2 * torch.rand_like(like) - 1
