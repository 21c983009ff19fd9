"""Many models: compare encodings."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tsformer.cli import parsing
from tsformer.cli.models import Set
from tsformer.cli.printing import markdown, study_bar

if TYPE_CHECKING:
    from tsformer.studies import Comparison, Study

__all__ = ["compare"]

# Flags that say what a study is; the others say where and how it is done.
_OF_A_STUDY = ("datasets", "encodings", "seeds", "max_epochs", "vary", "resamples", "set_")


def compare(
    context: typer.Context,
    datasets: Annotated[
        str, typer.Option(metavar="A,B", help="Problems; see `tsformer datasets`.")
    ] = "",
    encodings: Annotated[
        str, typer.Option(metavar="A,B", help="Encodings; see `tsformer encodings`.")
    ] = "none,fixed,learnable,lspe",
    seeds: Annotated[str, typer.Option(metavar="N|A,B", help="How many seeds, or which.")] = "3",
    max_epochs: Annotated[
        int | None, typer.Option(help="Passes over the data; chosen by its size if not given.")
    ] = None,
    vary: Annotated[
        list[str],
        typer.Option(metavar="NAME=A,B", help="Compare values of a parameter; can be repeated."),
    ] = [],  # noqa: B006  Typer reads the default and gives each call its own list
    resamples: Annotated[
        int, typer.Option(help="Splits of each problem: the official, then stratified ones.")
    ] = 1,
    study: Annotated[
        Path | None, typer.Option(metavar="FILE.toml", help="All of the above, from a file.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder of the table and the figure.")] = Path(
        "results/compare"
    ),
    jobs: Annotated[int, typer.Option(help="Fits side by side; -1: one a core.")] = 1,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="A Dask scheduler, whose workers fit.")
    ] = None,
    tracking_uri: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="MLflow's server, or sqlite:///FILE.")
    ] = None,
    experiment: Annotated[str, typer.Option(help="MLflow's experiment.")] = "tsformer",
    set_: Set = [],  # noqa: B006
) -> None:
    """Train every encoding on every problem under every seed, and compare test scores.

    Every fit is a tracked run in mlflow.db, in this folder, or on the server that is named.
    A comparison that was stopped goes on where it was when started again.

    [bold]Examples[/bold]

      tsformer compare --datasets BasicMotions,ECG200 --encodings none,lspe
      tsformer compare --datasets NATOPS --seeds 0,1 --set stem=linear --jobs 2
      tsformer compare --datasets NATOPS --vary stem=conv,linear --resamples 5
      tsformer compare --study study.toml --scheduler tcp://127.0.0.1:8786
    """
    from tsformer.studies import Study, compare
    from tsformer.studies.report import to_markdown

    asked: Study
    if study is not None:
        _refuse_beside_a_study(context)
        asked = Study.from_toml(study)
    elif datasets:
        options = parsing.settings(set_)
        if max_epochs is not None:
            options["max_epochs"] = max_epochs
        asked = Study(
            parsing.names(datasets),
            parsing.names(encodings),
            parsing.seeds(seeds),
            options,
            parsing.varied(vary),
            resamples,
        )
    else:
        raise ValueError("name the problems, --datasets A,B, or a study, --study FILE.toml")
    # MLflow reports every table that it makes in a new store, in the middle of the progress bar.
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    try:
        with study_bar() as show:
            comparison = compare(
                asked,
                out=out,
                tracking_uri=tracking_uri,
                experiment=experiment,
                jobs=jobs,
                scheduler=scheduler,
                on_progress=show,
            )
    except KeyboardInterrupt:
        typer.echo("what is finished is kept; to go on:", err=True)
        typer.echo(f"  {shlex.join(['tsformer', *sys.argv[1:]])}", err=True)
        raise
    markdown(to_markdown(comparison.summary()))
    _say_what_is_missing(comparison)
    typer.echo(f"table   {comparison.csv_path}")
    if comparison.figure_path:
        typer.echo(f"figure  {comparison.figure_path}")
    if comparison.report_path:
        typer.echo(f"report  {comparison.report_path}")
    typer.echo(f"runs    {comparison.ui_command}")
    if len(comparison.failures) or len(comparison.unrecorded):
        raise typer.Exit(2)


def _refuse_beside_a_study(context: typer.Context) -> None:
    for name in _OF_A_STUDY:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            flag = "--" + name.strip("_").replace("_", "-")
            raise ValueError(
                f"--study says all of what is fitted, so that a file means one thing; leave {flag} "
                "out, or write it into the file"
            )


def _say_what_is_missing(comparison: Comparison) -> None:
    for fit in comparison.failures.to_dict("records"):
        error = fit.pop("error")
        typer.echo(f"failed: {_words(fit)}  {error}")
    for fit in comparison.unrecorded.to_dict("records"):
        typer.echo(f"not recorded, as the tracking store was away: {_words(fit)}")
    if len(comparison.unrecorded):
        typer.echo("the same command, with the store back, does these again")


def _words(fit: dict[Any, Any]) -> str:
    """Name a fit; the official split goes without saying."""
    bare = ("dataset", "encoding", "seed")
    shown = {name: value for name, value in fit.items() if name != "resample" or value}
    return "  ".join(str(v) if k in bare else f"{k}={v}" for k, v in shown.items())
