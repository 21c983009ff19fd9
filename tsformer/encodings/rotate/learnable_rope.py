"""`learnable_rope`: rotary position embedding with trained frequencies."""

import torch
from torch import Tensor, nn

from tsformer.encodings.rotate.rope import RoPE


class LearnableRoPE(RoPE, name="learnable_rope"):
    """Rotate as `rope` does, with trained frequencies.

    Pair `k` of head `h` is rotated by ``t exp(w_hk)``. The logarithms `w` ``[H, R / 2]`` of the
    frequencies are trained in each block and start at the frequencies of `rope`. Multiplicative
    GRAPE (Zhang et al., arXiv 2512.07805, 2025) is the same up to a change of basis; L-RoPE trains
    the base of each block (Reinwardt et al., arXiv 2601.00698, 2026).

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `max_len` is unused here. ``d_model / n_heads`` must be at least 2.
    base : float, default=10000.0
        Sets the initial wavelengths, as in `rope`.
    fraction : float, default=1.0
        As in `rope`.

    References
    ----------
    Huang and Chen, "Optimizing the Learnable RoPE Theta Parameter in Transformers", IEEE Access,
    2025.

    Examples
    --------
    >>> encoding = LearnableRoPE(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(1, 2, 5, 4)
    >>> encoding.rotate(q, k, torch.arange(5.0)[None])[0].shape
    torch.Size([1, 2, 5, 4])
    """

    per_block = True
    reference = "Huang and Chen 2025"

    def _add_weights(self, n_heads: int) -> None:
        initial = super()._frequencies(torch.zeros(())).log()
        self.log_frequencies = nn.Parameter(initial.repeat(n_heads, 1))

    def _frequencies(self, t: Tensor) -> Tensor:
        return self.log_frequencies.to(t.dtype).exp()[:, None]
