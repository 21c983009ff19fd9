"""Functions of time that encodings behind different hooks share."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["at_least_float32", "interpolated_rows", "sinusoid"]


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
