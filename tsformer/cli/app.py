"""The commands by name."""

import inspect
from collections.abc import Callable
from textwrap import dedent, indent
from typing import Annotated, Any

import typer

import tsformer
from tsformer.cli import lists, models, studies, tables, tracking
from tsformer.cli.parsing import option, with_groups


def _help(command: Callable[..., None]) -> str:
    """Unwrap the paragraphs of a docstring; the last one has examples."""
    *paragraphs, examples = (inspect.getdoc(command) or "").split("\n\n")
    unwrapped = [" ".join(text.split()) for text in paragraphs]
    commands = indent(dedent(examples), "  ")
    return "\n\n".join([*unwrapped, "[bold]Examples[/bold]", commands])


app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
#: Parameters of commands that stand for several options.
GROUPS: dict[str, Callable[..., Any]] = {
    "columns": tables.column_roles,
    "training": models.training,
    "where": tracking.where,
}
for command in (
    models.fit,
    models.pretrain,
    models.predict,
    models.evaluate,
    models.explain,
    studies.compare,
    studies.demo,
    studies.report,
    tracking.ui,
    lists.encodings,
    lists.methods,
    lists.plot_encoding,
    lists.datasets,
    tables.convert,
):
    app.command(help=_help(command))(with_groups(command, GROUPS))


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tsformer {tsformer.__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, option("Print the version.", None, "--version", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[  # removed from the arguments by `main`; listed here for the help text
        bool, option("Print the full traceback of an error.", None, "--debug")
    ] = False,
) -> None:
    """Classify time series with a transformer and a positional encoding chosen by name.

    tsformer demo
    tsformer compare --datasets BasicMotions --encodings none,fixed,lspe
    tsformer fit BasicMotions --encoding lspe --out model
    tsformer evaluate model BasicMotions
    """


app.callback(help=_help(options))(options)
