"""Build an augmentation from a specification such as ``"warp+jitter"``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tsformer._registry import build, part_names, share_out
from tsformer.augmentation.base import Augmentation, Sum

__all__ = ["AugmentationSpec", "resolve"]

#: An augmentation to build: a name or sum of names such as ``"warp+jitter"``, an instance, a class,
#: or a function that takes the options as keywords and returns an instance. `resolve` builds it.
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
        If `augmentation` has another type, a factory returns something else, or options come with
        an instance.
    ValueError
        If a name or an option is unknown, with the nearest match and all choices; if a sum names
        a part twice, or several parts that mix series; or if an option of a sum fits several parts.

    Examples
    --------
    >>> resolve("warp", sigma=0.1)
    Warp(p=0.5, sigma=0.1, knots=5)
    """
    if not isinstance(augmentation, str):
        names = "a name, a sum of names such as 'warp+jitter'"
        return build(Augmentation, augmentation, augmentation_params, names=names)
    parts = part_names(augmentation)
    classes = [Augmentation.registry.find(name) for name in parts]
    options = [list(inspect.signature(cls).parameters) for cls in classes]
    shares = share_out(parts, options, augmentation_params, argument="augmentation_params")
    made = [build(Augmentation, cls, own) for cls, own in zip(classes, shares, strict=True)]
    return made[0] if len(made) == 1 else Sum(made)
