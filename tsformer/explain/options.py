"""The check of the numbers that users pass as options."""

from __future__ import annotations

from math import inf
from numbers import Integral, Real
from typing import Any

from tsformer._names import shortened

__all__ = ["check_positive", "check_whole"]


def check_positive(option: str, value: Any) -> None:
    """Raise ValueError if an option is no finite number above 0."""
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not (number and 0 < value < inf):
        raise ValueError(f"{option} must be a finite number above 0; got {shortened(value)}")


def check_whole(option: str, value: Any, low: int, high: float = inf) -> None:
    """Raise ValueError if an option is no whole number from `low` to `high`."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not (whole and low <= value <= high):
        allowed = f"of at least {low}" if high == inf else f"from {low} to {high}"
        raise ValueError(f"{option} must be a whole number {allowed}; got {shortened(value)}")
