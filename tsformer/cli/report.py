"""A study's results as a page."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

__all__ = ["report"]


def report(
    study: Annotated[
        Path, typer.Argument(help="The folder that `compare` wrote, or a CSV of scores.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="Where to write; the folder report beside the scores.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The method that gains are over; none if it is there.")
    ] = None,
    rope: Annotated[float, typer.Option(help="Differences so small count as none.")] = 0.01,
) -> None:
    """Write what a study shows as one HTML page, and as Markdown with figures beside it.

    The page loads nothing and can be sent as it is. An unfinished study is reported as far as it
    is.

    [bold]Examples[/bold]

      tsformer report results/compare
      tsformer report scores.csv --baseline ROCKET --out page
    """
    from tsformer.studies.study_report import write_report

    words = ["tsformer", "report", str(study)]
    words += ["--out", str(out)] if out is not None else []
    words += ["--baseline", baseline] if baseline is not None else []
    words += ["--rope", str(rope)] if rope != 0.01 else []
    files = write_report(study, out, baseline=baseline, rope=rope, command=shlex.join(words))
    typer.echo(f"page      {files.html}")
    typer.echo(f"markdown  {files.markdown}, with {len(files.figures)} figures")
