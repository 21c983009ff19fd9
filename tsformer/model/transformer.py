"""TSTransformer: stem, encoding, blocks, pooling and head, from one dataclass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tsformer.encodings import EncodingSpec, EncodingStack
from tsformer.model.blocks import TransformerBlock
from tsformer.model.pooling import make_pooling
from tsformer.model.stems import make_stem

__all__ = ["ModelConfig", "TSTransformer"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Everything that fixes the shape of a TSTransformer.

    Parameters
    ----------
    n_channels, n_outputs, max_len : int
        Channels `C`, logits `K`, steps of the longest training series.
    encoding : str, PositionalEncoding subclass or factory, default="lspe"
        As `tsformer.encodings.resolve` takes it.
    encoding_params : dict
        Its options.
    stem : {"conv", "linear", "patch", "embedding"}, default="conv"
        From values to tokens.
    stem_params : dict
        Its options.
    d_model, n_heads, n_layers : int
        Width `D`, heads `H`, blocks.
    d_ff : int, optional
        Hidden width of the feed-forward networks; twice `d_model` by default.
    dropout : float
        On the encoded tokens and the residual branches.
    norm_first : bool, default=True
        Pre-norm blocks; False for post-norm, as in the original.
    pooling : {"mean", "attention", "max"}, default="mean"
        From tokens to one vector.
    """

    n_channels: int
    n_outputs: int
    max_len: int
    encoding: EncodingSpec = "lspe"
    encoding_params: dict[str, Any] = field(default_factory=dict)
    stem: str = "conv"
    stem_params: dict[str, Any] = field(default_factory=dict)
    d_model: int = 64
    n_heads: int = 4
    n_layers: int = 2
    d_ff: int | None = None
    dropout: float = 0.1
    norm_first: bool = True
    pooling: str = "mean"

    def __post_init__(self) -> None:
        if self.d_model % self.n_heads:
            divisors = [h for h in range(1, self.d_model + 1) if self.d_model % h == 0]
            raise ValueError(
                f"n_heads must divide d_model; got n_heads={self.n_heads}, d_model={self.d_model}; "
                f"with this width n_heads may be one of {divisors}"
            )


class TSTransformer(nn.Module):
    """A stack of transformer blocks over the tokens of a time series, with mean pooling.

    Weights are drawn from torch's global generator, those of the encoding last: under one seed,
    models that differ only in their encoding start from the same weights everywhere else.

    Parameters
    ----------
    config : ModelConfig
        The shape.

    Examples
    --------
    >>> model = TSTransformer(ModelConfig(n_channels=3, n_outputs=4, max_len=50, encoding="rope"))
    >>> model(torch.randn(8, 50, 3)).shape
    torch.Size([8, 4])
    """

    def __init__(self, config: ModelConfig):
        super().__init__()
        self.config = config
        D = config.d_model
        d_ff = 2 * D if config.d_ff is None else config.d_ff
        self.stem = make_stem(
            config.stem, config.n_channels, D, config.max_len, **config.stem_params
        )
        self.max_tokens = self.stem.n_tokens(config.max_len)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            TransformerBlock(D, config.n_heads, d_ff, config.dropout, config.norm_first)
            for _ in range(config.n_layers)
        )
        self.norm = nn.LayerNorm(D) if config.norm_first else nn.Identity()
        self.pooling = make_pooling(config.pooling, D)
        self.head = nn.Linear(D, config.n_outputs)
        self.encoding = EncodingStack(
            config.encoding,
            n_layers=config.n_layers,
            d_model=D,
            n_heads=config.n_heads,
            max_len=self.max_tokens,
            **config.encoding_params,
        )

    def forward(self, x: Tensor, keep: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """Compute logits.

        Parameters
        ----------
        x : Tensor [B, L, C]
            Values; what stands where `keep` is False is ignored.
        keep : Tensor [B, L] of bool, optional
            True where a step is there; every series needs one. All by default.
        times : Tensor [B, L] or [1, L], optional
            Times of the steps, not decreasing, in units of one regular step; ``0, 1, 2, ...`` by
            default.

        Returns
        -------
        Tensor [B, K]
        """
        return self.head(self.embed(x, keep, times))

    def embed(self, x: Tensor, keep: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """Compute the pooled embedding ``[B, D]``, the head's input; arguments as in `forward`."""
        if times is None:
            times = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[None]
        if keep is not None:
            x = x.where(keep[..., None], 0.0)
        x, keep, t = self.stem(x, keep, times)
        if keep is not None:
            t = _hold_last(t, keep)
            x = x * keep[..., None]
        x = self.dropout(self.encoding.embed(x, t, keep))
        for block, hooks in zip(self.blocks, self.encoding.one_pass(), strict=True):
            x = block(x, t, hooks, keep)
        return self.pooling(self.norm(x), keep)


def _hold_last(t: Tensor, keep: Tensor) -> Tensor:
    """Let padded tokens repeat the last time of their series, so that its end is ``t.amax()``."""
    last = t.masked_fill(~keep, float("-inf")).amax(dim=1, keepdim=True)
    return t.where(keep, last)
