"""Classes by name, as encodings and augmentations are chosen: register, unregister, look up."""

from __future__ import annotations

from typing import Generic, TypeVar

from tsformer._names import unknown

__all__ = ["Registry"]

Base = TypeVar("Base")


class Registry(Generic[Base]):
    """The subclasses of a base class that have a name, in the order of registration.

    Examples
    --------
    >>> shapes = Registry[object]("shape")
    >>> shapes.register("round", int)
    >>> shapes.find("round"), shapes.names()
    (<class 'int'>, ['round'])
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._classes: dict[str, type[Base]] = {}

    def register(self, name: str, cls: type[Base], *, replace: bool = False) -> None:
        """Register a class under a name."""
        if not name or "+" in name or name != name.strip():
            article = "an" if self.kind[0] in "aeiou" else "a"
            raise ValueError(
                f"{article} {self.kind} cannot be named {name!r}: a name must not be empty, start "
                "or end with whitespace, or contain '+', which joins names into a sum"
            )
        if name in self._classes and not replace:
            taken = self._classes[name]
            raise ValueError(
                f"the {self.kind} name {name!r} is taken by {taken.__module__}."
                f"{taken.__qualname__}; choose another, or pass replace=True beside name="
            )
        self._classes[name] = cls

    def unregister(self, name: str) -> type[Base]:
        """Remove a name and return its class; raise ValueError as `find` does."""
        cls = self.find(name)
        del self._classes[name]
        return cls

    def names(self) -> list[str]:
        """Return all names, in the order of registration."""
        return list(self._classes)

    def find(self, name: str) -> type[Base]:
        """Return the class of that name, or raise ValueError with the nearest match."""
        if name not in self._classes:
            raise ValueError(unknown(self.kind, name, self._classes))
        return self._classes[name]
