"""PretrainingTransformer: the model of a classifier with the head of an objective."""

from __future__ import annotations

from torch import Tensor, nn

from tsformer.model import ModelConfig, TSTransformer
from tsformer.objectives.base import Objective

__all__ = ["PretrainingTransformer"]


class PretrainingTransformer(TSTransformer):
    """A TSTransformer with the head of an objective.

    Stem, encoding, blocks and pooling have the names and shapes that they have in a
    `TSTransformer`; only the head is the objective's.

    Parameters
    ----------
    config : ModelConfig
        Hyperparameters; `n_outputs` comes from the objective.
    objective : Objective
        Makes the head and calls it.

    Examples
    --------
    >>> import torch
    >>> from tsformer.objectives import resolve
    >>> config = ModelConfig(n_channels=3, n_outputs=3, max_len=50, d_model=8, n_heads=2)
    >>> model = PretrainingTransformer(config, resolve("masked"))
    >>> model(torch.randn(8, 50, 3)).shape, model.embed(torch.randn(8, 50, 3)).shape
    (torch.Size([8, 50, 3]), torch.Size([8, 8]))
    """

    def __init__(self, config: ModelConfig, objective: Objective):
        self.objective = objective  # `_make_head` needs it; it is no module
        super().__init__(config)

    def _make_head(self, config: ModelConfig) -> nn.Module:
        return self.objective.make_head(config.d_model, config.n_outputs, self.stem.stride)

    def forward(  # type: ignore[override]  # an objective compares views, which have no weights
        self,
        x: Tensor,
        mask: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """Compute outputs for the arguments of `TSTransformer.forward`."""
        return self.objective.outputs(self, x, mask, times)

    def encode(self, x: Tensor, mask: Tensor | None = None, times: Tensor | None = None) -> Tensor:
        """Compute the embeddings of all tokens ``[B, N, D]``, before pooling."""
        tokens, mask, t = self.forward_stem(x, mask, times)
        return self.forward_features(tokens, mask, t)
