"""Replacements for torch functions that cannot be traced, or have no ONNX operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class Traced(TorchFunctionMode):
    """While a model is traced, replaces functions that cannot be."""

    replaced: ClassVar[dict[Any, Callable[..., Any]]]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.replaced.get(func, func)(*args, **(kwargs or {}))


class InOnnx(Traced):
    """While a model is traced, replaces functions that have no ONNX operator."""


def _cummax(x: Tensor, dim: int) -> Any:
    """`torch.cummax` along the last dimension, as row maxima of a lower triangle."""
    before = torch.ones(x.shape[dim], x.shape[dim], dtype=torch.bool).tril()
    return x.unsqueeze(-2).where(before, -torch.inf).max(dim=-1)


def _where(x: Tensor, condition: Tensor, other: Any) -> Tensor:
    """`Tensor.where`; onnxruntime lacks it for bools."""
    if x.dtype == torch.bool:
        return (condition & x) | (~condition & other)
    return x.where(condition, other)


def _searchsorted(edges: Tensor, values: Tensor) -> Tensor:
    """`torch.searchsorted` for edges ``[M]``, as a bisection with a fixed number of steps."""
    halvings = len(edges).bit_length()
    padded = nn.functional.pad(edges, (0, 2**halvings - 1 - len(edges)), value=torch.inf)
    place = torch.zeros_like(values, dtype=torch.long)
    for i in reversed(range(halvings)):
        place = place + 2**i * (padded[place + 2**i - 1] < values)
    return place


def _irfft(spectrum: Tensor, n: int, dim: int) -> Tensor:
    """`torch.fft.irfft` from the full spectrum: onnxruntime cannot invert a half spectrum."""
    half = torch.view_as_real(spectrum)
    real, imaginary = half.narrow(dim - 1, 1, n - half.shape[dim - 1]).flip(dim - 1).unbind(-1)
    whole = torch.cat([half, torch.stack([real, -imaginary], dim=-1)], dim=dim - 1)
    inverse: Tensor = torch.fft.ifft(torch.view_as_complex(whole), dim=dim).real
    return inverse.float()


def _unfold(x: Tensor, dim: int, size: Any, step: int) -> Tensor:
    """`Tensor.unfold`, whose `size` torch does not trace, as a stack of slices."""
    if isinstance(size, int):
        return x.unfold(dim, size, step)
    n_windows = (x.shape[dim] - size) // step + 1
    windows = [x.narrow(dim, i * step, size).movedim(dim, -1) for i in range(n_windows)]
    return torch.stack(windows, dim=dim % x.ndim)


Traced.replaced = {Tensor.unfold: _unfold}
InOnnx.replaced = {
    Tensor.where: _where,
    Tensor.cummax: _cummax,
    torch.searchsorted: _searchsorted,
    # In float64: the float32 version of onnxruntime is off by 1e-5.
    torch.fft.rfft: lambda x, n, dim: torch.fft.rfft(x.double(), n=n, dim=dim),
    torch.fft.irfft: _irfft,
}
