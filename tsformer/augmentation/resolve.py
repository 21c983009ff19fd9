"""From what a user writes, such as ``"warp+jitter"`` and a dict of options, to an augmentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from tsformer._sums import check_options, part_names, share_out
from tsformer.augmentation.base import Augmentation, Sum
from tsformer.augmentation.registry import find

__all__ = ["AugmentationSpec", "resolve"]

AugmentationSpec = str | Augmentation | type[Augmentation] | Callable[..., Augmentation]


def resolve(augmentation: AugmentationSpec, **augmentation_params: Any) -> Augmentation:
    """Build an augmentation from its name, a sum of names, an instance, a class or a factory.

    Parameters
    ----------
    augmentation : str, Augmentation, Augmentation subclass, or callable
        ``"warp"``; a sum such as ``"warp+jitter"``, whose parts apply in order; an instance; a
        class; or a callable that takes the options as keywords and returns an Augmentation.
    **augmentation_params
        Options of the class. In a sum an option goes to the one part that has it; if several
        have it, or to be explicit, nest it under the name of the part:
        ``warp={"p": 1.0}, jitter={"p": 0.1}`` for "warp+jitter".

    Returns
    -------
    Augmentation

    Raises
    ------
    TypeError
        If `augmentation` is none of these, a factory returns something else, or options come with
        an instance.
    ValueError
        If a name or an option is unknown, with the nearest match and all choices; if a sum names
        a part twice, or several parts that mix series; or if an option of a sum fits several parts.

    Examples
    --------
    >>> resolve("warp", sigma=0.1)
    Warp(p=0.5, sigma=0.1, knots=5)
    """
    if isinstance(augmentation, Augmentation):
        if augmentation_params:
            raise TypeError(
                f"augmentation is an instance already, {augmentation!r}, and takes no further "
                f"options; got {', '.join(map(repr, augmentation_params))} in augmentation_params"
            )
        return augmentation
    if not isinstance(augmentation, str):
        if not callable(augmentation):
            raise TypeError(
                "augmentation must be a name, a sum of names such as 'warp+jitter', an "
                "Augmentation, its class or a factory; "
                f"got {augmentation!r} of type {type(augmentation).__name__}"
            )
        return _make(augmentation, augmentation_params)
    parts = part_names(augmentation)
    classes = [find(name) for name in parts]
    options = [_options(cls) for cls in classes]
    shares = share_out(parts, options, augmentation_params, argument="augmentation_params")
    made = [_make(cls, own) for cls, own in zip(classes, shares, strict=True)]
    return made[0] if len(made) == 1 else Sum(made)


def _make(factory: Callable[..., Augmentation], params: Mapping[str, Any]) -> Augmentation:
    if isinstance(factory, type) and issubclass(factory, Augmentation):
        label = factory.name or factory.__name__
        check_options(label, _options(factory), params, argument="augmentation_params")
    made = factory(**params)
    if not isinstance(made, Augmentation):
        raise TypeError(
            f"the augmentation factory {factory!r} returned {type(made).__name__}; "
            "it must return an Augmentation"
        )
    return made


def _options(cls: type[Augmentation]) -> list[str]:
    return list(inspect.signature(cls).parameters)
