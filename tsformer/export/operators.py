"""What ONNX has operators for, in place of what it has not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

__all__ = ["InOnnx"]


class InOnnx(TorchFunctionMode):
    """While a model is traced, put what ONNX has operators for in place of what it has not."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _IN_ONNX.get(func, func)(*args, **(kwargs or {}))


def _cummax(x: Tensor, dim: int) -> Any:
    """As `torch.cummax` along the last dimension: the maximum of each row of a lower triangle."""
    before = torch.ones(x.shape[dim], x.shape[dim], dtype=torch.bool).tril()
    return x.unsqueeze(-2).where(before, -torch.inf).max(dim=-1)


def _searchsorted(edges: Tensor, values: Tensor) -> Tensor:
    """As `torch.searchsorted` in edges ``[M]``: halving as often as so many edges need."""
    halvings = len(edges).bit_length()
    padded = nn.functional.pad(edges, (0, 2**halvings - 1 - len(edges)), value=torch.inf)
    place = torch.zeros_like(values, dtype=torch.long)
    for i in reversed(range(halvings)):
        place = place + 2**i * (padded[place + 2**i - 1] < values)
    return place


def _irfft(spectrum: Tensor, n: int, dim: int) -> Tensor:
    """As `torch.fft.irfft`, but of the whole spectrum: onnxruntime has no inverse of a half."""
    half = torch.view_as_real(spectrum)
    real, imaginary = half.narrow(dim - 1, 1, n - half.shape[dim - 1]).flip(dim - 1).unbind(-1)
    whole = torch.cat([half, torch.stack([real, -imaginary], dim=-1)], dim=dim - 1)
    return torch.fft.ifft(torch.view_as_complex(whole), dim=dim).real.float()


_IN_ONNX: dict[Any, Callable[..., Any]] = {
    Tensor.cummax: _cummax,
    torch.searchsorted: _searchsorted,
    # In float64: onnxruntime's own in float32 is off by 1e-5.
    torch.fft.rfft: lambda x, n, dim: torch.fft.rfft(x.double(), n=n, dim=dim),
    torch.fft.irfft: _irfft,
}
