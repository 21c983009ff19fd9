"""`conv`: a depthwise convolution of the tokens."""

import torch.nn.functional as F
from torch import Tensor, nn

from tsformer.encodings.base import PositionalEncoding


class ConvEncoding(PositionalEncoding, name="conv"):
    """Add a trained depthwise convolution of the tokens: ``x + DepthwiseConv_k(x)``.

    The conditional positional encoding: each feature of a token gets a constant and a weighted sum
    of that feature over the `k` tokens around it. Zero padding tells the ends from the middle;
    tokens more than ``k // 2`` apart are not ordered. It counts tokens, and does not see
    real-valued times. The paper convolves images, after the first block.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `n_heads` and `max_len` are unused here.
    kernel_size : int, default=9
        Width `k` of the convolution in tokens; must be odd, which preserves the length.
    causal : bool, default=False
        Whether the sum is over a token and the ``k - 1`` before it.

    References
    ----------
    Chu et al., "Conditional Positional Encodings for Vision Transformers", ICLR 2023 (CPVT).

    Examples
    --------
    >>> import torch
    >>> encoding = ConvEncoding(d_model=8, n_heads=2, max_len=5)
    >>> encoding.embed(torch.randn(2, 5, 8), torch.arange(5.0)[None]).shape
    torch.Size([2, 5, 8])
    """

    reference = "Chu et al. 2023"

    def __init__(
        self,
        *,
        d_model: int,
        n_heads: int,
        max_len: int,
        kernel_size: int = 9,
        causal: bool = False,
    ):
        super().__init__()
        if kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"kernel_size of conv must be odd; got {kernel_size!r}")
        self.causal = causal
        self.conv = nn.Conv1d(d_model, d_model, kernel_size, groups=d_model)

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        reach = self.conv.kernel_size[0] - 1
        margins = (reach, 0) if self.causal else (reach // 2, reach // 2)
        return x + self.conv(F.pad(x.transpose(1, 2), margins)).transpose(1, 2)
