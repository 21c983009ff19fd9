"""Functions of positions that several encodings share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def at_least_float32(t: Tensor) -> Tensor:
    """Cast 16-bit times to float32: bfloat16 cannot represent every integer above 256."""
    return t if t.dtype == torch.float64 else t.float()


def sinusoid(t: Tensor, d_model: int, *, base: float = 10000.0) -> Tensor:
    """Return ``PE[2k] = sin(t w_k)``, ``PE[2k+1] = cos(t w_k)`` with ``w_k = base^(-2k / D)``."""
    t = at_least_float32(t)
    k = torch.arange(0, d_model, 2, device=t.device, dtype=t.dtype)
    angle = t[..., None] * base ** (-k / d_model)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)[..., :d_model]


def interpolated_rows(table: Tensor, t: Tensor) -> Tensor:
    """Return the rows of a table of positions at real-valued times, interpolated linearly."""
    last = len(table) - 1
    end = t.amax(dim=-1, keepdim=True)
    t = (t * (last / end.clamp(min=max(last, 1)))).clamp(0, last)
    low = t.floor().long()
    high = (low + 1).clamp(max=last)
    # F.embedding, as the gradient of indexing is summed in no fixed order.
    return torch.lerp(
        F.embedding(low, table), F.embedding(high, table), (t - low)[..., None].to(table.dtype)
    )


#: Next to the weight of the query's own token, ``exp(-60)`` vanishes in float32.
NEGLIGIBLE = -60.0


def relative_times(t: Tensor) -> Tensor:
    """Return the times from queries to keys, ``t_j - t_i`` ``[1 | B, 1, N, N]``."""
    return t[:, None, None, :] - t[:, None, :, None]


def mask_negligible(bias: Tensor) -> Tensor:
    """Replace negligible biases by minus infinity; a bias must be zero at a distance of zero.

    Somewhat smaller weights would be denormal numbers, with which a CPU computes many times slower
    than with zeros.
    """
    return bias.masked_fill(bias < NEGLIGIBLE, float("-inf"))


def checked_max_distance(name: str, asked: int | None, default: int) -> int:
    """Return the clipping distance, or its default of at least 1."""
    if asked is not None and asked < 1:
        raise ValueError(f"max_distance of {name} must be at least 1 token; got {asked!r}")
    return max(default, 1) if asked is None else asked
