"""TSTransformer: stem, encoding, blocks, pooling and head, from one dataclass."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import torch
from torch import Tensor, nn

from tsformer._checks import check_known, real, whole
from tsformer.encodings import EncodingSpec, EncodingStack
from tsformer.encodings.base import Hooks
from tsformer.model.layers import HEAD_NORMS, PooledBatchNorm, attend, visible_keys
from tsformer.model.stems import make_stem

#: A mask compares 16 random bits per value, four values to a draw, with the rate in these units.
_LEVELS = 2**16


class Dropout(nn.Dropout):
    """`torch.nn.Dropout`; on a CPU the rate is rounded to a multiple of 2^-16.

    There torch samples a random number per value, an eighth of the default model's training step;
    64 bits for four values take a quarter of that time.

    Examples
    --------
    >>> _ = torch.manual_seed(0)
    >>> Dropout(0.5)(torch.ones(6))
    tensor([0., 0., 2., 2., 0., 0.])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map a tensor to one of the same shape and type."""
        if not self.training or x.device.type != "cpu":
            return super().forward(x)
        dropped = round(self.p * _LEVELS)
        if dropped in (0, _LEVELS):
            return super().forward(x)
        draws = torch.randint(-(2**63), 2**63 - 1, (-(-x.numel() // 4),), dtype=torch.int64)
        bits = draws.view(torch.int16)[: x.numel()].view(x.shape)
        # Clamping integers to [0, 1] takes an eighth of the time of comparing them.
        kept = bits.float().sub_(dropped - _LEVELS // 2 - 1).clamp_(0, 1)
        return x * kept.mul_(_LEVELS / (_LEVELS - dropped)).to(x.dtype)


class SelfAttention(nn.Module):
    """Attend from every token to every valid token, on the fused kernel.

    Attention weights get no dropout, which the fused kernel excludes; the residual branch has it.
    """

    def __init__(self, d_model: int, n_heads: int, causal: bool = False):
        super().__init__()
        self.causal, self.n_heads = causal, n_heads
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
        return self.out(out.transpose(1, 2).reshape(B, N, D))

    def weights(self, x: Tensor, t: Tensor, encoding: Hooks, mask: Tensor | None = None) -> Tensor:
        """Compute the attention weights ``[B, H, N, N]`` of `forward`, without the hook `mix`.

        A row holds the weights of one token's attention to all tokens; rows sum to 1.
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


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """Hyperparameters that all models share."""

    encoding: EncodingSpec = "lspe"
    encoding_params: dict[str, Any] = field(default_factory=dict)
    d_model: Annotated[int, whole(1)] = 64
    n_heads: Annotated[int, whole(1)] = 4
    n_layers: Annotated[int, whole(0)] = 2
    d_ff: Annotated[int | None, whole(1, None)] = None
    dropout: Annotated[float, real(0, 1, also=(0,))] = 0.1
    norm_first: bool = True

    def __post_init__(self) -> None:
        if self.n_heads < 1 or self.d_model % self.n_heads:
            raise ValueError(f"n_heads={self.n_heads} must divide d_model={self.d_model}")


class TransformerBlock(nn.Module):
    """One batch-first transformer block.

    Pre-norm, ``x + f(norm(x))`` for attention and then for the feed-forward network, trains without
    tuning; post-norm, ``norm(x + f(x))``, is the original (Vaswani et al., 2017).
    """

    def __init__(self, config: EncoderConfig, *, causal: bool = False):
        super().__init__()
        D = config.d_model
        d_ff = 2 * D if config.d_ff is None else config.d_ff
        self.norm_first = config.norm_first
        self.attention = SelfAttention(D, config.n_heads, causal)
        self.feed_forward = nn.Sequential(
            nn.Linear(D, d_ff), nn.GELU(), Dropout(config.dropout), nn.Linear(d_ff, D)
        )
        self.norm_attention = nn.LayerNorm(D)
        self.norm_feed_forward = nn.LayerNorm(D)
        self.dropout = Dropout(config.dropout)

    def forward(self, x: Tensor, t: Tensor, encoding: Hooks, mask: Tensor | None = None) -> Tensor:
        """Map tokens as `SelfAttention.forward` does."""
        if self.norm_first:
            x = x + self.dropout(self.attention(self.norm_attention(x), t, encoding, mask))
            return x + self.dropout(self.feed_forward(self.norm_feed_forward(x)))
        x = self.norm_attention(x + self.dropout(self.attention(x, t, encoding, mask)))
        return self.norm_feed_forward(x + self.dropout(self.feed_forward(x)))


