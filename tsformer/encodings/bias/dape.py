"""`dape`: a bias of the distance that a network adapts to the scores."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._checks import check_known
from tsformer.encodings.base import NEGLIGIBLE, Extrapolation, PositionalEncoding, at_least_float32
from tsformer.encodings.bias.fire import FIRE
from tsformer.encodings.bias.kerple import Kerple

_STATIC: dict[str, type[PositionalEncoding]] = {"fire": FIRE, "kerple": Kerple}


class DAPE(PositionalEncoding, name="dape"):
    """Add to each score a bias of the distance and a network's correction of it.

    ``b + MLP([s, b])``, where `b` ``[H]`` are the biases of another encoding for a query and a key
    and ``s = q k / sqrt(E)`` ``[H]`` their scores. The network has one hidden layer with leaky
    ReLU; each block has its own network and encoding. With ``static="kerple"`` it is symmetric.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes.
    static : {"fire", "kerple"}, default="fire"
        The encoding whose bias is adapted, with its defaults.
    d_hidden : int, default=32
        Hidden width of the network.

    References
    ----------
    Zheng et al., "DAPE: Data-Adaptive Positional Encoding for Length Extrapolation", NeurIPS 2024.

    Examples
    --------
    >>> encoding = DAPE(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(3, 2, 5, 4)
    >>> encoding.bias(q, k, torch.arange(5.0)[None]).shape
    torch.Size([3, 2, 5, 5])
    """

    extrapolation: Extrapolation = "interpolates"
    per_block = True
    reference = "Zheng et al. 2024"

    def __init__(
        self, *, d_model: int, n_heads: int, max_len: int, static: str = "fire", d_hidden: int = 32
    ):
        super().__init__()
        check_known("static of dape", static, _STATIC)
        self.static = _STATIC[static](d_model=d_model, n_heads=n_heads, max_len=max_len)
        self.extrapolation, self.symmetric = self.static.extrapolation, self.static.symmetric
        self.hidden = nn.Linear(2 * n_heads, d_hidden)
        self.out = nn.Linear(d_hidden, n_heads)

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        static = self.static.bias(q, k, at_least_float32(t))
        assert static is not None
        scores = q @ k.mT * q.shape[-1] ** -0.5
        # Minus infinity would become NaN in the network.
        inputs = torch.cat([scores, static.clamp(min=NEGLIGIBLE).expand_as(scores)], dim=1)
        hidden = F.leaky_relu(self.hidden(inputs.permute(0, 2, 3, 1)))
        return static + self.out(hidden).permute(0, 3, 1, 2)
