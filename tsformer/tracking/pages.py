"""The MLflow UI on this machine: its experiments, its pages, and the command that serves it."""

import socket
import sys
from pathlib import Path

from tsformer._checks import unknown
from tsformer._optional import require
from tsformer.tracking.settings import reason, without_credentials
from tsformer.tracking.store import SQLITE, RunStore, resolve_uri
from tsformer.tracking.views import make_views

#: With one worker and without job execution the server takes half a gigabyte, not several.
SERVER_ENVIRONMENT = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


def find_experiment(uri: str | None = None, name: str | None = None) -> RunStore:
    """Return an experiment that has runs; creates nothing."""
    uri = resolve_uri(uri)
    if uri.startswith(SQLITE) and not Path(uri.removeprefix(SQLITE)).is_file():
        raise FileNotFoundError(
            f"there is no {uri.removeprefix(SQLITE)}; go to the folder where `tsformer compare` "
            "ran, or name the store with --tracking-uri"
        )
    require("mlflow", extra="tracking", purpose="reading tracked runs")
    client = RunStore(uri, "").client()
    try:
        experiments = {found.name: found.experiment_id for found in client.search_experiments()}
        if name is not None and name not in experiments:
            raise ValueError(unknown("experiment", name, experiments))
        ids = [experiments[name]] if name is not None else list(experiments.values())
        newest = client.search_runs(ids, max_results=1, order_by=["attributes.start_time DESC"])
    except ValueError:
        raise
    except Exception as error:
        raise ConnectionError(
            f"the tracking store {without_credentials(uri)} cannot be read {reason(error)}"
        ) from error
    if not newest:
        where = f"experiment {name!r}" if name is not None else without_credentials(uri)
        raise ValueError(
            f"{where} has no runs yet; `tsformer compare` or MLflowTracker creates some"
        )
    return RunStore(uri, newest[0].info.experiment_id)


def pages_of(store: RunStore, server: str) -> dict[str, str]:
    """Return the addresses of the views of the newest study, and of all fits."""
    summaries = store.runs("FINISHED", {"tsformer.kind": "encoding"})
    newest = max(summaries, key=lambda run: run.info.end_time or 0, default=None)
    study = newest.data.tags.get("tsformer.study", "") if newest is not None else ""
    pages: dict[str, str] = {}
    for view, title in make_views(store, study).items():
        shown = title if pages and view != "fits" else title.partition(":")[0].lower()
        pages[shown] = f"{server.rstrip('/')}/{store.page_of_view(view)}"
    return pages


def server_command(store: RunStore, port: int) -> list[str]:
    """Return the command that serves a SQLite store; needs `SERVER_ENVIRONMENT`."""
    with socket.socket() as probe:
        # As the server does: a port whose connections were just closed is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise ConnectionError(
                f"port {port} is not available ({error.strerror}); choose another, as in "
                f"--port {port % 65535 + 1}"
            ) from error
    options = ["--backend-store-uri", store.uri, "--host", "127.0.0.1", "--port", str(port)]
    return [sys.executable, "-m", "mlflow", "ui", *options, "--workers", "1"]
