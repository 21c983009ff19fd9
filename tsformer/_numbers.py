"""The check of the numbers that users pass as options of a part."""

from __future__ import annotations

from math import inf
from numbers import Integral, Real
from typing import Any

from tsformer._names import shortened

__all__ = ["check_number"]


def check_number(
    what: str,
    value: Any,
    low: float,
    high: float = inf,
    *,
    whole: bool = False,
    excluded: bool = False,
) -> None:
    """Raise ValueError if an option is no finite number from `low` to `high`."""
    number = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if number and (low < value < high if excluded else low <= value <= high and value < inf):
        return
    if excluded:
        allowed = f" above {low:.15g}" if high == inf else f" between {low:.15g} and {high:.15g}"
    else:
        allowed = f", at least {low:.15g}" if high == inf else f", from {low:.15g} to {high:.15g}"
    noun = "a whole number" if whole else "a finite number"
    raise ValueError(f"{what} must be {noun}{allowed}; got {shortened(value)}")
