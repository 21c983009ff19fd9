"""`cape`: the sinusoid of times that are augmented in training."""

from math import log

import torch
from torch import Tensor

from tsformer._checks import check_number
from tsformer.encodings.base import PositionalEncoding, sinusoid


class CAPE(PositionalEncoding, name="cape"):
    """Add the sinusoid of times that are randomly shifted, jittered and stretched in training.

    ``x + PE(t')`` with ``t' = (t + shift + jitter) scale``: each forward pass in training draws one
    `shift` and one `scale` per series and one `jitter` per token, the scale log-uniformly and the
    others uniformly; at prediction time ``t' = t``. The model can rely on differences of times
    alone. Times start at zero, where the paper centres them. There are no parameters.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` is unused here.
    max_shift : float >= 0, optional
        Largest shift in either direction, in tokens; by default a tenth of the trained length.
    max_jitter : float >= 0, default=0.5
        Largest jitter in either direction, in tokens; up to 0.5, regular steps keep their order.
    max_scale : float >= 1, default=1.1
        Largest stretching factor; the smallest is its inverse, and 1 means none.
    base : float, default=10000.0
        As in `fixed`.

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
        check_number("max_shift of cape", max_shift, 0)
        check_number("max_jitter of cape", max_jitter, 0)
        check_number("max_scale of cape", max_scale, 1)
        self.d_model, self.base = d_model, base
        self.max_shift, self.max_jitter, self.max_scale = max_shift, max_jitter, max_scale

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        if self.training:
            t = self.augmented(t.expand(x.shape[:2]))
        return x + sinusoid(t, self.d_model, base=self.base).to(x.dtype)

    def augmented(self, t: Tensor) -> Tensor:
        """Return the times `t` ``[B, N]`` of a training batch, randomly augmented."""
        shift = self.max_shift * _uniform(t[:, :1])
        jitter = self.max_jitter * _uniform(t)
        scale = (log(self.max_scale) * _uniform(t[:, :1])).exp()
        return (t + shift + jitter) * scale


def _uniform(like: Tensor) -> Tensor:
    """Draw from the uniform distribution on [-1, 1), with the shape of a tensor."""
    return 2 * torch.rand_like(like) - 1
