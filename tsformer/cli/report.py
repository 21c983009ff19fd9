"""A study's results as a page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from tsformer._files import check_output
from tsformer.cli import parsing
from tsformer.cli.statistics import Published, Rope, Vary

__all__ = ["report"]


def report(
    study: Annotated[
        Path, typer.Argument(help="The folder that `compare` wrote, or a CSV of scores.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The folder to write; by default, report beside the scores.")
    ] = None,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="The method to compute gains over; by default none, or else tsformer, if it was "
            "compared."
        ),
    ] = None,
    rope: Rope = 0.01,
    vary: Vary = [],  # noqa: B006  Typer reads the default and gives each call its own list
    published: Published = [],  # noqa: B006
) -> None:
    """Write a study's report as one HTML page, and as Markdown with figures beside it.

    The page is self-contained. An unfinished study is reported as far as it has come.

    [bold]Example[/bold]

      tsformer report results/compare --baseline none --out page
    """
    from tsformer.studies.report.write import write_report

    if out is not None:
        check_output(out)
    columns = parsing.columns(vary)
    words = ["tsformer", "report", str(study)]
    words += ["--out", str(out)] if out is not None else []
    words += ["--baseline", baseline] if baseline is not None else []
    words += ["--rope", str(rope)] if rope != 0.01 else []
    words += ["--vary", ",".join(columns)] if columns is not None else []
    words += [word for path in published for word in ("--published", str(path))]
    files = write_report(
        study,
        out,
        baseline=baseline,
        rope=rope,
        vary=columns,
        published=published or None,
        command=shlex.join(words),
    )
    typer.echo(f"page      {files.html}")
    typer.echo(f"markdown  {files.markdown}, with {len(files.figures)} figures")
