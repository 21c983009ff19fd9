"""`cape`: the sinusoid of augmented times."""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

from tsformer.encodings.base import PositionalEncoding
from tsformer.encodings.functional import sinusoid

__all__ = ["CAPE"]


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

    extrapolation = "extends"
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
