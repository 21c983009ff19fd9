"""How much of the train split a fit gets: numbers of series, or percentages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

#: The size that is the whole train split, in every data set.
WHOLE = "100%"


def train_sizes(values: Any) -> tuple[str, ...]:
    """Return sizes in their one spelling, as in ``("20", "50%")``."""
    if isinstance(values, str | int) or not isinstance(values, Iterable):
        raise TypeError(f'train_sizes must be a list such as [20, "50%", "100%"]; got {values!r}')
    sizes = tuple(map(_one, values))
    for size in sizes:
        if sizes.count(size) > 1:
            raise ValueError(f"train_sizes names {size!r} twice; name each once")
    return sizes


def _one(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int | str):
        hint = f'; write "{100 * value:g}%" for a share' if isinstance(value, float) else ""
        raise TypeError(
            'a train size must be a number of series, such as 20, or a percentage, such as "50%"; '
            f"got {value!r}{hint}"
        )
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(%?)", str(value).strip())
    if found is None or (not found[2] and "." in found[1]):
        raise ValueError(
            "a train size must be a whole number of series, such as 20, or a percentage, such as "
            f'"50%"; got {value!r}'
        )
    number = float(found[1])
    if number <= 0 or (found[2] and number > 100):
        raise ValueError(
            f"a train size must be above zero, and a percentage at most 100%; got {value!r}"
        )
    return f"{number:.10g}%" if found[2] else str(int(found[1]))
