"""Random convolutions in few operators: all dilations at once, where `features` takes one by one.

Shape letters: `B` series, `L` time steps, `C` channels, `D` dilations, `G` groups of kernels that
share their channels, `M` kernels of a group, `F` features.
"""

from typing import Any

import torch
from torch import Tensor, nn

from tsformer.features import Hydra, MiniRocket
from tsformer.features.random_convolutions import KERNEL_LENGTH, KERNELS, views_of

#: Dilations with the features of a comparison; more at a time take more memory.
_AT_ONCE = 32


class _Convolutions(nn.Module):
    """Convolutions of series with the kernels ``[D or 1, G, M, 9]`` of all dilations."""

    channels: Tensor
    kernels: Tensor
    offsets: Tensor

    def __init__(self, dilations: list[int], channels: Tensor, kernels: Tensor):
        super().__init__()
        self.shape = channels.shape[:2]
        self.register_buffer("channels", channels.flatten(0, 1))
        self.register_buffer("kernels", kernels)
        self.reach = KERNEL_LENGTH // 2 * max(dilations)
        taps = torch.arange(KERNEL_LENGTH) - KERNEL_LENGTH // 2
        self.register_buffer("offsets", torch.tensor(dilations)[:, None] * taps + self.reach)

    def windows(self, x: Tensor, offsets: Tensor) -> Tensor:
        """Return ``x[b, r, t + offsets[r, j]]`` as ``[B, R, J, L]``, `x` ``[B, R, L]`` padded."""
        n_rows, length = offsets.shape[0], x.shape[2]
        padded = nn.functional.pad(x, (self.reach, self.reach))
        rows = torch.arange(n_rows).view(-1, 1, 1) * (length + 2 * self.reach)
        index = (rows + offsets.unsqueeze(2) + torch.arange(length)).flatten()
        taken = padded.flatten(1).index_select(1, index)
        return taken.view(x.shape[0], n_rows, offsets.shape[1], length)

    def responses(self, x: Tensor) -> Tensor:
        """Return the responses ``[B, D, G, M, L]`` to series ``[B, C, L]``."""
        x = self.channels @ x
        windows = self.windows(x, self.offsets.repeat_interleave(self.shape[1], 0))
        return self.kernels @ (windows - x.unsqueeze(2)).unflatten(1, self.shape)


class Shares(_Convolutions):
    """The features ``[B, F]`` of a MiniRocket."""

    turns: Tensor
    rows: Tensor
    halves: Tensor
    biases: Tensor
    ends: Tensor

    def __init__(self, fitted: MiniRocket):
        dilations, n_biases = fitted.dilations.tolist(), fitted.n_biases.tolist()
        kernels = KERNELS.view(1, fitted.channels.shape[1], -1, KERNEL_LENGTH)
        super().__init__(dilations, fitted.channels, kernels)
        # Zero padding counts for one half of the kernels, whole windows for the other, in turns.
        turns = [2 * i + (i + j) % 2 for i in range(len(dilations)) for j in range(2)]
        self.register_buffer("turns", torch.tensor(turns))
        rows = torch.arange(len(KERNELS) * len(dilations))
        repeats = torch.tensor(n_biases).repeat_interleave(len(KERNELS))
        self.register_buffer("rows", rows.repeat_interleave(repeats))
        self.register_buffer("halves", self.rows // (len(KERNELS) // 2))
        self.register_buffer("biases", fitted.biases.unsqueeze(1))
        self.register_buffer("ends", self.offsets[:, :: KERNEL_LENGTH - 1].reshape(1, -1))
        self.at_once = len(KERNELS) * max(len(dilations), _AT_ONCE)

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        first = valid.unsqueeze(1)
        ends = self.windows(first.to(x.dtype), self.ends).squeeze(1).unflatten(1, (-1, 2))
        whole = first & (ends.amin(dim=2) > 0)
        whole = whole | (first & ~whole.any(dim=2, keepdim=True))
        halves = torch.stack([first.expand_as(whole), whole], dim=2).flatten(1, 2)
        halves = halves.index_select(1, self.turns)
        convolved = self.responses(x).flatten(1, 3).unflatten(1, (len(self.turns), -1))
        convolved = convolved.masked_fill(~halves.unsqueeze(2), -torch.inf).flatten(1, 2)
        pieces = zip(self.rows.split(self.at_once), self.biases.split(self.at_once), strict=True)
        above = [
            (convolved.index_select(1, rows) > biases).to(x.dtype).sum(dim=2)
            for rows, biases in pieces
        ]
        steps = halves.to(x.dtype).sum(dim=2).clamp(min=1)
        return torch.cat(above, dim=1) / steps.index_select(1, self.halves)


class Counts(_Convolutions):
    """The features ``[B, F]`` of a Hydra."""

    def __init__(self, fitted: Hydra):
        n_dilations, n_groups = fitted.channels.shape[:2]
        kernels = fitted.kernels.reshape(n_dilations, n_groups, -1, KERNEL_LENGTH)
        super().__init__([2**i for i in range(n_dilations)], fitted.channels, kernels)
        self.n_kernels = fitted.n_kernels

    def forward(self, x: Tensor, valid: Tensor) -> Tensor:
        responses = self.responses(x).flatten(2, 3).unflatten(2, (-1, self.n_kernels))
        most, least = responses.amax(dim=3, keepdim=True), responses.amin(dim=3, keepdim=True)
        valid = valid.unsqueeze(1).unsqueeze(1).unsqueeze(1)
        soft = responses.where(valid & (responses == most), 0.0).sum(dim=4)
        hard = (valid & (responses == least) & (least != 0)).to(x.dtype).sum(dim=4)
        return torch.stack([soft, hard], dim=2).flatten(1)


class Features(nn.Module):
    """The scaled features ``[B, F]`` of fitted random convolutions, from values and a mask."""

    def __init__(self, fitted: Any):
        super().__init__()
        self.fitted = fitted
        self.parts = nn.ModuleList()
        self.views = [*fitted.minirocket, *fitted.hydra]
        self.parts.extend(Shares(kernels) for kernels in fitted.minirocket.values())
        self.parts.extend(Counts(kernels) for kernels in fitted.hydra.values())

    def forward(self, values: Tensor, mask: Tensor) -> Tensor:
        views = views_of(values.transpose(1, 2), mask)
        modules = zip(self.parts, self.views, strict=True)
        unscaled = torch.cat([module(*views[view]) for module, view in modules], dim=1)
        scaled: Tensor = self.fitted.scale(unscaled)
        return scaled
