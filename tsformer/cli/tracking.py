"""Tracked runs in the MLflow UI, options of tracking, and the address of a run."""

from __future__ import annotations

import importlib.util
import os
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from tsformer.cli.parsing import option
from tsformer.cli.printing import as_typed

if TYPE_CHECKING:
    from tsformer.tracking import TrackedRun

_PANEL = {"rich_help_panel": "Tracking in MLflow"}
_STORE = "sqlite:///FILE or a server; by default $MLFLOW_TRACKING_URI, or mlflow.db in this folder."
TrackingUri = Annotated[str | None, option(_STORE, "ADDRESS", **_PANEL)]


def where(
    no_track: Annotated[bool, option("Do not track.", None, "--no-track", **_PANEL)] = False,
    tracking_uri: TrackingUri = None,
    experiment: Annotated[str | None, option("Experiment; by default tsformer.", **_PANEL)] = None,
    run_name: Annotated[str | None, option("Name of the run.", **_PANEL)] = None,
) -> dict[str, str | None] | None:
    """Return arguments of `tracked_fit`; None without tracking or MLflow."""
    options = {"tracking_uri": tracking_uri, "experiment": experiment, "run_name": run_name}
    anything = any(value is not None for value in options.values())
    if no_track and anything:
        raise ValueError("--no-track excludes the other options of tracking; remove them")
    if no_track or (not anything and importlib.util.find_spec("mlflow") is None):
        return None
    # MLflow logs every table that it creates in a new store.
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    if tracking_uri is not None:
        import_module("tsformer.tracking").resolve_uri(tracking_uri)  # raises unless an address
    return options


def say_where(run: TrackedRun | None, *, err: bool = False) -> None:
    """Print the address of a run, and the command that shows it."""
    if run is not None and run.address is not None:
        typer.echo(f"run     {run.address}\nsee it  {as_typed(run.store.ui_command())}", err=err)


def ui(
    experiment: Annotated[str | None, option("Experiment; by default the newest run's.")] = None,
    port: Annotated[int, option("The port to listen on.", min=1, max=65535)] = 5000,
    tracking_uri: TrackingUri = None,
) -> None:
    """Show tracked runs in the MLflow UI, on this machine only; Ctrl-C stops it.

    tsformer ui --experiment mine --port 5001
    """
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    from tsformer.tracking import views
    from tsformer.tracking.options import without_credentials

    store = views.find_experiment(tracking_uri, experiment)
    local = store.uri.startswith("sqlite:///")
    command = views.server_command(store, port) if local else []
    server = f"http://127.0.0.1:{port}" if local else without_credentials(store.uri)
    for title, address in views.pages_of(store, server).items():
        typer.echo(f"{title}  {address}")
    if not local:
        typer.echo("open one of these: the server is already running")
        return
    typer.echo("starting the server; open one of these, Ctrl-C stops it")
    # The server replaces this process, so that signals reach it and nothing is left behind.
    os.execve(command[0], command, {**os.environ, **views.SERVER_ENVIRONMENT})
