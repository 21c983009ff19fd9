"""Features of random convolutions, as matrix products: MiniRocket, Hydra, and both, scaled.

Kernels slide over regular steps: `regular` resamples series with times. Shape letters: `B` series,
`L` time steps, `C` channels, `G` groups of kernels that share their channels, `M` kernels of a
group, `F` features.
"""

from collections.abc import Iterable, Mapping
from itertools import combinations
from math import floor, log2, sqrt
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from torch import Tensor, nn

from tsformer._warnings import warn_caller
from tsformer.data.panel import Panel


class Learned(nn.Module):
    """A module with an empty buffer of each dtype by name that its class statement lists.

    `fit` or `load_state_dict` sets their shapes.
    """

    _dtypes: ClassVar[dict[str, torch.dtype]] = {}

    def __init_subclass__(cls, **dtypes: torch.dtype) -> None:
        super().__init_subclass__()
        cls._dtypes = cls._dtypes | dtypes

    def __init__(self) -> None:
        super().__init__()
        for name, dtype in self._dtypes.items():
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
#: Steps of all series at once: responses to 250 kernels fit into 2 MiB of cache, or 1 GiB of a
#: device. And the most steps of a series at once, on which the rounding of sums depends.
STEPS, _STEPS_ELSEWHERE = {"cpu": 2**11}, 2**17
_BLOCK = {"cpu": 2**10}


def responses(x: Tensor, kernels: Tensor, dilation: int) -> Iterable[tuple[slice, Tensor]]:
    """Convolve series with kernels whose weights sum to zero, padded with zeros to their length.

    Returns blocks of steps and their responses one after the other, so that memory stays bounded.

    ``out[b, g M + m, t] = sum_j kernels[g, m, j] (x[b, g, t + (j - 4) d] - x[b, g, t])``, with
    `x` zero outside the series. As weights sum to zero, subtracting the centre changes nothing,
    except that a constant window gives exactly 0, and not a rounding error whose sign decides
    which side of a threshold it is on. `x` ``[B, G, L]`` is the sum of the channels of each group,
    `kernels` are ``[G, M, 9]``, and the responses ``[B, G * M, L]``.
    """
    n_series, _, length = x.shape
    reach = _HALF * dilation
    padded = torch.nn.functional.pad(x, (reach, reach))
    size = STEPS.get(x.device.type, _STEPS_ELSEWHERE) // n_series
    size = max(min(size, _BLOCK.get(x.device.type, size)), 1)
    windows, centres = padded.unfold(-1, length, dilation), x[:, :, None]  # [B, G, 9, L], a view
    blocks = [slice(start, start + size) for start in range(0, length, size)]
    return (
        (steps, (kernels @ (windows[..., steps] - centres[..., steps])).flatten(1, 2))
        for steps in blocks
    )


def draw_channels(
    n_dilations: int, n_groups: int, n_channels: int, generator: torch.Generator
) -> Tensor:
    """Draw the channels of each group of kernels, Tensor ``[D, G, C]`` of zeros and ones."""
    if n_channels == 1:
        return torch.ones(n_dilations, 1, 1)
    drawn = []
    for _ in range(n_dilations):
        exponents = torch.rand(n_groups, generator=generator) * log2(min(n_channels, 9) + 1)
        sizes = exponents.exp2().floor().clamp(1, min(n_channels, 9))
        order = torch.rand(n_groups, n_channels, generator=generator).argsort(dim=1).argsort(dim=1)
        drawn.append((order < sizes[:, None]).float())
    return torch.stack(drawn)


def views_of(x: Tensor, mask: Tensor | None) -> dict[str, tuple[Tensor, Tensor | None]]:
    """Return series ``[B, C, L]`` and their first differences, each with its valid steps.

    Differences ``x_t - x_{t-1}`` have one step fewer, valid if both steps are; a series of one step
    has a single one, zero and not valid.
    """
    if x.shape[-1] == 1:
        none = torch.zeros(len(x), 1, dtype=torch.bool, device=x.device)
        return {"series": (x, mask), "differences": (torch.zeros_like(x), none)}
    apart, both = x.diff(dim=-1), None
    if mask is not None:
        both = mask[:, 1:] & mask[:, :-1]
        apart = apart.where(both.unsqueeze(1), 0.0)
    return {"series": (x, mask), "differences": (apart, both)}


