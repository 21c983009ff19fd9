"""Dilated convolutions with many kernels of length 9, as matrix products.

Shape letters: `B` series, `L` time steps, `C` channels, `G` groups of kernels that share their
channels, `M` kernels of a group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import log2
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


KERNEL_LENGTH = 9
#: The largest dilation of a loaded model: that of series of eight million steps.
LONGEST = 2**20
_HALF = KERNEL_LENGTH // 2
#: Steps per block: responses to 250 kernels fit into 1 MiB of cache, or 1 GiB of a device.
STEPS, _STEPS_ELSEWHERE = {"cpu": 2**10}, 2**17


def responses(x: Tensor, kernels: Tensor, dilation: int) -> Tensor:
    """Convolve series with kernels whose weights sum to zero, padded with zeros to their length.

    ``out[b, g M + m, t] = sum_j kernels[g, m, j] (x[b, g, t + (j - 4) d] - x[b, g, t])``, with
    `x` zero outside the series. As weights sum to zero, subtracting the centre changes nothing,
    except that a constant window gives exactly 0, and not a rounding error whose sign decides
    which side of a threshold it is on. `x` ``[B, G, L]`` is the sum of the channels of each group,
    `kernels` are ``[G, M, 9]``, and the responses ``[B, G * M, L]``.
    """
    return torch.cat([part for _, part in response_blocks(x, kernels, dilation)], dim=-1)


def response_blocks(x: Tensor, kernels: Tensor, dilation: int) -> Iterator[tuple[slice, Tensor]]:
    """Yield blocks of steps and their `responses`, so that memory stays bounded."""
    n_series = x.shape[0]  # len() would fix it in an exported program
    reach = _HALF * dilation
    padded = torch.nn.functional.pad(x, (reach, reach))
    each = kernels.expand(n_series, -1, -1, -1).flatten(0, 1)
    for steps in _blocks(x):
        n_steps = steps.stop - steps.start
        block = padded[..., steps.start : steps.stop + 2 * reach]
        windows = block.unfold(-1, n_steps, dilation)  # [B, G, 9, S]
        windows = (windows - x[:, :, None, steps]).flatten(0, 1)
        yield steps, torch.bmm(each, windows).view(n_series, -1, n_steps)


def _blocks(x: Tensor) -> Sequence[slice]:
    """Return blocks of steps of `x` whose responses fit into a cache."""
    n_series, _, length = x.shape
    if torch.compiler.is_compiling():
        # `range` would fix the length of an exported program's series.
        return [slice(0, length)]
    size = max(STEPS.get(x.device.type, _STEPS_ELSEWHERE) // n_series, 1)
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def largest_dilation(length: int) -> float:
    """Return the dilation at which a kernel spans a series of `length` steps, at least 1."""
    return max((length - 1) / (KERNEL_LENGTH - 1), 1.0)


def draw_channels(n_groups: int, n_channels: int, generator: torch.Generator) -> Tensor:
    """Draw the channels of each group of kernels, Tensor ``[G, C]`` of zeros and ones."""
    if n_channels == 1:
        return torch.ones(1, 1)
    exponents = torch.rand(n_groups, generator=generator) * log2(min(n_channels, 9) + 1)
    sizes = exponents.exp2().floor().clamp(1, min(n_channels, 9))
    order = torch.rand(n_groups, n_channels, generator=generator).argsort(dim=1).argsort(dim=1)
    return (order < sizes[:, None]).float()


def differences(x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Return first differences ``x_t - x_{t-1}`` of ``[B, C, L]``, and where both are valid.

    One step fewer than `x` has; a series of one step has a single one, zero and not valid.
    """
    if x.shape[-1] == 1:
        return torch.zeros_like(x), torch.zeros(len(x), 1, dtype=torch.bool, device=x.device)
    apart = x.diff(dim=-1)
    if mask is None:
        return apart, None
    both = mask[:, 1:] & mask[:, :-1]
    return apart.where(both[:, None], 0.0), both
