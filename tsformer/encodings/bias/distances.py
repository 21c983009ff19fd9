"""Distances between tokens, as biases use them.

`i` indexes queries, `j` indexes keys.
"""

from __future__ import annotations

from torch import Tensor

__all__ = ["NEGLIGIBLE", "checked_max_distance", "mask_negligible", "relative_times"]

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
