"""Many models: compare encodings, look at what was tracked."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from tsformer._optional import require
from tsformer.cli import parsing
from tsformer.cli.models import Set
from tsformer.cli.printing import markdown, study_bar

__all__ = ["compare", "ui"]


def compare(
    datasets: Annotated[
        str, typer.Option(metavar="A,B", help="Problems; see `tsformer datasets`.")
    ],
    encodings: Annotated[
        str, typer.Option(metavar="A,B", help="Encodings; see `tsformer encodings`.")
    ] = "none,fixed,learnable,lspe",
    seeds: Annotated[str, typer.Option(metavar="N|A,B", help="How many seeds, or which.")] = "3",
    max_epochs: Annotated[
        int | None, typer.Option(help="Passes over the data; chosen by its size if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of the table and the figure.")] = Path(
        "results/compare"
    ),
    set_: Set = [],  # noqa: B006  Typer reads the default and gives each call its own list
) -> None:
    """Train every encoding on every problem under every seed, and compare test scores.

    Every fit is a tracked run in mlflow.db, in this folder.
    A comparison that was stopped goes on where it was when started again.

    [bold]Examples[/bold]

      tsformer compare --datasets BasicMotions,ECG200 --encodings none,lspe
      tsformer compare --datasets NATOPS --seeds 0,1 --set stem=linear
    """
    from tsformer.studies import Study, compare
    from tsformer.studies.report import to_markdown

    options = parsing.settings(set_)
    if max_epochs is not None:
        options["max_epochs"] = max_epochs
    study = Study(parsing.names(datasets), parsing.names(encodings), parsing.seeds(seeds), options)
    # MLflow reports every table that it makes in a new store, in the middle of the progress bar.
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    with study_bar() as show:
        comparison = compare(study, out=out, on_progress=show)
    markdown(to_markdown(comparison.summary()))
    for fit in comparison.failures.itertuples():
        typer.echo(f"failed: {fit.dataset}  {fit.encoding}  {fit.seed}  {fit.error}")
    typer.echo(f"table   {comparison.csv_path}")
    if comparison.figure_path:
        typer.echo(f"figure  {comparison.figure_path}")
    typer.echo(f"runs    {comparison.ui_command}")
    if len(comparison.failures):
        raise typer.Exit(2)


def ui(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Where to listen.")] = 5000,
) -> None:
    """Open the tracked runs of this folder in MLflow's pages, on this machine only.

    [bold]Example[/bold]

      tsformer ui --port 5001
    """
    from tsformer.tracking import resolve_uri

    require("mlflow", extra="tracking", purpose="looking at tracked runs")
    store = resolve_uri()
    if not store.startswith("sqlite:///"):
        typer.echo(f"a server holds the runs: open {store}")
        return
    file = Path(store.removeprefix("sqlite:///"))
    if not file.is_file():  # MLflow would make an empty one
        raise FileNotFoundError(
            f"there is no {file}; go to the folder where `tsformer compare` ran"
        )
    address = ["--backend-store-uri", store, "--host", "127.0.0.1", "--port", str(port)]
    # The server takes this process over, so that Ctrl-C and signals reach it and nothing is left.
    os.execv(sys.executable, [sys.executable, "-m", "mlflow", "ui", *address])
