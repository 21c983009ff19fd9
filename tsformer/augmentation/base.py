"""The extension point: `Augmentation`, `Batch`, and sums; `B` series, `L` steps, `C` channels."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from tsformer._registry import Named, Registry, build


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch of preprocessed series, as an augmentation reads and returns it.

    Parameters
    ----------
    values : Tensor [B, L, C]
        Values; zero where `mask` is False.
    mask : Tensor [B, L] of bool, optional
        True for valid steps; all are by default.
    times : Tensor [B, L] or [1, L], optional
        Non-decreasing times of the steps; ``0, 1, 2, ...`` by default.
    symbolic : bool, default=False
        Whether the values are numbers of codes, which must not be averaged.
    n_flags : int, default=0
        Number of channels, at the end, that flag missing values.
    partner, share : Tensor [B] of int64 and of float, optional
        Index in the batch of the series whose target has weight ``1 - share`` in the loss; None if
        nothing was mixed.
    """

    values: Tensor
    mask: Tensor | None = None
    times: Tensor | None = None
    symbolic: bool = False
    n_flags: int = 0
    partner: Tensor | None = None
    share: Tensor | None = None


class Augmentation(Named):
    """Base class of all augmentations: from a batch of training series to another one.

    Subclassing with a name registers the class: ``class Flip(Augmentation, name="flip")``;
    ``replace=True`` takes over a name. ``__init__`` takes the options as keywords and keeps each in
    an attribute of its name. Class attributes state whether it sets `Batch.partner` and
    `Batch.share` (`mixes`), whether it applies to series of codes (`symbolic`), and the paper
    (`reference`).

    An augmentation overrides `__call__`. It draws from torch's generator of the batch's device,
    which the fit seeds and restores. It leaves shapes, mask and times as they are, values zero
    where the mask is False, and its argument unmodified. It must not wait for the device, as
    ``.item()`` and ``if tensor:`` do: the step may be recorded in a CUDA graph.

    Examples
    --------
    >>> from dataclasses import replace
    >>> class Flip(Augmentation):
    ...     def __call__(self, batch):
    ...         return replace(batch, values=-batch.values)
    >>> Flip()(Batch(torch.ones(1, 2, 1))).values.flatten()
    tensor([-1., -1.])
    """

    registry: ClassVar = Registry["Augmentation"](
        "augmentation", ("mixes", "symbolic", "reference")
    )
    mixes: bool = False
    symbolic: bool = False
    reference: str = ""

    def __call__(self, batch: Batch) -> Batch:
        """Return the augmented batch."""
        raise NotImplementedError(f"{type(self).__qualname__} must override __call__")

    def check(self, *, symbolic: bool) -> None:
        """Raise ValueError if series, which are codes if `symbolic`, cannot be augmented."""
        if symbolic and not self.symbolic:
            raise ValueError(
                f"{self.registered_name} cannot augment series of codes; choose another"
            )


class Compose(Augmentation):
    """A sum of augmentations, as in ``"warp+jitter"``; at most one part mixes series."""

    def __init__(self, parts: Sequence[Augmentation]):
        mixing = [augmentation.registered_name for augmentation in parts if augmentation.mixes]
        if len(mixing) > 1:
            raise ValueError(f"{' and '.join(mixing)} both mix series with others: keep one")
        self.parts = tuple(parts)
        self.mixes = bool(mixing)
        self.symbolic = all(augmentation.symbolic for augmentation in parts)
        self.reference = "; ".join(dict.fromkeys(p.reference for p in parts if p.reference))

    def saved(self) -> tuple[str, dict[str, Any]]:
        """Return the names and the options of the parts."""
        params = dict(augmentation.saved() for augmentation in self.parts)
        return "+".join(params), params

    def __call__(self, batch: Batch) -> Batch:
        for augmentation in self.parts:
            batch = augmentation(batch)
        return batch

    def check(self, *, symbolic: bool) -> None:
        for augmentation in self.parts:
            augmentation.check(symbolic=symbolic)

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))


