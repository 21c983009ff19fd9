"""Deprecated public names, which keep working for one version and name their replacement."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["REMOVED_IN", "renamed_attribute", "renamed_in_module", "warn_renamed"]

#: The version in which the old names of 0.1 will be removed.
REMOVED_IN = "0.3"


def warn_renamed(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Issue the FutureWarning for an old name, by default on behalf of the caller's caller.

    Parameters
    ----------
    old, new : str
        Names as a user writes them, such as ``"scaler_"`` and ``"preprocessor_"``.
    stacklevel : int, default=3
        As in `warnings.warn`, counted from here.
    """
    warnings.warn(
        f"{old} was renamed to {new}; the old name will be removed in version {REMOVED_IN}",
        FutureWarning,
        stacklevel=stacklevel,
    )


def renamed_attribute(old: str, new: str) -> property:
    """Return a property that gets and sets the attribute `new` under its old name.

    Examples
    --------
    >>> class Model:
    ...     mask = 1
    ...     keep = renamed_attribute("keep", "mask")
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     Model().keep
    1
    >>> print(caught[0].message)
    keep was renamed to mask; the old name will be removed in version 0.3
    """

    def read(self: object) -> Any:
        warn_renamed(old, new)
        return getattr(self, new)

    def write(self: object, value: object) -> None:
        warn_renamed(old, new)
        setattr(self, new, value)

    return property(read, write, doc=f"Deprecated: use `{new}`.")


def renamed_in_module(module: str, renamed: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a module's ``__getattr__`` that resolves old names.

    Parameters
    ----------
    module : str
        Name of the module that had the old names.
    renamed : mapping
        Old name to the full dotted path of its replacement.

    Examples
    --------
    >>> find = renamed_in_module("tsformer", {"Old": "tsformer.model.TSTransformer"})
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     find("Old").__name__
    'TSTransformer'
    >>> str(caught[0].message).partition(";")[0]
    'tsformer.Old was renamed to tsformer.model.TSTransformer'
    """

    def find(name: str) -> Any:
        if name not in renamed:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn_renamed(f"{module}.{name}", renamed[name])
        home, _, new = renamed[name].rpartition(".")
        return getattr(import_module(home), new)

    return find
