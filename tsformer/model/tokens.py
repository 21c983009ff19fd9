"""TokenTransformer: the same encodings and blocks as a causal model of token sequences."""

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._checks import check_number
from tsformer.model.transformer import EncoderConfig, TransformerEncoder


@dataclass(frozen=True, kw_only=True)
class TokenConfig(EncoderConfig):
    """Hyperparameters of a TokenTransformer, in addition to the fields of `EncoderConfig`.

    Parameters
    ----------
    vocab_size : int
        Number of tokens `V`; a token is an int from 0 to ``V - 1``.
    max_len : int
        Length of the longest training sequence, and the context of `generate`.
    tie_weights : bool, default=False
        Whether the output layer shares the embedding's weights.
    init_range : float, optional
        Draw the weights of the embedding and the output layer uniformly from ``[-init_range,
        init_range]``, with zero biases; 0.1 is customary. By default torch's own initialisation.
    """

    vocab_size: int
    max_len: int
    tie_weights: bool = False
    init_range: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number("vocab_size", self.vocab_size, 1, whole=True)
        check_number("max_len", self.max_len, 1, whole=True)


class TokenTransformer(TransformerEncoder):
    """A causal stack of transformer blocks that predicts each next token.

    The embedding is scaled by ``sqrt(D)``. With the same seed, models that differ only in their
    encoding share all other initial weights. No token sees a later token; beyond `max_len`,
    encodings that interpolate (`learnable`, `tupe`, `fire`) rescale to the whole length.

    Parameters
    ----------
    vocab_size : int
        Number of tokens `V`.
    **options
        The other fields of `TokenConfig`; `max_len` is required.

    Examples
    --------
    >>> model = TokenTransformer(50, max_len=20, encoding="rope")
    >>> model(torch.zeros(3, 20, dtype=torch.long)).shape
    torch.Size([3, 20, 50])
    """

    def __init__(self, vocab_size: int, **options: Any):
        super().__init__()
        config = self.config = TokenConfig(vocab_size=vocab_size, **options)
        D = config.d_model
        self.embedding = nn.Embedding(vocab_size, D)
        self._add_blocks(config, causal=True)
        self.output = nn.Linear(D, vocab_size)
        if config.init_range is not None:
            for weight in (self.embedding.weight, self.output.weight):
                nn.init.uniform_(weight, -config.init_range, config.init_range)
            nn.init.zeros_(self.output.bias)
        if config.tie_weights:
            self.output.weight = self.embedding.weight
        self._add_encoding(config, config.max_len, causal=True)

    def forward(
        self, tokens: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> Tensor:
        """Compute the logits ``[B, L, V]`` of each token's successor.

        Parameters
        ----------
        tokens : Tensor [B, L] of int
            Sequences.
        mask : Tensor [B, L] of bool, optional
            True for valid tokens, False at padding, which comes last. All are valid by default.
        times : Tensor [B, L] or [1, L], optional
            Times of the tokens, not decreasing; ``0, 1, 2, ...`` by default.
        """
        if tokens.ndim != 2:
            raise ValueError(f"tokens must be [B, L]; got {list(tokens.shape)}")
        if times is None:
            times = torch.arange(tokens.shape[1], device=tokens.device, dtype=torch.float32)[None]
        x = self.embedding(tokens) * self.config.d_model**0.5
        if mask is not None:
            x = x * mask[..., None]
        return self.output(self.forward_features(x, mask, times))

    @torch.no_grad()
    def generate(
        self,
        prompt: Tensor,
        n: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Continue sequences token by token, with a context of `max_len` tokens.

        Parameters
        ----------
        prompt : Tensor [B, L] or [L] of int
            At least one token each.
        n : int
            Number of tokens to add.
        temperature : float, default=1.0
            Divisor of the logits; 0 takes the most likely token.
        top_k : int, optional
            Draw only from this many most likely tokens.
        generator : torch.Generator, optional
            Generator of the draws; by default a new one, seeded by the operating system.

        Returns
        -------
        Tensor [B, L + n] or [L + n]
        """
        if prompt.shape[-1] == 0:
            raise ValueError("the prompt is empty; give at least one token")
        if not temperature >= 0:
            raise ValueError(f"temperature must be 0 or more; got {temperature!r}")
        check_number("top_k", top_k, 1, whole=True, also=(None,))
        if generator is None:
            generator = torch.Generator(prompt.device)
            generator.seed()
        was_training = self.training
        self.eval()
        tokens: Tensor = torch.atleast_2d(prompt)
        for _ in range(n):
            logits = self(tokens[:, -self.config.max_len :])[:, -1]
            if temperature == 0:
                new = logits.argmax(-1, keepdim=True)
            else:
                if top_k is not None:
                    least = logits.topk(min(top_k, logits.shape[-1])).values[:, -1:]
                    logits = logits.masked_fill(logits < least, float("-inf"))
                chances = F.softmax(logits / temperature, dim=-1)
                new = torch.multinomial(chances, 1, generator=generator)
            tokens = torch.cat([tokens, new], dim=1)
        self.train(was_training)
        return tokens if prompt.ndim == 2 else tokens[0]
