"""`cope`: trained vectors of a distance that counts only some tokens."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tsformer.encodings.base import at_least_float32
from tsformer.encodings.bias.shaw import Shaw


class CoPE(Shaw, name="cope"):
    """Add to each score the query's product with a trained vector of a gated distance.

    ``q_i . a[p_ij] / sqrt(E)`` with `a` ``[2 K + 1, E]``, one table per block. The position `p_ij`
    is the integral from `t_i` to `t_j` of the gates ``g_ik = sigmoid(q_i . k_k / sqrt(E))``, linear
    between tokens, clipped at `-K` and `K`. Vectors are interpolated between whole positions.

    The paper's model is causal and sums the gates from key to query, both included: at regular
    times this integral plus half of the gates at its ends. Positions of later keys are positive.

    Parameters
    ----------
    d_model, n_heads, max_len : int
        Sizes.
    max_distance : int >= 1, optional
        The clipping distance `K`; by default 64, or `max_len - 1` if that is smaller.
    init_std : float, default=0.02
        Standard deviation of the initial vectors; zero in the paper's code.

    References
    ----------
    Golovneva, Wang, Weston and Sukhbaatar, "Contextual Position Encoding: Learning to Count What's
    Important", 2024.

    Examples
    --------
    >>> encoding = CoPE(d_model=8, n_heads=2, max_len=5)
    >>> q = k = torch.randn(3, 2, 5, 4)
    >>> encoding.bias(q, k, torch.arange(5.0)[None]).shape
    torch.Size([3, 2, 5, 5])
    """

    reference = "Golovneva et al. 2024"
    usual_distance = 64

    def bias(self, q: Tensor, k: Tensor, t: Tensor) -> Tensor:
        scale = self.table.shape[1] ** -0.5
        gates = at_least_float32(q @ k.mT * scale).sigmoid()
        steps = at_least_float32(t).diff()[:, None, None]
        counted = F.pad(((gates[..., 1:] + gates[..., :-1]) / 2 * steps).cumsum(dim=-1), (1, 0))
        position = counted - counted.diagonal(dim1=-2, dim2=-1)[..., None]
        row = position.clamp(-self.max_distance, self.max_distance) + self.max_distance
        low = row.detach().long().clamp(0, 2 * self.max_distance - 1)  # also of NaN
        products = q @ self.table.to(q.dtype).transpose(0, 1) * scale
        share = (row - low).to(q.dtype)
        return torch.lerp(products.gather(-1, low), products.gather(-1, low + 1), share)
