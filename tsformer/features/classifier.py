"""ConvolutionClassifier: random convolutions and a ridge as one module."""

from __future__ import annotations

from torch import Tensor, nn

from tsformer.features.random_convolutions import RandomConvolutions
from tsformer.features.ridge import RidgeClassifier

__all__ = ["ConvolutionClassifier"]


class ConvolutionClassifier(nn.Module):
    """Features of random convolutions and the ridge classifier that reads them."""

    def __init__(self, n_features: int, n_groups: int):
        super().__init__()
        self.convolutions = RandomConvolutions(n_features, n_groups)
        self.ridge = RidgeClassifier()

    def check(self, n_channels: int, n_classes: int) -> None:
        """Raise ValueError if loaded tensors do not belong together, or to these sizes."""
        n_features = self.convolutions.check(n_channels)
        self.ridge.check(n_features, n_classes)

    def embed(
        self, values: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> Tensor:
        """Return the scaled features ``[B, F]`` of series ``[B, L, C]``, valid by `mask`."""
        features: Tensor = self.convolutions(values, mask, times)
        return features

    def forward(
        self, values: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> Tensor:
        """Return logits ``[B, K]``."""
        logits: Tensor = self.ridge(self.embed(values, mask, times))
        return logits
