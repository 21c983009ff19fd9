"""Marks for parametrised tests: a few cases run after each change, others before a merge."""

from collections.abc import Iterable
from typing import Any

import pytest

#: An encoding of each hook, a sum, and the control.
ONE_OF_EACH_HOOK = ("lspe", "rope", "alibi", "erpe", "none", "tape+erpe")


def slow_except(
    values: Iterable[Any], fast: Iterable[Any] = ONE_OF_EACH_HOOK, mark: Any = pytest.mark.slow
) -> list[Any]:
    """Return the parameters of a test, marked slow except those in `fast`, by their first entry."""
    rows = [value if isinstance(value, tuple) else (value,) for value in values]
    plain = tuple(fast)
    return [pytest.param(*row, marks=() if row[0] in plain else mark) for row in rows]


def exhaustive_except(values: Iterable[Any], enough: Iterable[Any] = ONE_OF_EACH_HOOK) -> list[Any]:
    """Return the parameters of a test, marked exhaustive except those in `enough`."""
    return slow_except(values, enough, pytest.mark.exhaustive)
