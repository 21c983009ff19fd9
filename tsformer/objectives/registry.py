"""Objectives by name: register, unregister, list, look up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsformer._registry import Registry

if TYPE_CHECKING:
    from tsformer.objectives.base import Objective

__all__ = ["REGISTRY", "available", "find", "names", "register", "unregister"]

REGISTRY: Registry[Objective] = Registry("objective")


def register(name: str, cls: type[Objective], *, replace: bool = False) -> None:
    """Register an objective class under a name.

    Raises
    ------
    ValueError
        If the name is empty, has whitespace at its ends or contains '+'; or if it is taken, unless
        `replace` is true.
    """
    REGISTRY.register(name, cls, replace=replace)


def unregister(name: str) -> type[Objective]:
    """Remove a name and return its class; raise ValueError as `find` does."""
    return REGISTRY.unregister(name)


def names() -> list[str]:
    """Return the names of all registered objectives, in the order of registration."""
    return REGISTRY.names()


def find(name: str) -> type[Objective]:
    """Return the objective class of that name, or raise ValueError with the nearest match."""
    return REGISTRY.find(name)


def available() -> list[dict[str, Any]]:
    """Return a table of the registered objectives, one row each.

    Returns
    -------
    list of dict
        With the keys name, reference and summary (the first line of the docstring).

    Examples
    --------
    >>> [row["name"] for row in available()]
    ['masked', 'contrastive']
    """
    return [
        {
            "name": name,
            "reference": find(name).reference,
            "summary": (find(name).__doc__ or "").strip().partition("\n")[0],
        }
        for name in names()
    ]
