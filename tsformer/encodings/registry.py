"""Encodings by name: register, unregister, list, look up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tsformer._deprecation import warn_renamed
from tsformer._names import unknown

if TYPE_CHECKING:
    from tsformer.encodings.base import PositionalEncoding

__all__ = ["available", "find", "names", "register", "unregister"]

_REGISTRY: dict[str, type[PositionalEncoding]] = {}


def register(name: str, cls: type[PositionalEncoding], *, replace: bool = False) -> None:
    """Register an encoding class under a name.

    Raises
    ------
    ValueError
        If the name is empty, has whitespace at its ends or contains '+'; or if it is taken, unless
        `replace` is true.
    """
    if not name or "+" in name or name != name.strip():
        raise ValueError(
            f"an encoding cannot be named {name!r}: a name must not be empty, start or end with "
            "whitespace, or contain '+', which joins names into a sum"
        )
    if name in _REGISTRY and not replace:
        taken = _REGISTRY[name]
        raise ValueError(
            f"the encoding name {name!r} is taken by {taken.__module__}.{taken.__qualname__}; "
            "choose another, or pass replace=True beside name="
        )
    _REGISTRY[name] = cls


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
    cls = find(name)
    del _REGISTRY[name]
    return cls


def names() -> list[str]:
    """Return the names of all registered encodings, in the order of registration."""
    return list(_REGISTRY)


def find(name: str) -> type[PositionalEncoding]:
    """Return the encoding class of that name, or raise ValueError with the nearest match."""
    if name not in _REGISTRY:
        raise ValueError(unknown("encoding", name, names()))
    return _REGISTRY[name]


def available() -> list[dict[str, Any]]:
    """Return a table of the registered encodings, one row each.

    Returns
    -------
    list of dict
        With the keys name, kind, extrapolation, symmetric, per_block, reference and summary (the
        first line of the docstring). `PositionalEncoding` says what they mean.

    Examples
    --------
    >>> [row["kind"] for row in available() if row["name"] == "rope"]
    ['rotate']
    """
    return [
        _Row(
            name=name,
            kind=cls.kind,
            extrapolation=cls.extrapolation,
            symmetric=cls.symmetric,
            per_block=cls.per_block,
            reference=cls.reference,
            summary=(cls.__doc__ or "").strip().partition("\n")[0],
        )
        for name, cls in _REGISTRY.items()
    ]


class _Row(dict[str, Any]):
    """A row that still answers to the key "beyond" of 0.1."""

    def __missing__(self, key: str) -> Any:
        if key != "beyond":
            raise KeyError(key)
        warn_renamed('the key "beyond" of available()', '"extrapolation"')
        return self["extrapolation"]
