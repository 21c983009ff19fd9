"""Scalers of dense features and of sparse counts, applied before the ridge."""

from __future__ import annotations

import torch
from torch import Tensor

from tsformer.features.learned import Learned

__all__ = ["SparseScaler", "StandardScaler"]


class StandardScaler(Learned):
    """``(x - mean) / std`` of each feature; a constant one becomes 0."""

    mean: Tensor
    std: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._empty(mean=torch.float, std=torch.float)

    def fit(self, features: Tensor) -> StandardScaler:
        """Learn from features ``[n, F]``."""
        std, mean = torch.std_mean(features, dim=0, correction=0)
        # The deviation of a constant is rounding error.
        constant = features.amax(dim=0) == features.amin(dim=0)
        self.mean, self.std = mean, std.where(~constant, 1.0)
        return self

    def check(self, n_features: int) -> None:
        """Raise ValueError if loaded tensors are not for this number; nothing is scaled by 0."""
        self._check_shapes(mean=(n_features,), std=(n_features,))
        if not bool((self.std > 0).all()):
            raise ValueError(f"std of {type(self).__name__} must be positive")

    def forward(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.std


class SparseScaler(StandardScaler):
    """Scale of sparse counts: ``(r - mean) / (std + z^4)``, and 0 where r is 0.

    ``r = sqrt(max(x, 0))``, and `z` is the share of training series in which it is 0: the rarer a
    count, the less it may weigh [1]_.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "Hydra: competing convolutional kernels for fast and
       accurate time series classification", DMKD 37, 2023. https://arxiv.org/abs/2203.13652
    """

    def fit(self, counts: Tensor) -> SparseScaler:
        """Learn from counts ``[n, F]``."""
        roots = counts.clamp(min=0).sqrt()
        std, self.mean = torch.std_mean(roots, dim=0, correction=0)
        self.std = std + (roots == 0).float().mean(dim=0) ** 4 + 1e-8
        return self

    def forward(self, counts: Tensor) -> Tensor:
        roots = counts.clamp(min=0).sqrt()
        return (roots != 0) * (roots - self.mean) / self.std
