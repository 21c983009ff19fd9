"""How a fitted estimator travels: to a folder, through pickle, to another device."""

from __future__ import annotations

import os
import warnings
from typing import Any

import torch
from sklearn.base import BaseEstimator

from tsformer.model import TSTransformer
from tsformer.training.plan import resolve_device

__all__ = ["Portable"]


class Portable(BaseEstimator):
    """Mixin: save, pickle, and place the model."""

    device: str | torch.device
    device_: torch.device
    models_: list[TSTransformer]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to the folder `path`; read it with `tsformer.load`.

        See `tsformer.persistence`.
        """
        from tsformer.persistence import save

        save(self, path)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the device behind: weights travel on the CPU, to be read where there is no GPU."""
        state = super().__getstate__()
        if "models_" in state and self.device_.type != "cpu":
            from copy import deepcopy

            state = {**state, "models_": [deepcopy(model).cpu() for model in self.models_]}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if hasattr(self, "models_"):
            self._place(self.device)

    def _place(self, device: str | torch.device) -> None:
        """Move the models to `device`, or with a warning to the CPU where there is none."""
        try:
            self.device_ = resolve_device(device)
        except ValueError as error:
            warnings.warn(f"{error}; the model is on the CPU now", stacklevel=3)
            self.device_ = torch.device("cpu")
        for model in self.models_:
            model.to(self.device_)
