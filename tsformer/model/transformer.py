"""TSTransformer: stem, encoding, blocks, pooling and head, from one dataclass."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tsformer.model.pooling import make_pooling
from tsformer.model.stack import StackConfig, TransformerStack
from tsformer.model.stems import make_stem

__all__ = ["ModelConfig", "TSTransformer"]


@dataclass(frozen=True, kw_only=True)
class ModelConfig(StackConfig):
    """Everything that fixes the shape of a TSTransformer, beside the fields of `StackConfig`.

    Parameters
    ----------
    n_channels, n_outputs, max_len : int
        Channels `C`, logits `K`, steps of the longest training series.
    stem : {"conv", "linear", "patch", "embedding"}, default="conv"
        From values to tokens.
    stem_params : dict
        Its options.
    pooling : {"mean", "attention", "max"}, default="mean"
        From tokens to one vector.
    """

    n_channels: int
    n_outputs: int
    max_len: int
    stem: str = "conv"
    stem_params: dict[str, Any] = field(default_factory=dict)
    pooling: str = "mean"


class TSTransformer(TransformerStack):
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
        self.stem = make_stem(
            config.stem, config.n_channels, D, config.max_len, **config.stem_params
        )
        self._add_blocks(config)
        self.pooling = make_pooling(config.pooling, D)
        self.head = nn.Linear(D, config.n_outputs)
        self._add_encoding(config, self.stem.n_tokens(config.max_len))

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
        return self.pool(*self.tokenize(x, keep, times))

    def tokenize(
        self, x: Tensor, keep: Tensor | None = None, times: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Turn values into tokens ``[B, N, D]``, with their keep and times; as in `forward`.

        Here alone do the series of a batch meet, in the stem's batch norms: what follows, `pool`
        and the head, may be run on parts of the batch.
        """
        if times is None:
            times = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[None]
        if keep is not None:
            x = x.where(keep[..., None], 0.0)
        x, keep, t = self.stem(x, keep, times)
        if keep is not None:
            t = _hold_last(t, keep)
            x = x * keep[..., None]
        return x, keep, t

    def pool(self, tokens: Tensor, keep: Tensor | None, t: Tensor) -> Tensor:
        """Relate what `tokenize` returns and pool it to ``[B, D]``."""
        return self.pooling(self.relate(tokens, t, keep), keep)


def _hold_last(t: Tensor, keep: Tensor) -> Tensor:
    """Let tokens that are not there repeat the last time before them that is.

    So the end of a series is ``t.amax()`` whatever its padding; those before the first token take
    its time.
    """
    seen = t.masked_fill(~keep, float("-inf")).cummax(dim=1).values
    first = t.masked_fill(~keep, float("inf")).amin(dim=1, keepdim=True)
    return seen.maximum(first)
