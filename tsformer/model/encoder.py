"""The encoder shared by all models: a positional encoding, blocks and a final norm over tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from tsformer.encodings import EncodingSpec, EncodingStack
from tsformer.model.blocks import TransformerBlock
from tsformer.model.dropout import Dropout

__all__ = ["EncoderConfig", "TransformerEncoder"]


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Hyperparameters that all models share."""

    encoding: EncodingSpec = "lspe"
    encoding_params: dict[str, Any] = field(default_factory=dict)
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    d_ff: int | None = None
    dropout: float = 0.1
    norm_first: bool = True

    def __post_init__(self) -> None:
        if self.n_heads < 1 or self.d_model % self.n_heads:
            most = min(self.d_model, 1024)
            divisors = [h for h in range(1, most + 1) if self.d_model % h == 0]
            raise ValueError(
                f"n_heads must divide d_model; got n_heads={self.n_heads}, d_model={self.d_model}; "
                f"with this width n_heads may be one of {divisors}"
            )


class TransformerEncoder(nn.Module):
    """Base of the models, which add a stem and a head.

    A model calls `_add_blocks` first and `_add_encoding` last: with the same seed, models that
    differ only in their encoding share all other initial weights.
    """

    def _add_blocks(self, config: EncoderConfig, *, causal: bool = False) -> None:
        D = config.d_model
        d_ff = 2 * D if config.d_ff is None else config.d_ff
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            TransformerBlock(D, config.n_heads, d_ff, config.dropout, config.norm_first, causal)
            for _ in range(config.n_layers)
        )
        self.norm = nn.LayerNorm(D) if config.norm_first else nn.Identity()

    def _add_encoding(
        self, config: EncoderConfig, max_tokens: int, *, causal: bool = False
    ) -> None:
        self.max_tokens = max_tokens
        self.encoding = EncodingStack(
            config.encoding,
            n_layers=config.n_layers,
            d_model=config.d_model,
            n_heads=config.n_heads,
            max_len=max_tokens,
            causal=causal,
            **config.encoding_params,
        )

    def forward_features(self, tokens: Tensor, mask: Tensor | None, t: Tensor) -> Tensor:
        """Apply the encoding, the blocks and the final norm.

        Parameters
        ----------
        tokens : Tensor [B, N, D]
            Zero wherever `mask` is False.
        mask : Tensor [B, N] of bool, or None
            True for valid tokens; None if all are.
        t : Tensor [1 | B, N]
            Times of the tokens.

        Returns
        -------
        Tensor [B, N, D]
        """
        x: Tensor = self.dropout(self.encoding.embed(tokens, t, mask))
        for block, hooks in zip(self.blocks, self.encoding.one_pass(), strict=True):
            x = block(x, t, hooks, mask)
        x = self.norm(x)
        return x
