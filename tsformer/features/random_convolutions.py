"""RandomConvolutions: features of MiniRocket and Hydra, of values and of first differences.

Kernels slide over regular steps: `regular` resamples series with times.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from tsformer._labels import LabelKind
from tsformer.data.panel import Panel
from tsformer.features.kernels import STEPS, Hydra, Learned, MiniRocket, differences
from tsformer.features.ridge import RidgeClassifier


class RandomConvolutions(nn.Module):
    """Scaled features of MiniRocket and of Hydra, each of values and of first differences.

    Differences are those between consecutive steps, a second view of a series, as in MultiRocket
    [1]_. Features of MiniRocket are standardised; counts of Hydra go through `SparseScaler`.

    Half of the `n_features` of MiniRocket and of the `n_groups` of Hydra are of differences; 0
    omits the transform.

    References
    ----------
    .. [1] Tan, Dempster, Bergmeir and Webb, "MultiRocket: multiple pooling operators and
       transformations for fast and effective time series classification", DMKD 36, 2022.
       https://arxiv.org/abs/2102.00457
    """

    def __init__(self, n_features: int = 10_000, n_groups: int = 64):
        super().__init__()
        self.n_features, self.n_groups = n_features, n_groups
        views = ("series", "differences")
        dense = {view: MiniRocket(n_features // 2) for view in views if n_features}
        counts = {view: Hydra(n_groups // 2) for view in views if n_groups}
        self.minirocket, self.hydra = nn.ModuleDict(dense), nn.ModuleDict(counts)
        self.dense_scale, self.count_scale = StandardScaler(), SparseScaler()

    @torch.no_grad()
    def draw(
        self, values: Tensor, mask: Tensor | None, generator: torch.Generator
    ) -> RandomConvolutions:
        """Choose kernels and biases for training series ``[n, L, C]``, valid by `mask` ``[n, L]``.

        Every choice comes from `generator`, which must be the CPU's.
        """
        views = _views(values, mask)
        for view, minirocket in self.minirocket.items():
            cast(MiniRocket, minirocket).fit(*views[view], generator)
        for view, hydra in self.hydra.items():
            cast(Hydra, hydra).fit(views[view][0], generator)
        return self

    def unscaled(
        self, values: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> Tensor:
        """Return the features ``[B, F]`` of series ``[B, L, C]``, MiniRocket's first.

        `times` are ignored.
        """
        at_once = max(STEPS.get(values.device.type, values.numel()) // values.shape[1], 1)
        masks = [None] * len(values) if mask is None else mask.split(at_once)
        return torch.cat(
            [self._unscaled(*part) for part in zip(values.split(at_once), masks, strict=False)]
        )

    def _unscaled(self, values: Tensor, mask: Tensor | None) -> Tensor:
        views = _views(values, mask)
        modules = (*self.minirocket.items(), *self.hydra.items())
        return torch.cat([module(*views[view]) for view, module in modules], dim=1)

    @torch.no_grad()
    def fit_scales(self, features: Tensor) -> None:
        """Learn the scales from `unscaled` features of the training series."""
        dense, counts = self._parts(features)
        if self.n_features:
            self.dense_scale.fit(dense)
        if self.n_groups:
            self.count_scale.fit(counts)

    def check(self, n_channels: int) -> int:
        """Return the number of features; raise ValueError if loaded tensors are not consistent."""
        n_dense, n_counts = (
            sum(cast(MiniRocket | Hydra, each).check(n_channels) for each in modules.values())
            for modules in (self.minirocket, self.hydra)
        )
        self.dense_scale.check(n_dense)
        self.count_scale.check(n_counts)
        return n_dense + n_counts

    def scale(self, features: Tensor) -> Tensor:
        """Scale `unscaled` features."""
        dense, counts = self._parts(features)
        return torch.cat([self.dense_scale(dense), self.count_scale(counts)], dim=1)

    def forward(
        self, values: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> Tensor:
        """Return scaled features ``[B, F]``; arguments as of `unscaled`."""
        return self.scale(self.unscaled(values, mask))

    def _parts(self, features: Tensor) -> tuple[Tensor, Tensor]:
        n_dense = sum(len(cast(MiniRocket, each).biases) for each in self.minirocket.values())
        return features[:, :n_dense], features[:, n_dense:]


def _views(values: Tensor, mask: Tensor | None) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Return values and differences as ``[B, C, L]``, each with its mask."""
    x = values.mT.contiguous()
    return {"series": (x, mask), "differences": differences(x, mask)}


class ConvolutionClassifier(nn.Module):
    """Features of random convolutions and the ridge classifier that reads them."""

    def __init__(self, n_features: int, n_groups: int):
        super().__init__()
        self.convolutions = RandomConvolutions(n_features, n_groups)
        self.ridge = RidgeClassifier()

    def check(self, n_channels: int, kind: LabelKind) -> None:
        """Raise ValueError if loaded tensors do not belong together, or to these sizes."""
        n_features = self.convolutions.check(n_channels)
        self.ridge.check(n_features, kind)

    def embed(
        self, values: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> Tensor:
        """Return the scaled features ``[B, F]`` of series ``[B, L, C]``, valid by `mask`."""
        return self.convolutions(values, mask, times)

    def forward(
        self, values: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> Tensor:
        """Return logits ``[B, K]``."""
        return self.ridge(self.embed(values, mask, times))


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


#: A series with long pauses is resampled to at most this many times its steps.
_MOST = 4


def regular(panel: Panel) -> Panel:
    """Interpolate a panel with times linearly at regular times.

    The steps are ``t_0 + k u``, in units of the median interval of training. `u` is 1, or larger if
    a series would get more than four times its steps. Of equal times the last counts.
    """
    if panel.times is None:
        return panel
    steps = torch.arange(panel.values.shape[1])
    valid = panel.mask if panel.mask is not None else steps < panel.lengths[:, None]
    first = valid.long().argmax(dim=1, keepdim=True)
    last = first + valid.sum(dim=1, keepdim=True) - 1
    # Padding gets infinite times: searchsorted needs sorted rows.
    times = panel.times.double().where(steps <= last, torch.inf)
    start, stop = times.gather(1, first), times.gather(1, last)
    most = _MOST * (last - first + 1)
    unit = ((stop - start) / (most - 1).clamp(min=1)).clamp(min=1.0)
    lengths = ((stop - start) / unit + 1e-6).floor().long() + 1
    asked = start + torch.arange(int(lengths.max())) * unit
    asked = asked.minimum(stop)
    left = torch.searchsorted(times, asked.contiguous(), right=True) - 1
    left = left.clamp(min=first, max=last)
    right = (left + 1).minimum(last)
    apart = times.gather(1, right) - times.gather(1, left)
    part = (asked - times.gather(1, left)).where(apart > 0, 0.0) / apart.where(apart > 0, 1.0)
    values = _at(panel.values, left).lerp(_at(panel.values, right), part.float()[..., None])
    inside = torch.arange(asked.shape[1]) < lengths
    return Panel(values.where(inside[..., None], 0.0), lengths[:, 0])


def _at(values: Tensor, steps: Tensor) -> Tensor:
    return values.gather(1, steps[..., None].expand(-1, -1, values.shape[2]))
