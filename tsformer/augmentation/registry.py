"""Augmentations by name: register, unregister, list, look up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsformer._registry import Registry

if TYPE_CHECKING:
    from tsformer.augmentation.base import Augmentation

__all__ = ["REGISTRY", "available", "find", "names", "register", "unregister"]

REGISTRY: Registry[Augmentation] = Registry("augmentation")


def register(name: str, cls: type[Augmentation], *, replace: bool = False) -> None:
    """Register an augmentation class under a name.

    Raises
    ------
    ValueError
        If the name is empty, has whitespace at its ends or contains '+'; or if it is taken, unless
        `replace` is true.
    """
    REGISTRY.register(name, cls, replace=replace)


def unregister(name: str) -> type[Augmentation]:
    """Remove an augmentation from the registry, as between tests or to run a notebook cell again.

    Parameters
    ----------
    name : str
        Name of a registered augmentation.

    Returns
    -------
    type
        The class that had the name.

    Raises
    ------
    ValueError
        If no augmentation has that name, with the nearest match.

    Examples
    --------
    >>> from tsformer.augmentation import Augmentation, names
    >>> class Draft(Augmentation, name="draft"):
    ...     pass
    >>> unregister("draft") is Draft, "draft" in names()
    (True, False)
    """
    return REGISTRY.unregister(name)


def names() -> list[str]:
    """Return the names of all registered augmentations, in the order of registration."""
    return REGISTRY.names()


def find(name: str) -> type[Augmentation]:
    """Return the augmentation class of that name, or raise ValueError with the nearest match."""
    return REGISTRY.find(name)


def available() -> list[dict[str, Any]]:
    """Return a table of the registered augmentations, one row each.

    Returns
    -------
    list of dict
        With the keys name, mixes, symbolic, reference and summary (the first line of the
        docstring). See `Augmentation`.

    Examples
    --------
    >>> [row["name"] for row in available() if not row["symbolic"]]
    ['jitter']
    """
    return [
        {
            "name": name,
            "mixes": cls.mixes,
            "symbolic": cls.symbolic,
            "reference": cls.reference,
            "summary": (cls.__doc__ or "").strip().partition("\n")[0],
        }
        for name, cls in ((name, find(name)) for name in names())
    ]
