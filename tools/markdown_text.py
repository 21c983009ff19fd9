"""Markdown from numbers and from numpydoc docstrings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection
from math import isnan


def mean_and_spread(mean: float, spread: float, digits: int = 3) -> str:
    """Return "0.950 ± 0.071"; the mean alone if `spread` is NaN, "–" if `mean` is."""
    if isnan(mean):
        return "–"
    return f"{mean:.{digits}f}" + ("" if isnan(spread) else f" ± {spread:.{digits}f}")


def sections(docstring: str) -> dict[str, str]:
    """Split a dedented numpydoc docstring into its sections; the first is called ""."""
    parts = re.split(r"^(\w[\w ]*)\n-{3,}\n", docstring, flags=re.MULTILINE)
    titles = ["", *parts[1::2]]
    return dict(zip(titles, (part.strip() for part in parts[0::2]), strict=True))


def options(parameters: str, *, leave_out: Collection[str]) -> str:
    """Return the section "Parameters" as a list, without the parameters in `leave_out`."""
    items = []
    for entry in re.split(r"\n(?=\S)", parameters):
        head, _, body = entry.partition("\n")
        names, _, kind = head.partition(" : ")
        names = [name for name in names.split(", ") if name not in leave_out]
        if names:
            text = textwrap.indent(textwrap.dedent(body), "  ")
            items.append(f"- {', '.join(f'`{name}`' for name in names)} ({kind}):\n{text}\n")
    return "".join(items)
