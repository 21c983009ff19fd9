"""Tracked runs in the MLflow UI, and models in the MLflow registry."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tsformer.cli.models import Model
from tsformer.cli.printing import as_typed
from tsformer.cli.tracking import TrackingUri


def ui(
    experiment: Annotated[
        str | None, typer.Option(help="Name of the experiment; by default the newest run's.")
    ] = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 5000,
    tracking_uri: TrackingUri = None,
) -> None:
    """Show tracked runs in the MLflow UI, on this machine only; Ctrl-C stops it.

    [bold]Example[/bold]

      tsformer ui --experiment mine --port 5001
    """
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    from tsformer.tracking import server
    from tsformer.tracking.settings import without_credentials

    store = server.find_experiment(tracking_uri, experiment)
    if not store.uri.startswith("sqlite:///"):
        typer.echo(_as_text(server.pages_of(store, without_credentials(store.uri))))
        typer.echo("open one of these: the server is already running")
        return
    command = server.server_command(store, port)
    pages = _as_text(server.pages_of(store, f"http://127.0.0.1:{port}"))
    typer.echo("starting the server")
    server.announce(port, f"{pages}\nopen one of these; Ctrl-C stops the server")
    # The server replaces this process, so that signals reach it and nothing is left behind.
    os.execve(command[0], command, {**os.environ, **server.SERVER_ENVIRONMENT})


def register(
    model: Model,
    name: Annotated[str, typer.Option(help="Name in the registry.")],
    output: Annotated[
        str,
        typer.Option(
            metavar="KIND",
            help="Answer of the served model: table (labels and probabilities), table+novelty, "
            "predict or predict_proba.",
        ),
    ] = "table",
    experiment: Annotated[str, typer.Option(help="Experiment of the model's run.")] = "tsformer",
    tracking_uri: TrackingUri = None,
) -> None:
    """Add a saved model to the MLflow registry, to serve it from there.

    [bold]Example[/bold]

      tsformer register model --name motions --output predict
    """
    import tsformer

    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    estimator = tsformer.load(model)  # before a store is created for it
    from tsformer.tracking import prepare_store
    from tsformer.tracking.register import register
    from tsformer.tracking.settings import without_credentials

    store = prepare_store(tracking_uri, experiment)
    address = register(estimator, name, store, output=output)
    typer.echo(f"{model} is {address}")
    typer.echo(
        "serve it: MLFLOW_DISABLE_TELEMETRY=true "
        f"MLFLOW_TRACKING_URI={without_credentials(store.uri)} "
        f"mlflow models serve --env-manager local -m {address}"
    )
    typer.echo(f"see it: {as_typed(store.ui_command())}")


def _as_text(pages: dict[str, str]) -> str:
    return "\n".join(f"{shown:<24}{address}" for shown, address in pages.items())
