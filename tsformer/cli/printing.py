"""Tables, the progress bar, and commands as they have to be typed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from tsformer.cli.parsing import option

Json = Annotated[bool, option("Print JSON, for scripts.", None, "--json")]


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], *, as_json: bool = False
) -> None:
    """Print rows as a table, or as a JSON list of objects.

    A column whose name starts with a blank is right-aligned, and has numbers in JSON. A column
    without a name is `note` in JSON. Of a dict, the table shows the values.
    """
    if as_json:
        keys = [name.strip().replace(" ", "_") or "note" for name in header]
        kinds = [_number if name.startswith(" ") else lambda cell: cell for name in header]
        found = [
            {key: kind(cell) for key, kind, cell in zip(keys, kinds, row, strict=True)}
            for row in rows
        ]
        typer.echo(json.dumps(found, indent=2))
        return
    # No padding: the longest names of the archives and six numbers take 78 columns.
    shown = Table(box=SIMPLE_HEAD, padding=0, show_edge=False, header_style="bold")
    for i, name in enumerate(header):
        side: Literal["left", "right"] = "right" if name.startswith(" ") else "left"
        shown.add_column(name.strip(), justify=side, no_wrap=i == 0)  # names are never cut
    for row in rows:
        shown.add_row(*map(_text, row))
    _console().print(shown)


def _text(cell: object) -> Text:
    if isinstance(cell, bool):
        cell = ("no", "yes")[cell]
    words = cell.values() if isinstance(cell, dict) else [cell]
    shown = ("-" if word is None else str(word) for word in words)
    return Text(" ".join(shown))  # Rich would parse [B, D] in a string as markup


def _number(cell: object) -> object:
    """Return the number that a cell shows, or its text."""
    text = str(cell)
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text.replace(",", ""))
    return text


def markdown(text: str) -> None:
    """Print rendered Markdown."""
    _console().print(Markdown(text))


def _console() -> Console:
    """Return a console on standard output; a file, which Rich gives 80 columns, has 160."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 160
    return console


def as_typed(command: str) -> str:
    """Return a command of tsformer as the user has to type it: it may not be on the path."""
    return command.replace("tsformer", _program(), 1)


def _program() -> str:
    if shutil.which("tsformer"):
        return "tsformer"
    beside = Path(sys.executable).with_name("tsformer")
    return os.path.relpath(beside) if beside.is_file() else f"{sys.executable} -m tsformer"
