"""Hooks around `fit`; tracking subscribes to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from tsformer.training import Callback


@dataclass
class Fit:
    """One call of `fit`, as passed to observers."""

    estimator: Any
    X: Any
    y: Any
    data: dict[str, Any]
    callbacks: list[Callback] = field(default_factory=list)
    interrupted: bool = False


#: Returns a context manager around a fit.
Observer = Callable[[Fit], AbstractContextManager[object]]

_observers: list[Observer] = []
_inside: ContextVar[bool] = ContextVar("inside an observed fit", default=False)


def add_observer(observer: Observer) -> None:
    """Call `observer` around every fit of this process from now on."""
    if observer not in _observers:
        _observers.append(observer)


def remove_observer(observer: Observer) -> None:
    """Undo `add_observer`; a no-op for an unknown observer."""
    if observer in _observers:
        _observers.remove(observer)


@contextmanager
def observed(estimator: Any, X: Any, y: Any, **data: Any) -> Iterator[Fit]:
    """Call the observers around the block, unless inside another observed fit."""
    fit = Fit(estimator, X, y, data)
    if _inside.get() or not _observers:
        yield fit
        return
    token = _inside.set(True)
    try:
        with ExitStack() as stack:
            for observer in list(_observers):
                stack.enter_context(observer(fit))
            yield fit
    finally:
        _inside.reset(token)


@contextmanager
def unobserved() -> Iterator[None]:
    """Disable observers inside the block, for auxiliary fits."""
    token = _inside.set(True)
    try:
        yield
    finally:
        _inside.reset(token)
