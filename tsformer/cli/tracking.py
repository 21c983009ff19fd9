"""Options of tracking, and the address of a run."""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from tsformer.cli.printing import as_typed

if TYPE_CHECKING:
    from tsformer.tracking.model_run import ModelRun

_PANEL = "Tracking in MLflow"
NoTrack = Annotated[bool, typer.Option("--no-track", help="Track nothing.", rich_help_panel=_PANEL)]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="sqlite:///FILE or a server; by default $MLFLOW_TRACKING_URI, or mlflow.db in this "
        "folder.",
        rich_help_panel=_PANEL,
    ),
]
Experiment = Annotated[
    str | None,
    typer.Option(
        help="Name of the experiment; by default $MLFLOW_EXPERIMENT_NAME, or tsformer.",
        rich_help_panel=_PANEL,
    ),
]
RunName = Annotated[str | None, typer.Option(help="Name of the run.", rich_help_panel=_PANEL)]


@dataclass(frozen=True)
class Where:
    """Options of tracking, named as the arguments of `tsformer.tracking.model_run`."""

    tracking_uri: str | None
    experiment: str | None
    run_name: str | None

    @classmethod
    def asked(
        cls, no_track: bool, tracking_uri: str | None, experiment: str | None, run_name: str | None
    ) -> Where | None:
        """Check the options; return None without tracking or MLflow."""
        where = cls(tracking_uri, experiment, run_name)
        anything = where != cls(None, None, None)
        if no_track:
            if anything:
                raise ValueError("--no-track says that there is no run; remove the other options")
            return None
        if not anything and importlib.util.find_spec("mlflow") is None:
            return None
        # MLflow logs every table that it creates in a new store.
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        if tracking_uri is not None:
            from tsformer.tracking import resolve_uri

            resolve_uri(tracking_uri)  # raises unless it is an address
        return where


def say_where(run: ModelRun | None, *, err: bool = False) -> None:
    """Print the address of a run, and the command that shows it."""
    if run is not None and run.store is not None and run.address is not None:
        command = f"see it  {as_typed(run.store.ui_command())}"
        if run.store.uri.startswith("sqlite:"):  # no server answers yet
            typer.echo(f"{command}\nthen at {run.address}", err=err)
        else:
            typer.echo(f"run     {run.address}\n{command}", err=err)
