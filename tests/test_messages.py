"""Messages of errors and warnings: lower case after a semicolon, and the nearest name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tsformer
from tsformer._names import unknown

SOURCES = sorted(Path(tsformer.__file__).parent.rglob("*.py"))
#: A word in title case; X, NaN, CPU and TSTransformer are none.
CAPITAL = re.compile(r";\s+[A-Z][a-z]+\b")
NAMES = re.compile(r"; Ctrl-C")


def texts(source: str) -> Iterator[str]:
    """Yield all strings but docstrings, with {} in place of what is formatted into them."""
    tree = ast.parse(source)
    # A string that is a statement says nothing to a user, and parts of an f-string are no text.
    skipped = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped |= {id(part) for part in node.values}
            parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in skipped:
            yield str(node.value)


def test_lower_case_after_a_semicolon():
    said = [(path.name, text) for path in SOURCES for text in texts(path.read_text())]
    assert len(said) > 1000
    assert [each for each in said if CAPITAL.search(NAMES.sub("", each[1]))] == []


def test_the_choices_after_an_unknown_name():
    near = "unknown stem 'cnv': did you mean 'conv'? Choose from: 'conv', None"
    assert unknown("stem", "cnv", ["conv", None]) == near
    assert unknown("stem", "x", ["conv", None]) == "unknown stem 'x'; choose from: 'conv', None"
