"""`gaussian`: a Gaussian window of trained width."""

import torch
from torch import Tensor, nn

from tsformer.encodings.base import PositionalEncoding, mask_negligible, relative_times


class GaussianBias(PositionalEncoding, name="gaussian"):
    """Subtract from each score the squared distance: ``-(t_j - t_i)^2 / (2 s_h^2)``.

    This multiplies the attention weights by a Gaussian window around the query. The widths `s`
    ``[H]``, in tokens, are trained as logarithms and start geometrically spaced, from half the
    trained length for the first head to two tokens for the last. The encoding is symmetric.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `d_model` is unused here.
    trainable : bool, default=True
        Whether the widths are trained. False allows PyTorch's fused attention kernels.

    References
    ----------
    Guo, Zhang and Liu, "Gaussian Transformer: A Lightweight Approach for Natural Language
    Inference", AAAI 2019.

    Examples
    --------
    >>> encoding = GaussianBias(d_model=8, n_heads=1, max_len=8)
    >>> q = torch.zeros(1, 1, 3, 8)
    >>> encoding.bias(q, q, torch.arange(3.0)[None])[0, 0, 0].detach() * 32
    tensor([-0., -1., -4.])
    """

    bias_of_times = True
    symmetric = True
    reference = "Guo et al. 2019"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int, trainable: bool = True):
        super().__init__()
        widest, narrowest = max(max_len / 2, 2.0), 2.0
        share = torch.arange(n_heads) / max(n_heads - 1, 1)
        start = (narrowest / widest) ** share * widest
        self.log_width = nn.Parameter(start.log(), requires_grad=trainable)

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        width = self.log_width.exp()[:, None, None]
        return mask_negligible((relative_times(t) / width) ** 2 / -2).to(q.dtype)
