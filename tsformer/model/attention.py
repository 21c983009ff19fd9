"""Multi-head self-attention, which calls the hooks of the encoding."""

from __future__ import annotations

from torch import Tensor, nn

from tsformer.encodings.base import Hooks
from tsformer.model.functional import attend, visible_keys

__all__ = ["SelfAttention"]


class SelfAttention(nn.Module):
    """Attend from every token to every valid token, on the fused kernel.

    Attention weights get no dropout: on the fused kernel that is impossible, and plain arithmetic
    is several times slower. The residual branch has dropout instead.
    """

    def __init__(self, d_model: int, n_heads: int, causal: bool = False):
        super().__init__()
        self.causal = causal
        self.n_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, t: Tensor, encoding: Hooks, mask: Tensor | None = None) -> Tensor:
        """Map `x` ``[B, N, D]`` at times `t` ``[1 | B, N]`` to ``[B, N, D]``.

        `mask` ``[B, N]`` is True for valid tokens and False at padding; None if all are valid.
        """
        B, N, D = x.shape
        q, k, v, bias, scale = self._encoded(x, t, encoding)
        out = attend(q, k, v, bias, mask, scale, causal=self.causal)
        mixed = encoding.mix(v if mask is None else v * mask[:, None, :, None], t)
        if mixed is not None:
            out = out + mixed
        y: Tensor = self.out(out.transpose(1, 2).reshape(B, N, D))
        return y

    def weights(self, x: Tensor, t: Tensor, encoding: Hooks, mask: Tensor | None = None) -> Tensor:
        """Compute the attention weights of `forward`, which the fused kernel does not return.

        Same arguments as `forward`. The output of the hook `mix` is not included.

        Returns
        -------
        Tensor [B, H, N, N]
            How much each token (row) attends to each token (column). Rows sum to 1.
        """
        q, k, _, bias, scale = self._encoded(x, t, encoding)
        scores = q @ k.mT * scale
        if bias is not None:
            scores = scores + bias
        visible = visible_keys(mask, x.shape[1], x.device, causal=self.causal)
        if visible is not None:
            scores = scores.masked_fill(~visible, float("-inf"))
        return scores.softmax(dim=-1)

    def _encoded(
        self, x: Tensor, t: Tensor, encoding: Hooks
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None, float]:
        """Return queries, keys, values, the bias and the scale of the scores."""
        B, N, D = x.shape
        E = D // self.n_heads
        q, k, v = self.qkv(x).view(B, N, 3, self.n_heads, E).permute(2, 0, 3, 1, 4)
        bias = encoding.bias(q, k, t)  # before the rotation, which may widen q and k
        q, k = encoding.rotate(q, k, t)
        return q, k, v, bias, E**-0.5  # E, not the width after a rotation
