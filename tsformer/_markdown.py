"""Markdown: names and tables that no text can break out of."""

import re
from collections.abc import Iterable, Sequence


def escaped(value: object) -> str:
    """Escape a value for a line of Markdown."""
    text = re.sub(r"([\\`*_<>|\[\]&~])", r"\\\1", str(value))
    return " ".join(text.split()) if len(text.splitlines()) > 1 else text


def code(name: object) -> str:
    """Return a name in code style, or escaped if it has characters that end a code span."""
    text = " ".join(str(name).split())
    return escaped(text) if not text or re.search(r"[`|\\]", text) else f"`{text}`"


def markdown_table(header: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    r"""Return a Markdown table; a column whose name starts with a blank is right-aligned.

    `DataFrame.to_markdown` pads columns, which rewrites committed tables, and escapes no ``|``.
    """
    rule = ["---:" if name.startswith(" ") else "---" for name in header]
    lines = [[name.strip() for name in header], rule, *rows]
    cells = [[re.sub(r"(?<!\\)\|", r"\|", str(value)) for value in line] for line in lines]
    return "".join(f"| {' | '.join(line)} |\n" for line in cells)
