"""Checks of arguments, and the texts of their errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from math import inf
from numbers import Integral, Real
from typing import Any


def shortened(value: object, most: int = 100) -> str:
    """Return the `repr` of a value for an error message, cut after `most` characters."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."


def nearest(name: object, choices: Iterable[object]) -> list[str]:
    """Return the choices that are spelled like `name`, at most five, the nearest first."""
    spelled = {str(choice).lower(): choice for choice in choices if isinstance(choice, str)}
    near = difflib.get_close_matches(str(name)[:100].lower(), spelled, n=5, cutoff=0.6)
    return [spelled[key] for key in near]


def unknown(kind: str, name: object, choices: Iterable[object], *, most: int = 40) -> str:
    """Return an error message for an unknown name, with the nearest match and the choices."""
    choices = list(choices)
    near = nearest(name, choices)
    message = f"unknown {kind} {shortened(name)}"
    if near:
        message += f": did you mean {near[0]!r}?"
    if len(choices) <= most:
        chosen = ", ".join(map(repr, choices))
        return f"{message}{' Choose' if near else '; choose'} from: {chosen}"
    if len(near) > 1:
        message += f" Near it: {', '.join(repr(each) for each in near[1:])}."
    return f"{message} ({len(choices)} are known)"


def listed(names: Iterable[object], counts: Iterable[int] = ()) -> str:
    """Return names of at most 40 characters with counts, at most 20."""
    texts = [text if len(text) <= 40 else f"{text[:37]}..." for text in map(str, names)]
    numbers = [f" ({n:,})" for n in counts] or [""] * len(texts)
    parts = [text + number for text, number in zip(texts, numbers, strict=True)]
    rest = [f"and {len(parts) - 20:,} more"] if len(parts) > 20 else []
    return ", ".join([*parts[:20], *rest])


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
