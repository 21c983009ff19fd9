"""Marks for parametrised tests of which a few cases are enough after each change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

#: An encoding of each hook, a sum, and the control.
ONE_OF_EACH_HOOK = ("lspe", "rope", "alibi", "erpe", "none", "tape+erpe")


def slow_except(values: Iterable[Any], fast: Iterable[Any] = ONE_OF_EACH_HOOK) -> list[Any]:
    """Return the parameters of a test, all but the `fast` ones marked slow.

    Where a value is a tuple, its first entry decides.
    """
    fast = tuple(fast)
    marked = []
    for value in values:
        arguments = value if isinstance(value, tuple) else (value,)
        marks = () if arguments[0] in fast else pytest.mark.slow
        marked.append(pytest.param(*arguments, marks=marks))
    return marked
