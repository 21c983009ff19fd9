"""Tables, and commands as they have to be typed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any

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

    A name that starts with a blank is right-aligned; no name is `note` in JSON.
    """
    if as_json:
        keys = [name.strip().replace(" ", "_") or "note" for name in header]
        typer.echo(json.dumps([dict(zip(keys, row, strict=True)) for row in rows], indent=2))
        return
    # No padding: the longest names of the archives and six numbers take 78 columns.
    shown = Table(box=SIMPLE_HEAD, padding=0, show_edge=False, header_style="bold")
    for i, name in enumerate(header):  # the first column, of names, is never cut
        column: Any = {"justify": "right" if name[:1] == " " else "left", "no_wrap": not i}
        shown.add_column(name.strip(), **column)
    for row in rows:
        shown.add_row(*(Text(_text(cell)) for cell in row))  # Rich would parse [B, D] as markup
    _console().print(shown)


def _text(cell: object) -> str:
    if isinstance(cell, dict):
        return " ".join(map(_text, cell.values()))
    if isinstance(cell, bool) or cell is None:
        return {True: "yes", False: "no", None: "-"}[cell]
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def print_markdown(text: str) -> None:
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
    program = "tsformer" if shutil.which("tsformer") else f"{sys.executable} -m tsformer"
    return command.replace("tsformer", program, 1)
