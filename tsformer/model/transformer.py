"""TSTransformer: stem, encoding, blocks, pooling and head, from one dataclass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tsformer.model.encoder import EncoderConfig, TransformerEncoder
from tsformer.model.norms import HEAD_NORMS, PooledBatchNorm, make_norm
from tsformer.model.pooling import make_pooling
from tsformer.model.stems import make_stem

__all__ = ["ModelConfig", "TSTransformer"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(EncoderConfig):
    """Hyperparameters of a TSTransformer, in addition to the fields of `EncoderConfig`.

    Parameters
    ----------
    n_channels, n_outputs, max_len : int
        Channels `C`, logits `K`, length of the longest training series.
    stem : {"conv", "linear", "patch", "embedding"}, default="conv"
        Maps values to tokens.
    stem_params : dict
        Its options.
    pooling : {"mean", "attention", "max"}, default="mean"
        Maps tokens to one vector.
    head_norm : {"batch", "layer", None}, default=None
        Norm of that vector before the linear head.
    """

    n_channels: int
    n_outputs: int
    max_len: int
    stem: str = "conv"
    stem_params: dict[str, Any] = field(default_factory=dict)
    pooling: str = "mean"
    head_norm: str | None = None


class TSTransformer(TransformerEncoder):
    """A stack of transformer blocks over the tokens of a series, with pooling and a head.

    Weights are drawn from torch's global generator, the encoding's last: with the same seed, models
    that differ only in their encoding share all other initial weights.

    Parameters
    ----------
    config : ModelConfig
        Hyperparameters.

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
        self.stem = make_stem(
            config.stem, config.n_channels, D, config.max_len, **config.stem_params
        )
        self._add_blocks(config)
        self.pooling = make_pooling(config.pooling, D)
        self.head_norm = (
            None if config.head_norm is None else make_norm(config.head_norm, D, HEAD_NORMS)
        )
        self.head = self._make_head(config)
        self._add_encoding(config, self.stem.n_tokens(config.max_len))

    def _make_head(self, config: ModelConfig) -> nn.Module:
        return nn.Linear(config.d_model, config.n_outputs)

    def forward(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        times: Tensor | None = None,
        *,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Compute logits.

        Parameters
        ----------
        x : Tensor [B, L, C]
            Values; ignored where `mask` is False.
        mask : Tensor [B, L] of bool, optional
            True for valid steps; every series needs at least one. All are valid by default.
        times : Tensor [B, L] or [1, L], optional
            Times of the steps, not decreasing, in units of one regular step; ``0, 1, 2, ...`` by
            default.
        weights : Tensor [B], optional
            Weights of the series in the statistics of ``head_norm="batch"``, in training.

        Returns
        -------
        Tensor [B, K]
        """
        return self.forward_head(self.embed(x, mask, times), weights)

    def embed(
        self,
        x: Tensor,
        mask: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """Compute the pooled embedding ``[B, D]``, the input of `forward_head`."""
        tokens, mask, t = self.forward_stem(x, mask, times)
        return self.pool(self.forward_features(tokens, mask, t), mask)

    def forward_stem(
        self, x: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Map values to tokens, with the tokens' mask and times; arguments as in `forward`.

        Series of a batch interact only in batch norms, here and in `forward_head`:
        `forward_features` and `pool` can run on parts of the batch.

        Returns
        -------
        tokens : Tensor [B, N, D]
            Zero wherever the mask is False.
        mask : Tensor [B, N] of bool, or None
            True for valid tokens; None if all are.
        t : Tensor [1 | B, N]
            Times of the tokens.
        """
        if times is None:
            times = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[None]
        if mask is not None:
            x = x.where(mask[..., None], 0.0)
        x, mask, t = self.stem(x, mask, times)
        if mask is not None:
            t = _hold_last(t, mask)
            x = x * mask[..., None]
        return x, mask, t

    def pool(self, tokens: Tensor, mask: Tensor | None) -> Tensor:
        """Pool the tokens ``[B, N, D]`` that `forward_features` returns to ``[B, D]``.

        `mask` ``[B, N]`` is True for valid tokens; None if all are.
        """
        pooled: Tensor = self.pooling(tokens, mask)
        return pooled

    def forward_head(self, pooled: Tensor, weights: Tensor | None = None) -> Tensor:
        """Map pooled embeddings ``[B, D]`` to logits ``[B, K]`` by a norm and a linear layer.

        With ``head_norm="batch"`` each feature is standardised: over the batch in training,
        weighted by `weights` ``[B]``, and by running averages afterwards. Without it, features
        after mean pooling differ in spread, and weight decay favours the widest.
        """
        if isinstance(self.head_norm, PooledBatchNorm):
            pooled = self.head_norm(pooled, weights)
        elif self.head_norm is not None:
            pooled = self.head_norm(pooled)
        logits: Tensor = self.head(pooled)
        return logits


def _hold_last(t: Tensor, mask: Tensor) -> Tensor:
    """Fill the times of masked tokens with the previous, or first, valid time."""
    latest = t.masked_fill(~mask, float("-inf")).cummax(dim=1).values
    first = t.masked_fill(~mask, float("inf")).amin(dim=1, keepdim=True)
    return latest.maximum(first)
