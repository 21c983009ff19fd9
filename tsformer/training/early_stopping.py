"""Early stopping by the validation loss."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

__all__ = ["EarlyStopping"]


@dataclass
class EarlyStopping:
    """Track the epoch of the lowest validation loss; stop after `patience` further epochs.

    Examples
    --------
    >>> stopping = EarlyStopping(patience=2)
    >>> for epoch, loss in enumerate([0.9, 0.5, 0.6, 0.7], start=1):
    ...     stopping.update(epoch, loss, {})
    >>> stopping.best_epoch, stopping.should_stop(epoch=3), stopping.should_stop(epoch=4)
    (2, False, True)
    """

    patience: int | None
    start: int = 0
    best_loss: float = math.inf
    best_epoch: int | None = None
    best_weights: dict[str, Tensor] | None = None

    def update(self, epoch: int, loss: float, weights: dict[str, Tensor]) -> None:
        """Record the validation loss and the weights of an epoch; ignore NaN."""
        if self.patience is not None and loss < self.best_loss:
            self.best_loss, self.best_epoch, self.best_weights = loss, epoch, weights

    def should_stop(self, epoch: int) -> bool:
        """Whether `patience` epochs have passed since the best epoch or the start."""
        if self.patience is None or epoch == self.best_epoch:
            return False
        since = self.start if self.best_epoch is None else self.best_epoch
        return epoch - since >= self.patience
