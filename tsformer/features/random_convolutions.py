"""Features of random convolutions, as matrix products: MiniRocket, Hydra, and both, scaled.

Kernels slide over regular steps: `regular` resamples series with times. Shape letters: `B` series,
`L` time steps, `C` channels, `G` groups of kernels that share their channels, `M` kernels of a
group, `F` features.
"""

from collections.abc import Iterable
from inspect import get_annotations
from itertools import combinations
from math import floor, log2, sqrt
from typing import Annotated, Any, ClassVar, Self, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tsformer._warnings import warn_caller
from tsformer.data.panel import Panel


class Learned(nn.Module):
    """A module with buffers ``Annotated[Tensor, dtype, sizes, positive]``, empty before `fit`.

    `sizes` are letters, such as "n F"; None allows any.
    """

    _declared: ClassVar[dict[str, tuple[Any, ...]]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        hints = get_annotations(cls, eval_str=True).items()
        sizes = {name: hint.__metadata__ for name, hint in hints if hasattr(hint, "__metadata__")}
        cls._declared = cls._declared | sizes

    def __init__(self) -> None:
        super().__init__()
        for name, (dtype, *_) in self._declared.items():
            self.register_buffer(name, torch.empty(0, dtype=dtype))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        for name in self._declared:
            if (saved := state_dict.get(prefix + name)) is not None:
                setattr(self, name, getattr(self, name).new_empty(saved.shape))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def check_sizes(self, **sizes: int) -> None:
        """Raise ValueError for a loaded buffer of other sizes, or that must be positive."""
        for name, (_, letters, *positive) in self._declared.items():
            buffer, problem = getattr(self, name), ""
            if letters is not None:
                sizes = {**dict(zip(letters.split(), buffer.shape, strict=False)), **sizes}
                shape = tuple(sizes.get(letter, 0) for letter in letters.split())
                problem = f"{shape}; it is {tuple(buffer.shape)}" * (buffer.shape != shape)
            if problem or (positive and not bool((buffer > 0).all())):
                kind = type(self).__name__
                raise ValueError(f"tensor {name!r} of {kind} must be {problem or 'positive'}")


KERNEL_LENGTH = 9
#: The largest dilation of a loaded model: that of series of eight million steps.
LONGEST = 2**20
_HALF = KERNEL_LENGTH // 2
#: Steps of all series at once: responses to 250 kernels fit into 2 MiB of cache, or 1 GiB of a
#: device. And the most steps of a series at once, on which the rounding of sums depends.
STEPS, _STEPS_ELSEWHERE, _BLOCK = {"cpu": 2**11}, 2**17, {"cpu": 2**10}


def responses(x: Tensor, kernels: Tensor, dilation: int) -> Iterable[tuple[slice, Tensor]]:
    """Convolve series ``[B, G, L]`` with kernels ``[G, M, 9]``; return blocks ``[B, G * M, L]``.

    ``out[b, g M + m, t] = sum_j kernels[g, m, j] (x[b, g, t + (j - 4) d] - x[b, g, t])``, with
    `x` zero outside the series. Weights sum to zero, so the centre only makes the response to a
    constant window exactly 0, where the sign of a rounding error would decide a comparison.
    """
    n_series, _, length = x.shape
    padded = F.pad(x, (_HALF * dilation, _HALF * dilation))
    size = STEPS.get(x.device.type, _STEPS_ELSEWHERE) // n_series
    size = max(min(size, _BLOCK.get(x.device.type, size)), 1)
    windows, centres = padded.unfold(-1, length, dilation), x[:, :, None]  # [B, G, 9, L], a view
    blocks = (slice(start, start + size) for start in range(0, length, size))
    return (
        (steps, (kernels @ (windows[..., steps] - centres[..., steps])).flatten(1, 2))
        for steps in blocks
    )


def draw_channels(
    n_dilations: int, n_groups: int, n_channels: int, generator: torch.Generator
) -> Tensor:
    """Draw the channels of each group of kernels, ``[D, G, C]`` of zeros and ones."""
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

    Differences have one step fewer; those of a series of one step are zero and not valid.
    """
    if x.shape[-1] == 1:
        none = torch.zeros(len(x), 1, dtype=torch.bool, device=x.device)
        return {"series": (x, mask), "differences": (torch.zeros_like(x), none)}
    apart, both = x.diff(dim=-1), None
    if mask is not None:
        both = mask[:, 1:] & mask[:, :-1]
        apart = apart.where(both.unsqueeze(1), 0.0)
    return {"series": (x, mask), "differences": (apart, both)}


class Hydra(Learned):
    """How strongly and how often each of `k` competing kernels responds most, for `g` groups.

    At each step of a series, and for each dilation 1, 2, 4, ... up to ``(L - 1) / 8``, the `k`
    kernels of a group are compared. The largest response is added to the first feature of its
    kernel, and 1 to the second feature of the kernel with the smallest, unless it is 0. Kernels
    have normal weights, centred, with absolute values that sum to 1. With several channels a group
    reads the sum of a random subset of them. There are ``F = 2 D g k`` features, in a time
    ``O(B L F)``. Only valid steps count.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "Hydra: competing convolutional kernels for fast and
       accurate time series classification", DMKD 37, 2023. https://arxiv.org/abs/2203.13652
    """

    kernels: Annotated[Tensor, torch.float, "D g k taps"]
    channels: Annotated[Tensor, torch.float, "D G C"]  # one where read; `G` is 1 for one channel

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
        n_groups, sizes = self.n_groups, {"k": self.n_kernels, "taps": KERNEL_LENGTH}
        self.check_sizes(g=n_groups, G=1 if n_channels == 1 else n_groups, C=n_channels, **sizes)
        if not 0 < len(self.kernels) <= LONGEST.bit_length():
            raise ValueError(f"Hydra must have 1 to {LONGEST.bit_length()} dilations")
        return 2 * len(self.kernels) * n_groups * self.n_kernels

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the features ``[B, F]`` of series ``[B, C, L]``, zero where not valid."""
        features = []
        for i, (kernels, channels) in enumerate(zip(self.kernels, self.channels, strict=True)):
            kernels = kernels.reshape(len(channels), -1, KERNEL_LENGTH)
            soft, hard = [], []
            for steps, block in responses(channels @ x, kernels, 2**i):
                competing = block.unflatten(1, (self.n_groups, self.n_kernels))  # [B, g, k, L]
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


N_KERNELS, _MAX_DILATIONS = 84, 32
#: Kernels that read the same channels. Seven, so that both halves below are whole groups.
_TOGETHER = 7
#: Values of drawn series that `fit` convolves at a time.
_VALUES = 2**23
_GOLDEN = (sqrt(5) + 1) / 2
_PLACES = torch.tensor([*combinations(range(KERNEL_LENGTH), 3)])
#: The 84 kernels ``[84, 9]`` with three weights 2 and six -1.
KERNELS = torch.full((N_KERNELS, KERNEL_LENGTH), -1.0)
KERNELS.scatter_(1, torch.cat([_PLACES[::2], _PLACES[1::2]]), 2.0)


class MiniRocket(Learned):
    """Shares of the steps at which a convolution exceeds a bias, for 84 kernels and many dilations.

    ``out = mean_t [sum_c (w * x_c)_t > b]``. The kernels `w` of length 9 have three weights 2
    and six -1. Dilations are spaced exponentially, up to ``(L - 1) / 8``, where a kernel
    spans the series. The biases of a kernel and dilation are quantiles of the convolution of one
    training series, drawn at random. Half of the pairs of kernel and dilation are convolved with
    zero padding, and half take their share over the steps whose whole window lies in the series
    (all steps if there is none). Seven kernels at a time read the sum of a random subset of several
    channels [2]_. Time ``O(B L F)``. Only valid steps count.

    References
    ----------
    .. [1] Dempster, Schmidt and Webb, "MiniRocket: a very fast (almost) deterministic transform
       for time series classification", KDD 2021. https://arxiv.org/abs/2012.08791
    .. [2] Ruiz, Flynn, Large, Middlehurst and Bagnall, "The great multivariate time series
       classification bake off", DMKD 35, 2021.
    """

    dilations: Annotated[Tensor, torch.long, "D", "positive"]
    n_biases: Annotated[Tensor, torch.long, "D", "positive"]  # of each kernel
    biases: Annotated[Tensor, torch.float, "F"]  # by dilation, kernel and quantile
    channels: Annotated[Tensor, torch.float, "D G C"]  # one where read; 12 groups of seven, or one
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
        self.channels = draw_channels(len(dilations), n_groups, n_channels, generator)
        channels = self.channels.repeat_interleave(N_KERNELS // self.channels.shape[1], dim=1)
        drawn = torch.randint(n_series, (len(dilations), N_KERNELS), generator=generator)
        quantiles = torch.arange(1, int(n_biases.sum()) * N_KERNELS + 1, dtype=torch.float64)
        quantiles = quantiles * _GOLDEN % 1
        every = torch.ones_like(x[:1, 0], dtype=torch.bool)
        at_once = min(max(_VALUES // x[0].numel(), 1), N_KERNELS)
        kernels, position = self._kernels[:, None], 0
        padded = torch.arange(N_KERNELS)[:, None] < N_KERNELS // 2
        ends: list[tuple[Tensor, Tensor, Tensor]] = []
        for number, dilation in enumerate(dilations.tolist()):
            for start in range(0, N_KERNELS, at_once):
                some = slice(start, start + at_once)
                cases = drawn[number, some]
                series = torch.einsum("kcl,kc->kl", x[cases], channels[number, some])
                blocks = [block for _, block in responses(series[None], kernels[some], dilation)]
                valid = every if mask is None else mask[cases]
                (whole,) = _whole(valid, [dilation])
                valid = valid.where(padded[some] == (number % 2 == 0), whole)
                convolved = torch.cat(blocks, -1)[0].masked_fill_(~valid, torch.inf)
                # NumPy sorts ten times faster.
                ordered = torch.from_numpy(np.sort(convolved.numpy(), axis=1))
                last = (valid.sum(dim=1, keepdim=True) - 1).clamp(min=0)
                n_places = len(ordered) * n_biases_of[number]
                at = quantiles[position : position + n_places].view(len(ordered), -1) * last
                position += n_places
                low, high = ordered.gather(1, at.long()), ordered.gather(1, at.ceil().long())
                ends.append((low.flatten(), high.flatten(), at.flatten()))
        low, high, at = (torch.cat(column) for column in zip(*ends, strict=True))
        bias = (low + at.frac().float() * (high - low)).where(low.isfinite(), 0.0)
        # Below the value of a single step, which rounding would put on either side.
        self.biases = bias - 1e-5 * bias.abs()
        return self

    def check(self, n_channels: int) -> int:
        """Return the number of features; raise ValueError if loaded tensors are not consistent."""
        n_features = N_KERNELS * int(self.n_biases.sum())
        n_groups = 1 if n_channels == 1 else N_KERNELS // _TOGETHER
        self.check_sizes(F=n_features, G=n_groups, C=n_channels)
        if not len(self.dilations) or self.dilations.max() > LONGEST:
            raise ValueError(f"MiniRocket must have dilations of at most {LONGEST:,}")
        return n_features

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return the features ``[B, F]`` of series ``[B, C, L]``, as in `fit`."""
        valid = torch.ones_like(x[:1, 0], dtype=torch.bool) if mask is None else mask
        all_biases = self.biases.split([N_KERNELS * k for k in self.n_biases.tolist()])
        dilations = self.dilations.tolist()
        shares = []
        for number, whole in enumerate(_whole(valid, dilations)):
            channels, biases = self.channels[number], all_biases[number]
            biases = biases.view(2, N_KERNELS // 2, -1, 1)
            kernels = self._kernels.view(len(channels), -1, KERNEL_LENGTH)
            halves = [valid, whole] if number % 2 == 0 else [whole, valid]
            counted = torch.stack(halves, dim=1)[:, :, None]  # [B, 2, 1, L]
            # An addition broadcasts six times faster than masked_fill.
            below = torch.zeros_like(counted, dtype=x.dtype).masked_fill_(~counted, -torch.inf)
            counts = []  # of valid steps above each bias
            for steps, convolved in responses(channels @ x, kernels, dilations[number]):
                masked = convolved.unflatten(1, (2, -1)) + below[..., steps]
                # Floats and not bools, whose sum is slow on a CPU.
                above = masked.new_empty(*masked.shape[:3], biases.shape[2], masked.shape[3])
                torch.gt(masked.unsqueeze(3), biases, out=above)
                counts.append(above.sum(dim=-1))
            n_valid = counted.sum(dim=-1, keepdim=True).clamp(min=1)
            shares.append((torch.stack(counts).sum(dim=0) / n_valid).flatten(1))
        return torch.cat(shares, dim=1)


def _whole(valid: Tensor, dilations: list[int]) -> list[Tensor]:
    """Return the steps ``[B, L]`` with a valid window; of a series without any, all valid."""
    windows = []
    for dilation in dilations:
        padded = F.pad(valid, (_HALF * dilation, _HALF * dilation))
        whole = valid & padded[:, : valid.shape[1]] & padded[:, -valid.shape[1] :]
        windows.append(whole.where(whole.any(dim=1, keepdim=True), valid))
    return windows


class RandomConvolutions(nn.Module):
    """Scaled features of MiniRocket and of Hydra, each of values and of first differences [1]_.

    Features of MiniRocket are standardised; counts of Hydra are scaled as sparse. Half of the
    `n_features` of MiniRocket and of the `n_groups` of Hydra are of differences; 0 omits them.

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
        self.dense_scale, self.count_scale = FeatureScaler(), FeatureScaler()
        self.count_scale.counts = True

    @torch.no_grad()
    def draw(self, values: Tensor, mask: Tensor | None, generator: torch.Generator) -> Self:
        """Draw kernels and biases, by the CPU's `generator`, for training series ``[n, L, C]``."""
        views = views_of(values.mT.contiguous(), mask)
        for view, minirocket in self.minirocket.items():
            cast(MiniRocket, minirocket).fit(*views[view], generator)
        for view, hydra in self.hydra.items():
            cast(Hydra, hydra).fit(views[view][0], generator)
        return self

    def unscaled(self, values: Tensor, mask: Tensor | None = None, *_: Any) -> Tensor:
        """Return features ``[B, F]`` of series ``[B, L, C]``, MiniRocket's first; ignore times."""
        at_once = max(STEPS.get(values.device.type, values.numel()) // values.shape[1], 1)
        masks = [None] * len(values) if mask is None else mask.split(at_once)
        modules: Any = (*self.minirocket.items(), *self.hydra.items())
        features = []
        for chunk, valid in zip(values.split(at_once), masks, strict=False):
            views = views_of(chunk.mT.contiguous(), valid)
            features.append(torch.cat([module(*views[view]) for view, module in modules], dim=1))
        return torch.cat(features)

    @torch.no_grad()
    def fit_scales(self, features: Tensor) -> None:
        """Learn the scales from `unscaled` features of the training series."""
        n_dense = sum(len(cast(MiniRocket, module).biases) for module in self.minirocket.values())
        if self.n_features:
            self.dense_scale.fit(features[:, :n_dense])
        if self.n_groups:
            self.count_scale.fit(features[:, n_dense:])

    def check(self, n_channels: int) -> int:
        """Return the number of features; raise ValueError if loaded tensors are not consistent."""
        n_dense, n_counts = (
            sum(cast(MiniRocket | Hydra, module).check(n_channels) for module in modules.values())
            for modules in (self.minirocket, self.hydra)
        )
        self.dense_scale.check_sizes(F=n_dense)
        self.count_scale.check_sizes(F=n_counts)
        return n_dense + n_counts

    def scale(self, features: Tensor) -> Tensor:
        """Scale `unscaled` features."""
        n_dense = len(self.dense_scale.mean)
        dense, counts = features[:, :n_dense], features[:, n_dense:]
        return torch.cat([self.dense_scale(dense), self.count_scale(counts)], dim=1)

    def forward(self, values: Tensor, mask: Tensor | None = None, *_: Any) -> Tensor:
        """Return the scaled features ``[B, F]``; times are ignored."""
        return self.scale(self.unscaled(values, mask))


class FeatureScaler(Learned):
    """``(x - mean) / std`` of each feature; a constant one becomes 0.

    Sparse `counts` become ``(r - mean) / (std + z^4)``, and 0 where r is 0, with
    ``r = sqrt(max(x, 0))`` and the share `z` of training series in which it is 0, as in `Hydra`.
    """

    mean: Annotated[Tensor, torch.float, "F"]
    std: Annotated[Tensor, torch.float, "F", "positive"]
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

    def forward(self, features: Tensor) -> Tensor:
        if not self.counts:
            return (features - self.mean) / self.std
        roots = features.clamp(min=0).sqrt()
        return (roots != 0) * (roots - self.mean) / self.std


#: Most times its steps that a series with long pauses gets, and median intervals that are coarse.
_MOST, _COARSE = 4, 2.0


def regular(panel: Panel, *, warn: bool = False) -> Panel:
    """Interpolate a panel with times linearly at ``t_0 + k u``, in median intervals of training.

    `u` is 1, or larger if a series would get more than four times its steps. Of equal times the
    last counts.
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
            "intervals apart; split series at their pauses, or use TSTransformerClassifier"
        )
    lengths = ((stop - start) / unit + 1e-6).floor().long() + 1
    grid = start + torch.arange(int(lengths.max())) * unit
    left = torch.searchsorted(times, grid.contiguous(), right=True) - 1
    right = (left + 1).minimum(last)
    apart = times.gather(1, right) - times.gather(1, left)
    share = (grid - times.gather(1, left)) / apart.where(apart > 0, 1.0)
    start, end = (
        panel.values.gather(1, index[..., None].expand(-1, -1, panel.values.shape[2]))
        for index in (left, right)
    )
    values = start.lerp(end, share.float()[..., None])
    inside = torch.arange(grid.shape[1]) < lengths
    return Panel(values.where(inside[..., None], 0.0), lengths[:, 0])
