"""Encodings as a user would write them."""

import torch
from torch import nn

from tsformer.encodings import PositionalEncoding


def define(name: str | None, **options) -> type[PositionalEncoding]:
    """Return a new encoding that adds its `size` times the time to every feature."""

    class Ramp(PositionalEncoding, name=name, **options):
        """Add a straight line.

        More text, which the table leaves out.
        """

        reference = "nobody"

        def __init__(self, *, d_model, n_heads, max_len, size=1.0):
            super().__init__()
            self.size = nn.Parameter(torch.tensor(float(size)))

        def embed(self, x, t):
            return x + self.size * t[..., None] / 10

    return Ramp
