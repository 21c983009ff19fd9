"""Learned: a module whose buffers get their shapes in `fit`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn


class Learned(nn.Module):
    """A module with empty buffers; `fit` or `load_state_dict` sets their shapes."""

    def _empty(self, **dtypes: torch.dtype) -> None:
        """Register a buffer of each name and dtype, which `fit` or `load_state_dict` fills."""
        for name, dtype in dtypes.items():
            self.register_buffer(name, torch.empty(0, dtype=dtype))

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Tensor], prefix: str, *rest: Any
    ) -> None:
        for name, buffer in self._buffers.items():
            saved = state_dict.get(prefix + name)
            if saved is not None and buffer is not None:
                setattr(self, name, buffer.new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _check_shapes(self, **shapes: tuple[int, ...]) -> None:
        """Raise ValueError for the first buffer that does not have its shape."""
        for name, shape in shapes.items():
            found = tuple(getattr(self, name).shape)
            if found != shape:
                raise ValueError(
                    f"tensor {name!r} of {type(self).__name__} must be {shape}; it is {found}"
                )
