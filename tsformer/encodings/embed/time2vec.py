"""`time2vec`: a trained line and trained sines of time."""

from math import pi

import torch
from torch import Tensor, nn

from tsformer.encodings.base import PositionalEncoding, at_least_float32


class Time2Vec(PositionalEncoding, name="time2vec"):
    """Add a trained line and trained sines of time: ``x + [w_0 s + f_0, sin(w_k s + f_k)]``.

    ``s = t / L`` is the time relative to the trained length `L` = `max_len`, also at prediction
    time; `w` and `f` ``[D]`` are trained, ``k = 1 .. D - 1``. Initial periods are log-uniform from
    two tokens to the trained length, phases uniform, and the line goes from -1/2 to 1/2. The paper
    concatenates the code to the features of a step.

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
    >>> encoding.embed(torch.zeros(1, 3, 4), torch.arange(3.0)[None])[0, :, 0].detach()
    tensor([-0.5000, -0.1667,  0.1667])
    """

    reference = "Kazemi et al. 2019"

    def __init__(self, *, d_model: int, n_heads: int, max_len: int):
        super().__init__()
        self.max_len = max_len
        period = 2.0 * max(max_len / 2, 1.0) ** torch.rand(d_model)
        weight, phase = 2 * pi * max_len / period, 2 * pi * torch.rand(d_model)
        weight[0], phase[0] = 1.0, -0.5
        self.weight, self.phase = nn.Parameter(weight), nn.Parameter(phase)

    def embed(self, x: Tensor, t: Tensor) -> Tensor:
        angle = (at_least_float32(t) / self.max_len)[..., None] * self.weight + self.phase
        return x + torch.cat([angle[..., :1], angle[..., 1:].sin()], dim=-1).to(x.dtype)
