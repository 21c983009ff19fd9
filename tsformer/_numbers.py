"""Check numbers that users pass."""

from __future__ import annotations

from math import inf
from numbers import Integral, Real
from typing import Any

from tsformer._names import shortened


def is_one_of(value: Any, choices: tuple[Any, ...]) -> bool:
    """Whether a value is among some choices; arrays are not."""
    plain = isinstance(value, str) or not hasattr(value, "__len__")
    return any(value is choice or (plain and bool(value == choice)) for choice in choices)


def check_number(
    name: str,
    value: Any,
    low: float,
    high: float = inf,
    *,
    whole: bool = False,
    excluded: bool = False,
    also: tuple[Any, ...] = (),
) -> None:
    """Raise TypeError or ValueError unless a value is a finite number in range, or in `also`."""
    if is_one_of(value, also):
        return
    kind, (above, below) = ("an int" if whole else "a float"), ("><" if excluded else (">=", "<="))
    allowed = f"{kind} {above} {low:.15g}"
    if high != inf:
        allowed += f" and {below} {high:.15g}"
    if also:
        allowed += f", or {', '.join(map(repr, also))}"
    given = shortened(value)
    if isinstance(value, bool) or not isinstance(value, Integral if whole else Real):
        raise TypeError(f"{name} must be {allowed}; got {given} of type {type(value).__name__}")
    number: Any = value
    within = low < number < high if excluded else low <= number <= high
    if not within or number == inf:
        raise ValueError(f"{name} must be {allowed}; got {given}")
