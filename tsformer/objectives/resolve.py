"""Build an objective from a specification such as ``"masked"``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tsformer._registry import build
from tsformer.objectives.base import Objective

__all__ = ["ObjectiveSpec", "resolve"]

#: An objective to build: a name, an instance, a class, or a function that takes the options as
#: keywords and returns an instance. `resolve` builds it.
ObjectiveSpec = str | Objective | type[Objective] | Callable[..., Objective]


def resolve(objective: ObjectiveSpec, **objective_params: Any) -> Objective:
    """Build an objective from its name, an instance, a class or a factory.

    Parameters
    ----------
    objective : str, Objective, Objective subclass, or callable
        A name such as ``"masked"``; an instance; a class; or a callable that takes the options as
        keywords and returns an Objective.
    **objective_params
        Options of the class.

    Returns
    -------
    Objective

    Raises
    ------
    TypeError
        If `objective` has another type, a factory returns something else, or options come with an
        instance.
    ValueError
        If a name or an option is unknown, with the nearest match and all choices.

    Examples
    --------
    >>> resolve("masked", ratio=0.3)
    Masked(ratio=0.3, span=3.0)
    """
    return build(Objective, objective, objective_params)
