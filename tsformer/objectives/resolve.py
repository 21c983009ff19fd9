"""From what a user writes, such as ``"masked"`` and a dict of options, to an objective."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tsformer._sums import check_options
from tsformer.objectives.base import Objective
from tsformer.objectives.registry import find

__all__ = ["ObjectiveSpec", "resolve"]

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
        If `objective` is none of these, a factory returns something else, or options come with an
        instance.
    ValueError
        If a name or an option is unknown, with the nearest match and all choices.

    Examples
    --------
    >>> resolve("masked", ratio=0.3)
    Masked(ratio=0.3, span=3.0)
    """
    if isinstance(objective, Objective):
        if objective_params:
            raise TypeError(
                f"objective is an instance already, {objective!r}, and takes no further options; "
                f"got {', '.join(map(repr, objective_params))} in objective_params"
            )
        return objective
    factory = find(objective) if isinstance(objective, str) else objective
    if not callable(factory):
        raise TypeError(
            "objective must be a name, an Objective, its class or a factory; "
            f"got {objective!r} of type {type(objective).__name__}"
        )
    if isinstance(factory, type) and issubclass(factory, Objective):
        options = list(inspect.signature(factory).parameters)
        label = factory.name or factory.__name__
        check_options(label, options, objective_params, argument="objective_params")
    made = factory(**objective_params)
    if not isinstance(made, Objective):
        raise TypeError(
            f"the objective factory {factory!r} returned {type(made).__name__}; it must return an "
            "Objective"
        )
    return made
