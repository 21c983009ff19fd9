"""TransformerBlock: attention and a feed-forward network, each on a residual branch."""

from __future__ import annotations

from torch import Tensor, nn

from tsformer.encodings.base import Hooks
from tsformer.model.attention import SelfAttention
from tsformer.model.dropout import Dropout

__all__ = ["TransformerBlock"]


class TransformerBlock(nn.Module):
    """One batch-first transformer block.

    Pre-norm, ``x + f(norm(x))`` for attention and then for the feed-forward network, trains without
    tuning; post-norm, ``norm(x + f(x))``, is the original (Vaswani et al., 2017).
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float,
        norm_first: bool,
        causal: bool = False,
    ):
        super().__init__()
        self.norm_first = norm_first
        self.attention = SelfAttention(d_model, n_heads, causal)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(), Dropout(dropout), nn.Linear(d_ff, d_model)
        )
        self.norm_attention = nn.LayerNorm(d_model)
        self.norm_feed_forward = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, t: Tensor, encoding: Hooks, mask: Tensor | None = None) -> Tensor:
        """Map tokens `x` ``[B, N, D]`` at times `t` ``[1 | B, N]`` to ``[B, N, D]``.

        `mask` ``[B, N]`` is True for valid tokens; None if all are.
        """
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm_attention(x), t, encoding, mask))
            x = x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))
            return x
        x = self.norm_attention(x + self.dropout(self.attention(x, t, encoding, mask)))
        x = self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))
        return x
