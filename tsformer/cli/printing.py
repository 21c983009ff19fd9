"""Tables, the progress bar, and commands as they have to be typed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from tsformer.cli.parsing import option

if TYPE_CHECKING:
    from tsformer.studies import Progress

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


def one_line(text: str) -> str:
    """Join the lines of a text."""
    return " ".join(text.split())


@contextmanager
def study_bar() -> Iterator[Callable[[Progress], None]]:
    """Show the progress of a comparison on standard error: a line per fit, and a bar."""
    console = Console(stderr=True, highlight=False)
    bar = Bar(
        TextColumn("{task.fields[fits]}"),
        BarColumn(bar_width=24),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
        console=console,
        transient=True,
        speed_estimate_period=inf,  # a fit takes minutes and reports only its end
        disable=not console.is_terminal,
    )
    task = bar.add_task("reading data, opening the tracking store", total=1.0, fits="")

    def show(progress: Progress) -> None:
        name = str(progress.trial or "")
        if progress.event == "fit-end":
            result = one_line(progress.error) or f"accuracy {progress.accuracy:.3f}"
            # In a file one line per fit: Rich wraps at 80 columns there.
            console.print(Text(f"{name}  {result}"), soft_wrap=not console.is_terminal)
        bar.update(
            task,
            completed=progress.fraction,
            fits=f"{progress.done}/{progress.total} fits, {progress.running} running"
            + (f", {progress.failed} failed" if progress.failed else ""),
            description=name,
        )

    with bar:
        yield show


def as_typed(command: str) -> str:
    """Return a command of tsformer as the user has to type it: it may not be on the path."""
    return command.replace("tsformer", _program(), 1)


def _program() -> str:
    if shutil.which("tsformer"):
        return "tsformer"
    beside = Path(sys.executable).with_name("tsformer")
    return os.path.relpath(beside) if beside.is_file() else f"{sys.executable} -m tsformer"