class TransformerEncoder(nn.Module):
    """Base of the models, which add a stem and a head.

    A model calls `_add_blocks` first and `_add_encoding` last: with the same seed, models that
    differ only in their encoding share all other initial weights.
    """

    def _add_blocks(self, config: EncoderConfig, *, causal: bool = False) -> None:
        self.dropout = Dropout(config.dropout)
        blocks = (TransformerBlock(config, causal=causal) for _ in range(config.n_layers))
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(config.d_model) if config.norm_first else nn.Identity()

    def _add_encoding(self, config: EncoderConfig, max_tokens: int, causal: bool = False) -> None:
        self.max_tokens = max_tokens
        self.encoding = EncodingStack(
            config.encoding,
            n_layers=config.n_layers,
            d_model=config.d_model,
            n_heads=config.n_heads,
            max_len=max_tokens,
            decoder=causal,
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
        """
        x: Tensor = self.dropout(self.encoding.embed(tokens, t, mask))
        for block, hooks in zip(self.blocks, self.encoding.one_pass(), strict=True):
            x = block(x, t, hooks, mask)
        return self.norm(x)


class MeanPooling(nn.Module):
    """The mean over the valid tokens."""

    def __init__(self, d_model: int):
        super().__init__()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, N, D]`` to ``[B, D]``; `mask` ``[B, N]`` is True for valid tokens."""
        if mask is None:
            return x.mean(dim=1)
        weight = mask[..., None].to(x.dtype)
        return (x * weight).sum(dim=1) / weight.sum(dim=1)

    def shares(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the contribution of each token, ``[B, N]``; rows sum to 1."""
        valid = torch.ones_like(x[..., 0]) if mask is None else mask.to(x.dtype)
        return valid / valid.sum(dim=1, keepdim=True)


class MaxPooling(nn.Module):
    """The maximum of each feature over the valid tokens."""

    def __init__(self, d_model: int):
        super().__init__()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, N, D]`` to ``[B, D]``; `mask` ``[B, N]`` is True for valid tokens."""
        return self._valid(x, mask).amax(dim=1)

    def shares(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the share of features with their maximum at each token, ``[B, N]``."""
        holder = self._valid(x, mask).argmax(dim=1)
        return nn.functional.one_hot(holder, x.shape[1]).to(x.dtype).mean(dim=1)

    def _valid(self, x: Tensor, mask: Tensor | None) -> Tensor:
        return x if mask is None else x.masked_fill(~mask[..., None], float("-inf"))


class AttentionPooling(nn.Module):
    """A mean weighted by a learned score of each token, initially zero: ``softmax(x w) x``."""

    def __init__(self, d_model: int):
        super().__init__()
        self.score = nn.Linear(d_model, 1)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.score.bias)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map ``[B, N, D]`` to ``[B, D]``; `mask` ``[B, N]`` is True for valid tokens."""
        return torch.sum(self.shares(x, mask)[..., None] * x, dim=1)

    def shares(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the weight of each token, ``[B, N]``; rows sum to 1."""
        score = self.score(x)
        if mask is not None:
            score = score.masked_fill(~mask[..., None], float("-inf"))
        return score.softmax(dim=1)[..., 0]


POOLINGS = {"mean": MeanPooling, "attention": AttentionPooling, "max": MaxPooling}


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

    n_channels: Annotated[int, whole(1)]
    n_outputs: Annotated[int, whole(1)]
    max_len: Annotated[int, whole(1)]
    stem: str = "conv"
    stem_params: dict[str, Any] = field(default_factory=dict)
    pooling: str = "mean"
    head_norm: str | None = None


class TSTransformer(TransformerEncoder):
    """A stack of transformer blocks over the tokens of a series, with pooling and a head.

    With the same seed, models that differ only in their encoding share all other initial weights.

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
        check_known("pooling", config.pooling, POOLINGS)
        self.pooling = POOLINGS[config.pooling](D)
        self.head_norm = None
        if config.head_norm is not None:
            check_known("head_norm", config.head_norm, HEAD_NORMS)
            self.head_norm = HEAD_NORMS[config.head_norm](D)
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
        """Compute logits ``[B, K]``.

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
        """
        return self.forward_head(self.embed(x, mask, times), weights)

    def embed(self, x: Tensor, mask: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """Compute the pooled embedding ``[B, D]``, the input of `forward_head`."""
        tokens, mask, t = self.forward_stem(x, mask, times)
        return self.pooling(self.forward_features(tokens, mask, t), mask)

    def forward_stem(
        self, x: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Map values to tokens, with the tokens' mask and times; arguments as in `forward`.

        Series of a batch interact only in batch norms, here and in `forward_head`.

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
            # Masked tokens repeat the latest valid time, or the first valid time before it.
            latest = t.masked_fill(~mask, float("-inf")).cummax(dim=1).values
            t = latest.maximum(t.masked_fill(~mask, float("inf")).amin(dim=1, keepdim=True))
            x = x * mask[..., None]
        return x, mask, t

    def forward_head(self, pooled: Tensor, weights: Tensor | None = None) -> Tensor:
        """Map pooled embeddings ``[B, D]`` to logits ``[B, K]`` by a norm and a linear layer.

        With ``head_norm="batch"`` each feature is standardised: over the batch in training,
        weighted by `weights` ``[B]``, and by running averages afterwards. Otherwise weight decay
        favours the features of the widest spread.
        """
        if isinstance(self.head_norm, PooledBatchNorm):
            pooled = self.head_norm(pooled, weights)
        elif self.head_norm is not None:
            pooled = self.head_norm(pooled)
        return self.head(pooled)
