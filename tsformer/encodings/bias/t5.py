"""`t5`: trained values of buckets of the distance."""

from math import log

import torch
from torch import Tensor, nn

from tsformer._checks import check_number
from tsformer.encodings.base import PositionalEncoding, relative_times


class T5(PositionalEncoding, name="t5"):
    """Add to each score a trained value for the bucket of the distance and the head.

    ``b_h[bucket(t_j - t_i)]``. Half of the buckets are for later and half for earlier keys. On each
    side the first ``m / 2`` of `m` buckets hold one whole distance each. The last ``m / 2`` buckets
    widen logarithmically up to `max_distance`, and the last bucket is open-ended. Distances are
    rounded towards zero. All blocks share one table ``[2 m - 1, H]``, without the authors' unused
    bucket.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `d_model` is unused here.
    n_buckets : int, default=32
        Number of buckets, twice `m`: even and at least 4.
    max_distance : int >= 1, optional
        Start of the last bucket; by default 128 as in the paper, or `max_len - 1` if smaller.
    init_std : float, default=0.02
        Standard deviation of the initial values.

    References
    ----------
    Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
    Transformer", JMLR 21, 2020.

    Examples
    --------
    >>> encoding = T5(d_model=8, n_heads=2, max_len=200)
    >>> encoding.bucket(torch.tensor([-3.0, -2.5, 0.0, 1.0, 20.0, 127.0, 1000.0]))
    tensor([ 3,  2,  0, 16, 25, 30, 30])
    """

    bias_of_times = True
    extrapolation = "clamps"
    reference = "Raffel et al. 2020"

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        n_buckets: int = 32,
        max_distance: int | None = None,
        init_std: float = 0.02,
    ):
        super().__init__()
        if n_buckets < 4 or n_buckets % 2:
            raise ValueError(f"n_buckets of t5 must be even and at least 4; got {n_buckets!r}")
        self.n_side = n_buckets // 2
        check_number("max_distance of t5", max_distance, 1, whole=True, also=(None,))
        self.max_distance = max_distance or max(min(128, max_len - 1), 1)
        self.table = nn.Parameter(init_std * torch.randn(2 * self.n_side - 1, n_heads))

    def bucket(self, gap: Tensor) -> Tensor:
        """Return the index of the bucket of each gap ``t_j - t_i``, from 0 to ``2 m - 2``."""
        distance = gap.abs().floor().clamp(max=self.max_distance)
        n_exact = self.n_side // 2
        n_wide = self.n_side - n_exact
        # Clamped before the logarithm: that of zero, minus infinity, has no integer value.
        log_ratio = (distance.clamp(min=n_exact) / n_exact).log()
        reach = log(max(self.max_distance, n_exact + 1) / n_exact)
        wide = (n_exact + (log_ratio / reach * n_wide).floor()).clamp(max=self.n_side - 1)
        side = distance.where(distance < n_exact, wide)
        return (side + (self.n_side - 1) * ((gap > 0) & (side > 0))).long()

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        bucket = self.bucket(relative_times(t))[:, 0]
        # Head by head, so that the kernel reads memory contiguously.
        values = self.table.transpose(0, 1).index_select(1, bucket.flatten())
        return values.unflatten(1, bucket.shape).transpose(0, 1).to(q.dtype)
