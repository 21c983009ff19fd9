"""Encodings by name: register, list, look up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsformer._names import unknown

if TYPE_CHECKING:
    from tsformer.encodings.base import PositionalEncoding

__all__ = ["available", "find", "names", "register"]

_REGISTRY: dict[str, type[PositionalEncoding]] = {}


def register(name: str, cls: type[PositionalEncoding], *, replace: bool = False) -> None:
    """Give an encoding class its name; a taken name raises ValueError unless `replace`."""
    if not name or "+" in name or name != name.strip():
        raise ValueError(
            f"an encoding cannot be named {name!r}: a name is not empty, has no blank at its ends "
            "and no '+', which joins names into a sum"
        )
    if name in _REGISTRY and not replace:
        taken = _REGISTRY[name]
        raise ValueError(
            f"the encoding name {name!r} is taken by {taken.__module__}.{taken.__qualname__}; "
            "choose another, or pass replace=True beside name="
        )
    _REGISTRY[name] = cls


def names() -> list[str]:
    """Return the names of all registered encodings, in the order of registration."""
    return list(_REGISTRY)


def find(name: str) -> type[PositionalEncoding]:
    """Return the encoding class of that name, or raise ValueError with the nearest match."""
    if name not in _REGISTRY:
        raise ValueError(unknown("encoding", name, names()))
    return _REGISTRY[name]


def available() -> list[dict[str, object]]:
    """Return one row per registered encoding, as a table of what there is to choose from.

    Returns
    -------
    list of dict
        With the keys name, kind, beyond, symmetric, per_block, reference and summary (the
        first line of the docstring).

    Examples
    --------
    >>> [row["kind"] for row in available() if row["name"] == "rope"]
    ['rotate']
    """
    return [
        {
            "name": name,
            "kind": cls.kind,
            "beyond": cls.beyond,
            "symmetric": cls.symmetric,
            "per_block": cls.per_block,
            "reference": cls.reference,
            "summary": (cls.__doc__ or "").strip().partition("\n")[0],
        }
        for name, cls in _REGISTRY.items()
    ]
