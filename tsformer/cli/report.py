"""The report of a study's scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tsformer._files import check_output
from tsformer.cli import parsing

Rope = Annotated[float, typer.Option(help="Scores no further apart than this count as equal.")]
Vary = Annotated[
    list[str],
    typer.Option(
        metavar="A,B",
        help="Columns that distinguish variants; by default those in study.json beside the CSV.",
    ),
]


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
) -> None:
    """Write a study's report as one HTML page, and as Markdown with figures beside it.

    The page is self-contained. An unfinished study is reported as far as it has come.

    [bold]Example[/bold]

      tsformer report results/compare --baseline none --out page
    """
    from tsformer.studies.report.write import write_report
    from tsformer.tracking.store import command_line

    if out is not None:
        check_output(out)
    files = write_report(
        study,
        out,
        baseline=baseline,
        rope=rope,
        vary=parsing.columns(vary),
        command=command_line(),
    )
    typer.echo(f"page      {files.html}")
    typer.echo(f"markdown  {files.markdown}, with {len(files.figures)} figures")
