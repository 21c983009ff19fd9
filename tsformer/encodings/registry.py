"""Encodings by name: register, unregister, list, look up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsformer._registry import Registry

if TYPE_CHECKING:
    from tsformer.encodings.base import PositionalEncoding

__all__ = ["available", "find", "names", "register", "unregister"]

_REGISTRY: Registry[PositionalEncoding] = Registry("encoding")


def register(name: str, cls: type[PositionalEncoding], *, replace: bool = False) -> None:
    """Register an encoding class under a name."""
    _REGISTRY.register(name, cls, replace=replace)


def unregister(name: str) -> type[PositionalEncoding]:
    """Remove an encoding from the registry, as between tests or to run a notebook cell again.

    Parameters
    ----------
    name : str
        Name of a registered encoding.

    Returns
    -------
    type
        The class that had the name.

    Raises
    ------
    ValueError
        If no encoding has that name, with the nearest match.

    Examples
    --------
    >>> from tsformer.encodings import PositionalEncoding, names
    >>> class Draft(PositionalEncoding, name="draft"):
    ...     pass
    >>> unregister("draft") is Draft, "draft" in names()
    (True, False)
    """
    return _REGISTRY.unregister(name)


def names() -> list[str]:
    """Return the names of all registered encodings, in the order of registration."""
    return _REGISTRY.names()


def find(name: str) -> type[PositionalEncoding]:
    """Return the encoding class of that name, or raise ValueError with the nearest match."""
    return _REGISTRY.find(name)


def available() -> list[dict[str, Any]]:
    """Return a table of the registered encodings, one row each.

    Returns
    -------
    list of dict
        With the keys name, kind, extrapolation, symmetric, per_block, reference and summary (the
        first line of the docstring). See `PositionalEncoding` for their meaning.

    Examples
    --------
    >>> [row["kind"] for row in available() if row["name"] == "rope"]
    ['rotate']
    """
    return [
        dict(
            name=name,
            kind=cls.kind,
            extrapolation=cls.extrapolation,
            symmetric=cls.symmetric,
            per_block=cls.per_block,
            reference=cls.reference,
            summary=(cls.__doc__ or "").strip().partition("\n")[0],
        )
        for name, cls in ((name, find(name)) for name in names())
    ]
