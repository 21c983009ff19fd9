"""`fire`: a trained function of the distance relative to the length of the series."""

from math import log

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer.encodings.base import PositionalEncoding, relative_times, without_autocast


class FIRE(PositionalEncoding, name="fire"):
    """Add to each score a small network of the distance relative to the length of the series.

    ``MLP(u, sign(t_j - t_i))`` with ``u = psi(abs(t_j - t_i)) / psi(max(L, T))``, ``psi(x) = log(1
    + c x)``, where `T` is the time from the first to the last step of the series, and `c` and `L`
    are trained and above zero: past the threshold `L`, distances are relative to the length. The
    network has one hidden layer with ReLU and one output per head; all blocks share it.

    The paper's model is causal and divides by the query's position in place of `T`. The sign is our
    addition: without it (``signed=False``) the encoding is symmetric.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes; `d_model` is unused here. Initially `L` is `max_len - 1`.
    d_hidden : int, default=32
        Hidden width of the network.
    signed : bool, default=True
        Whether the network also sees which of the two tokens is later.

    References
    ----------
    Li et al., "Functional Interpolation for Relative Positions Improves Long Context Transformers",
    ICLR 2024.

    Examples
    --------
    >>> encoding = FIRE(d_model=8, n_heads=2, max_len=5)
    >>> q = torch.zeros(1, 2, 5, 4)
    >>> encoding.bias(q, q, torch.arange(5.0)[None]).shape
    torch.Size([1, 2, 5, 5])
    """

    bias_of_times = True
    extrapolation = "interpolates"
    reference = "Li et al. 2024"

    def __init__(
        self, *, d_model: int, n_heads: int, max_len: int, d_hidden: int = 32, signed: bool = True
    ):
        super().__init__()
        self.signed, self.symmetric = signed, not signed
        self.log_c = nn.Parameter(torch.tensor(log(0.1)))
        self.log_threshold = nn.Parameter(torch.tensor(log(max(max_len - 1, 1))))
        self.hidden = nn.Linear(2 if signed else 1, d_hidden)
        self.out = nn.Linear(d_hidden, n_heads)

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        gap = relative_times(t)[:, 0]
        length = (t.amax(dim=1) - t[:, 0])[:, None, None]
        c = self.log_c.exp()
        longest = torch.maximum(self.log_threshold.exp(), length)
        u = (c * gap.abs()).log1p() / (c * longest).log1p()
        weight, offset = self.hidden.weight, self.hidden.bias[None]
        case = torch.zeros_like(gap, dtype=torch.long)
        if self.signed:
            sign = torch.arange(-1.0, 2.0, device=t.device)[:, None]
            case, offset = gap.sign().long() + 1, offset + sign * weight[:, 1]
        with without_autocast(t.device):  # slope and height may cancel
            return relu_network(u, case, weight[:, 0], offset, self.out).to(q.dtype)


def relu_network(u: Tensor, case: Tensor, weight: Tensor, offset: Tensor, out: nn.Linear) -> Tensor:
    """Compute ``out(relu(weight u + offset[case]))`` for numbers `u` from 0 to 1, by segments.

    The network is piecewise linear, with knots where a hidden unit turns on or off. Evaluating the
    line of each number's segment gives the same values and gradients at a fraction ``1 / F`` of the
    memory. `u` and `case` are ``[B, N, N]``, `weight` ``[F]``, `offset` a row ``[F]`` for each
    case; the result is ``[B, H, N, N]``.
    """
    n_cases = len(offset)
    knots = (-offset / weight).detach().nan_to_num(0.0).clamp(0, 1).sort(dim=1).values
    # Padded, since a tensor made of numbers would be copied to a GPU, which waits for it.
    bounds = F.pad(F.pad(knots, (1, 0), value=0.0), (0, 1), value=1.0)
    inside = (bounds[:, :-1] + bounds[:, 1:]) / 2  # a point in each of F + 1 segments
    active = inside[..., None] * weight.detach() + offset[:, None] > 0
    # One search for all cases: the knots of case s are shifted to [2 s, 2 s + 1].
    shift = 2.0 * torch.arange(n_cases, device=u.device)
    all_knots = (knots + shift[:, None]).flatten()
    segment = torch.searchsorted(all_knots, u + 2.0 * case) + case
    slope = (active * weight) @ out.weight.transpose(0, 1)
    height = (active * offset[:, None]) @ out.weight.transpose(0, 1) + out.bias
    lines = torch.stack([slope, height]).flatten(1, 2).mT  # [2, H, S (F + 1)]
    slope, height = lines.index_select(2, segment.flatten()).unflatten(2, u.shape)
    return torch.addcmul(height, slope, u).transpose(0, 1)