class Hydra(Learned, kernels=torch.float, channels=torch.float):
    """How strongly and how often each of `k` competing kernels responds most, for `g` groups.

    At each step of a series, and for each dilation 1, 2, 4, ... up to ``(L - 1) / 8``, the `k`
    kernels of a group are compared. The one with the largest response adds it to its first
    feature, a soft count; the one with the smallest adds 1 to its second. A constant window, to
    which every kernel responds with 0, counts for none. Kernels have normal weights, centred, and
    scaled to absolute values that sum to 1. With several channels a group reads the sum of a
    random subset of them.

    There are ``F = 2 D g k`` features. Time ``O(B L F)``. Counts are not divided by the length.
    Only valid steps count: padding changes nothing.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "Hydra: competing convolutional kernels for fast and
       accurate time series classification", DMKD 37, 2023. https://arxiv.org/abs/2203.13652
    """

    #: The kernels of each dilation ``[D, g, k, 9]``.
    kernels: Tensor
    #: One where a group reads a channel ``[D, G, C]``; `G` is `g`, or 1 for a single channel.
    channels: Tensor

    def __init__(self, n_groups: int, n_kernels: int = 8):
        super().__init__()
        self.n_groups, self.n_kernels = n_groups, n_kernels

    @torch.no_grad()
    def fit(self, x: Tensor, generator: torch.Generator) -> Self:
        """Draw kernels and channels for series ``[n, C, L]``."""
        n_dilations = floor(log2(max((x.shape[-1] - 1) / 8, 1))) + 1
        shape = (n_dilations, self.n_groups, self.n_kernels, KERNEL_LENGTH)
        kernels = torch.randn(shape, generator=generator)
        kernels -= kernels.mean(dim=-1, keepdim=True)
        self.kernels = (kernels / kernels.abs().sum(dim=-1, keepdim=True)).to(x.device)
        channels = draw_channels(n_dilations, self.n_groups, x.shape[1], generator)
        self.channels = channels.to(x.device)
        return self

    def check(self, n_channels: int) -> int:
        """Return the number of features; raise ValueError if loaded tensors are not consistent."""
        n_dilations = len(self.kernels)
        if not 0 < n_dilations <= LONGEST.bit_length():
            raise ValueError(
                f"Hydra must have kernels of 1 to {LONGEST.bit_length()} dilations; got "
                f"{n_dilations}"
            )
        n_groups = 1 if n_channels == 1 else self.n_groups
        self._check_shapes(
            kernels=(n_dilations, self.n_groups, self.n_kernels, KERNEL_LENGTH),
            channels=(n_dilations, n_groups, n_channels),
        )
        return 2 * n_dilations * self.n_groups * self.n_kernels

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the features ``[B, F]`` of series ``[B, C, L]``, zero where not valid."""
        features = []
        for exponent, (kernels, channels) in enumerate(
            zip(self.kernels, self.channels, strict=True)
        ):
            kernels = kernels.reshape(len(channels), -1, KERNEL_LENGTH)
            soft, hard = [], []
            for steps, each in responses(channels @ x, kernels, 2**exponent):
                competing = each.unflatten(1, (self.n_groups, self.n_kernels))  # [B, g, k, L]
                most, least = (f(competing, 2, keepdim=True) for f in (torch.amax, torch.amin))
                least = least.masked_fill(least == 0, torch.inf)
                if mask is not None:
                    padding = ~mask[:, None, None, steps]
                    most, least = (x.masked_fill(padding, torch.inf) for x in (most, least))
                wins = torch.empty_like(competing)  # as floats, for sums of bools are slow on a CPU
                hard.append(torch.eq(competing, least, out=wins).sum(dim=-1))
                soft.append(torch.eq(competing, most, out=wins).mul_(competing).sum(dim=-1))
            features += [torch.stack(counts).sum(dim=0).flatten(1) for counts in (soft, hard)]
        return torch.cat(features, dim=1)


N_KERNELS = 84
_MAX_DILATIONS = 32
#: Kernels that read the same channels. Seven, so that both halves below are whole groups.
_TOGETHER = 7
#: Values of drawn series that `fit` convolves at a time.
_VALUES = 2**23
_GOLDEN = (sqrt(5) + 1) / 2


def _kernels() -> Tensor:
    """Return the 84 kernels ``[84, 9]`` with three weights 2 and six -1."""
    chosen = list(combinations(range(KERNEL_LENGTH), 3))
    kernels = torch.full((N_KERNELS, KERNEL_LENGTH), -1.0)
    for kernel, places in zip(kernels, chosen[::2] + chosen[1::2], strict=True):
        kernel[list(places)] = 2.0
    return kernels


KERNELS = _kernels()


class MiniRocket(
    Learned, dilations=torch.long, n_biases=torch.long, biases=torch.float, channels=torch.float
):
    """Shares of the steps at which a convolution exceeds a bias, for 84 kernels and many dilations.

    ``out = mean_t [sum_c (w * x_c)_t > b]``. The kernels `w` of length 9 have three weights 2
    and six -1. Dilations are spaced exponentially, up to ``(L - 1) / 8``, where a kernel
    spans the series. The biases of a kernel and dilation are quantiles of the convolution of one
    training series, drawn at random. Half of the pairs of kernel and dilation are convolved with
    zero padding, and half take their share over the steps whose whole window lies in the series
    (with padding after all if there is no such step). With several channels a convolution is that
    of the sum of a random subset of them [2]_, here drawn for seven kernels at a time.

    `n_features` is rounded down to a multiple of 84, but at least 84. Time ``O(B L F)``. Only valid
    steps count: padding changes nothing.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "MiniRocket: a very fast (almost) deterministic transform
       for time series classification", KDD 2021. https://arxiv.org/abs/2012.08791
    .. [2] Ruiz, Flynn, Large, Middlehurst and Bagnall, "The great multivariate time series
       classification bake off", DMKD 35, 2021.
    """

    #: The dilations ``[D]``, and the number of biases of each kernel at each.
    dilations: Tensor
    n_biases: Tensor
    #: By dilation, kernel and quantile, ``[F]``.
    biases: Tensor
    #: One where a group of kernels reads a channel ``[D, G, C]``: 12 groups of seven, or one.
    channels: Tensor
    _kernels: Tensor

    def __init__(self, n_features: int):
        super().__init__()
        self.per_kernel = max(n_features // N_KERNELS, 1)
        self.register_buffer("_kernels", KERNELS, persistent=False)

    @torch.no_grad()
    def fit(self, x: Tensor, mask: Tensor | None, generator: torch.Generator) -> Self:
        """Choose dilations for series ``[n, C, L]``, and draw channels and biases."""
        n_series, n_channels, length = x.shape
        n_exponents = min(self.per_kernel, _MAX_DILATIONS)
        largest = log2(max((length - 1) / 8, 1))
        exponents = torch.linspace(0, largest, n_exponents, dtype=torch.float64)
        # Rounding must not take the last dilation below a whole number.
        dilations, counts = (exponents.exp2() + 1e-9).long().unique(return_counts=True)
        n_biases = counts * self.per_kernel // n_exponents
        n_biases[: self.per_kernel - int(n_biases.sum())] += 1
        self.dilations, self.n_biases, n_biases_of = dilations, n_biases, n_biases.tolist()
        n_groups = N_KERNELS // _TOGETHER
        channels = draw_channels(len(dilations), n_groups, n_channels, generator)
        self.channels = channels.to(x.device)
        quantiles = torch.arange(1, int(n_biases.sum()) * N_KERNELS + 1, dtype=torch.float64)
        quantiles = (quantiles * _GOLDEN % 1).to(x.device)
        every = torch.ones_like(x[:, 0], dtype=torch.bool) if mask is None else mask
        at_once = min(max(_VALUES // x[0].numel(), 1), N_KERNELS)
        kernels, place = self._kernels[:, None].to(x.device), 0
        padded = torch.arange(N_KERNELS, device=x.device)[:, None] < N_KERNELS // 2
        ends: list[tuple[Tensor, Tensor, Tensor]] = []
        for number, dilation in enumerate(dilations.tolist()):
            drawn = torch.randint(n_series, (N_KERNELS,), generator=generator).to(x.device)
            groups = self.channels[number]
            groups = groups.repeat_interleave(N_KERNELS // len(groups), 0)
            for start in range(0, N_KERNELS, at_once):
                some = slice(start, start + at_once)
                series = torch.einsum("kcl,kc->kl", x[drawn[some]], groups[some])
                blocks = [block for _, block in responses(series[None], kernels[some], dilation)]
                valid = every[drawn[some]]
                (whole,) = _whole(valid, [dilation])
                valid = valid.where(padded[some] == (number % 2 == 0), whole)
                convolved = torch.cat(blocks, -1)[0].masked_fill_(~valid, torch.inf)
                # NumPy sorts ten times faster.
                ordered = torch.from_numpy(np.sort(convolved.cpu().numpy(), axis=1)).to(x.device)
                last = (valid.sum(dim=1, keepdim=True) - 1).clamp(min=0)
                n_places = len(valid) * n_biases_of[number]
                at = quantiles[place : place + n_places].view(len(valid), -1) * last
                place += n_places
                low, high = ordered.gather(1, at.long()), ordered.gather(1, at.ceil().long())
                ends.append((low.flatten(), high.flatten(), at.flatten()))
        low, high, at = (torch.cat(each) for each in zip(*ends, strict=True))
        bias = (low + at.frac().float() * (high - low)).where(low.isfinite(), 0.0)
        # Below the value of a single step, which rounding would put on either side.
        self.biases = bias - 1e-5 * bias.abs()
        return self

    def check(self, n_channels: int) -> int:
        """Return the number of features; raise ValueError if loaded tensors are not consistent."""
        n_dilations = len(self.dilations)
        counted = bool((self.n_biases > 0).all()) and n_dilations > 0
        if not counted or not bool(((self.dilations > 0) & (self.dilations <= LONGEST)).all()):
            raise ValueError(
                f"dilations of MiniRocket must be from 1 to {LONGEST:,}, each with a bias or more"
            )
        n_groups = 1 if n_channels == 1 else N_KERNELS // _TOGETHER
        n_features = N_KERNELS * int(self.n_biases.sum())
        self._check_shapes(
            dilations=(n_dilations,),
            n_biases=(n_dilations,),
            channels=(n_dilations, n_groups, n_channels),
            biases=(n_features,),
        )
        return n_features

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the features ``[B, F]`` of series ``[B, C, L]``, as in `fit`."""
        valid = torch.ones_like(x[:1, 0], dtype=torch.bool) if mask is None else mask
        all_biases = self.biases.split([N_KERNELS * k for k in self.n_biases.tolist()])
        dilations = self.dilations.tolist()
        shares = []
        for place, (dilation, whole) in enumerate(
            zip(dilations, _whole(valid, dilations), strict=True)
        ):
            channels, biases = (
                self.channels[place],
                all_biases[place].view(2, N_KERNELS // 2, -1, 1),
            )
            kernels = self._kernels.view(len(channels), -1, KERNEL_LENGTH)
            halves = [valid, whole] if place % 2 == 0 else [whole, valid]
            own = torch.stack(halves, dim=1)[:, :, None]  # [B, 2, 1, L]
            # An addition broadcasts six times faster than masked_fill.
            below = torch.zeros_like(own, dtype=x.dtype).masked_fill_(~own, -torch.inf)
            counts = []  # of valid steps above each bias
            for steps, convolved in responses(channels @ x, kernels, dilation):
                some = convolved.unflatten(1, (2, -1)) + below[..., steps]
                # Floats and not bools, whose sum is slow on a CPU.
                above = some.new_empty(*some.shape[:3], biases.shape[2], some.shape[3])
                torch.gt(some.unsqueeze(3), biases, out=above)
                counts.append(above.sum(dim=-1))
            n_valid = own.sum(dim=-1, keepdim=True).clamp(min=1)
            shares.append((torch.stack(counts).sum(dim=0) / n_valid).flatten(1))
        return torch.cat(shares, dim=1)


def _whole(valid: Tensor, dilations: list[int]) -> list[Tensor]:
    """Return the steps ``[B, L]`` with a valid window; of a series without any, all valid."""
    found = []
    for dilation in dilations:
        padded = torch.nn.functional.pad(valid, (_HALF * dilation, _HALF * dilation))
        whole = valid & padded[:, : valid.shape[1]] & padded[:, -valid.shape[1] :]
        found.append(whole.where(whole.any(dim=1, keepdim=True), valid))
    return found


class RandomConvolutions(nn.Module):
    """Scaled features of MiniRocket and of Hydra, each of values and of first differences.

    Differences are those between consecutive steps, a second view of a series, as in MultiRocket
    [1]_. Features of MiniRocket are standardised; counts of Hydra are scaled as sparse.

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
        self.dense_scale, self.count_scale = FeatureScaler(), CountScaler()

    @torch.no_grad()
    def draw(self, values: Tensor, mask: Tensor | None, generator: torch.Generator) -> Self:
        """Choose kernels and biases for training series ``[n, L, C]``, valid by `mask` ``[n, L]``.

        Every choice comes from `generator`, which must be the CPU's.
        """
        views = views_of(values.mT.contiguous(), mask)
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
        modules: Any = (*self.minirocket.items(), *self.hydra.items())
        features = []
        for part, valid in zip(values.split(at_once), masks, strict=False):
            views = views_of(part.mT.contiguous(), valid)
            features.append(torch.cat([module(*views[view]) for view, module in modules], dim=1))
        return torch.cat(features)

    @torch.no_grad()
    def fit_scales(self, features: Tensor) -> None:
        """Learn the scales from `unscaled` features of the training series."""
        n_dense = sum(len(cast(MiniRocket, each).biases) for each in self.minirocket.values())
        if self.n_features:
            self.dense_scale.fit(features[:, :n_dense])
        if self.n_groups:
            self.count_scale.fit(features[:, n_dense:])

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
        n_dense = len(self.dense_scale.mean)
        dense, counts = features[:, :n_dense], features[:, n_dense:]
        return torch.cat([self.dense_scale(dense), self.count_scale(counts)], dim=1)

    def forward(
        self, values: Tensor, mask: Tensor | None = None, times: Tensor | None = None
    ) -> Tensor:
        """Return scaled features ``[B, F]``; arguments as of `unscaled`."""
        return self.scale(self.unscaled(values, mask))


class FeatureScaler(Learned, mean=torch.float, std=torch.float):
    """``(x - mean) / std`` of each feature; a constant one becomes 0.

    Sparse `counts` become ``(r - mean) / (std + z^4)``, and 0 where r is 0, with
    ``r = sqrt(max(x, 0))`` and the share `z` of training series in which it is 0: the rarer a
    count, the less it may weigh [1]_.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "Hydra: competing convolutional kernels for fast and
       accurate time series classification", DMKD 37, 2023. https://arxiv.org/abs/2203.13652
    """

    mean: Tensor
    std: Tensor
    counts = False

    def fit(self, features: Tensor) -> Self:
        """Learn from features ``[n, F]``."""
        x = features.clamp(min=0).sqrt() if self.counts else features
        std, self.mean = torch.std_mean(x, dim=0, correction=0)
        if self.counts:
            self.std = std + (x == 0).float().mean(dim=0) ** 4 + 1e-8
        else:  # the deviation of a constant is rounding error
            self.std = std.where(x.amax(dim=0) != x.amin(dim=0), 1.0)
        return self

    def check(self, n_features: int) -> None:
        """Raise ValueError if loaded tensors are not for this number; nothing is scaled by 0."""
        self._check_shapes(mean=(n_features,), std=(n_features,))
        if not bool((self.std > 0).all()):
            raise ValueError(f"std of {type(self).__name__} must be positive")

    def forward(self, features: Tensor) -> Tensor:
        if not self.counts:
            return (features - self.mean) / self.std
        roots = features.clamp(min=0).sqrt()
        return (roots != 0) * (roots - self.mean) / self.std


class CountScaler(FeatureScaler):
    """Scale sparse counts."""

    counts = True


#: A series with long pauses is resampled to at most this many times its steps. Above this many
#: median intervals between two steps, a warning reports the lost detail.
_MOST, _COARSE = 4, 2.0


def regular(panel: Panel, *, warn: bool = False) -> Panel:
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
    if warn and (coarsest := float(unit.max())) > _COARSE:
        warn_caller(
            f"times have long pauses: a series is interpolated at steps {coarsest:.2g} median "
            "intervals apart, which loses shorter patterns; split series at their pauses, or use "
            "TSTransformerClassifier"
        )
    lengths = ((stop - start) / unit + 1e-6).floor().long() + 1
    asked = start + torch.arange(int(lengths.max())) * unit
    left = torch.searchsorted(times, asked.contiguous(), right=True) - 1
    right = (left + 1).minimum(last)
    apart = times.gather(1, right) - times.gather(1, left)
    part = (asked - times.gather(1, left)) / apart.where(apart > 0, 1.0)
    start, end = (
        panel.values.gather(1, each[..., None].expand(-1, -1, panel.values.shape[2]))
        for each in (left, right)
    )
    values = start.lerp(end, part.float()[..., None])
    inside = torch.arange(asked.shape[1]) < lengths
    return Panel(values.where(inside[..., None], 0.0), lengths[:, 0])