#: An augmentation to build: a name or sum of names such as ``"warp+jitter"``, an instance, a class,
#: or a function that takes the options as keywords and returns an instance. `resolve` builds it.
AugmentationSpec = str | Augmentation | type[Augmentation] | Callable[..., Augmentation]


def resolve(augmentation: AugmentationSpec, **augmentation_params: Any) -> Augmentation:
    """Build an augmentation from its name, a sum of names, an instance, a class or a factory.

    Parameters
    ----------
    augmentation : str, Augmentation, Augmentation subclass, or callable
        A name, a sum such as ``"warp+jitter"``, an instance, a class or a factory of one.
    **augmentation_params
        Options of the class. In a sum an option goes to the one part that has it; if several have
        it, nest it under the name of the part: ``warp={"p": 1.0}, jitter={"p": 0.1}``.

    Raises
    ------
    TypeError, ValueError
        For another type, an unknown name or option, a part twice, and parts that both mix series.

    Examples
    --------
    >>> resolve("warp", sigma=0.1)
    Warp(p=0.5, sigma=0.1, knots=5)
    """
    parts = build(Augmentation, augmentation, augmentation_params, sum_of="warp+jitter")
    return parts[0] if len(parts) == 1 else Compose(parts)


def relative_times(batch: Batch) -> Tensor:
    """Return times ``[1 | B, L]``: 0 at the first valid step of a series and 1 at its last."""
    x, mask, t = batch.values, batch.mask, batch.times
    if t is None:
        t = torch.arange(x.shape[1], device=x.device, dtype=torch.float32)[None]
    if mask is None:
        first, last = t[:, :1], t[:, -1:]
    else:
        first = t.where(mask, torch.inf).amin(dim=1, keepdim=True)
        last = t.where(mask, -torch.inf).amax(dim=1, keepdim=True)
    span = last - first
    return ((t - first) / span.where(span > 0, 1.0)).clamp(0.0, 1.0)


def read(batch: Batch, where: Tensor, at: Tensor) -> Tensor:
    """Return the values ``[B, M, C]`` at relative times `at` ``[B, M]``, interpolated linearly.

    `where` are the `relative_times` of the batch. Codes come from the nearer valid step; of several
    steps at one time the last is read.
    """
    x, mask = batch.values, batch.mask
    B, L = x.shape[:2]
    known = where.expand(B, L).contiguous()
    steps, last = None, at.new_full((), L - 1, dtype=torch.long)
    if mask is not None:  # indices of valid steps, zeros after them, and the last rank
        rank = mask.cumsum(dim=1) - 1
        column = rank.where(mask, L)  # masked steps go to an additional column, which is cut off
        step = torch.arange(L, device=x.device)
        steps = column.new_zeros(B, L + 1).scatter(1, column, step.expand(B, L))[:, :L]
        last = rank[:, -1:].clamp(min=0)
        known = known.gather(1, steps).where(step <= last, torch.inf)
    after = torch.searchsorted(known, at.contiguous(), right=True)
    left, right = (after - 1).clamp(min=0).minimum(last), after.minimum(last)
    start, end = known.gather(1, left), known.gather(1, right)
    gap = end - start
    share = ((at - start) / gap.where(gap > 0, 1.0)).clamp(0.0, 1.0)
    if steps is not None:
        left, right = steps.gather(1, left), steps.gather(1, right)
    if batch.symbolic:
        left = left.where(share < 0.5, right)
    lower, upper = [x.gather(1, i[..., None].expand(-1, -1, x.shape[2])) for i in (left, right)]
    return lower if batch.symbolic else torch.lerp(lower, upper, share[..., None].to(x.dtype))


def shifted(batch: Batch, where: Tensor, shift: Tensor) -> Tensor:
    """Return values ``[B, L, C]`` read `shift` later; kept where it is 0 and at masked steps."""
    moved = shift != 0 if batch.mask is None else (shift != 0) & batch.mask
    return read(batch, where, where + shift).where(moved[..., None], batch.values)
