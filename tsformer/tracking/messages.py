"""Warnings of tracking: one place that can be silenced."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tsformer.tracking.credentials import masked

__all__ = ["reason", "silenced", "warn", "warn_untracked"]

_silent: ContextVar[bool] = ContextVar("tracking is silent", default=False)


@contextmanager
def silenced(silent: bool = True) -> Iterator[None]:
    """Issue no warnings of tracking inside the block."""
    token = _silent.set(silent or _silent.get())
    try:
        yield
    finally:
        _silent.reset(token)


def warn(message: str, stacklevel: int = 2) -> None:
    """Issue a warning of tracking, unless these are silenced."""
    if not _silent.get():
        warnings.warn(message, stacklevel=stacklevel + 1)


def reason(error: Exception) -> str:
    """Return the first line of the error's message, without passwords."""
    message = masked(str(error).partition("\n")[0])
    return f"({type(error).__name__}: {message[:200]})"


def warn_untracked(what: str, error: Exception) -> None:
    """Warn that tracking stopped, and why."""
    warn(f"tracking of {what} stopped; the work itself continues {reason(error)}", stacklevel=3)
