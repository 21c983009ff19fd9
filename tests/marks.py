"""Marks for parametrised tests: a few cases run after each change, others before a merge."""

from collections.abc import Iterable
from typing import Any

import pytest

#: An encoding of each hook, a sum, and the control.
ONE_OF_EACH_HOOK = ("lspe", "rope", "alibi", "erpe", "none", "tape+erpe")


def slow_except(values: Iterable[Any], fast: Iterable[Any] = ONE_OF_EACH_HOOK) -> list[Any]:
    """Return the parameters of a test, all but the `fast` ones marked slow.

    Where a value is a tuple, its first entry decides.
    """
    return _marked(values, fast, pytest.mark.slow)


def exhaustive_except(values: Iterable[Any], enough: Iterable[Any] = ONE_OF_EACH_HOOK) -> list[Any]:
    """Return the parameters of a test, marked exhaustive except those in `enough`."""
    return _marked(values, enough, pytest.mark.exhaustive)


def _marked(values: Iterable[Any], plain: Iterable[Any], mark: pytest.MarkDecorator) -> list[Any]:
    plain = tuple(plain)
    marked = []
    for value in values:
        arguments = value if isinstance(value, tuple) else (value,)
        marks = () if arguments[0] in plain else mark
        marked.append(pytest.param(*arguments, marks=marks))
    return marked
