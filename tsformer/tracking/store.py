"""RunStore: the runs of one experiment in one MLflow store, addressed by explicit ids."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tsformer._optional import require
from tsformer._version import __version__
from tsformer.tracking.settings import reason, warn_untracked, without_credentials
from tsformer.tracking.tracked_run import (
    MISSING_TAG,
    NAME_LENGTH,
    TAG_LENGTH,
    TrackedRun,
    storable_texts,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

SQLITE = "sqlite:///"
_EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # training runs, not evaluations
    "mlflow.note.content": (
        "Fits of time-series transformers. The menu at the top right of the runs has the views "
        "*Encodings side by side* and *All fits*. The tag `tsformer.kind` tells runs apart: "
        "`study`, `search`, `encoding` (the summary of its fits), `fit`."
    ),
}


def creating(uri: str) -> AbstractContextManager[object]:
    """Return a context in which no other process creates this store."""
    if not uri.startswith(SQLITE):
        return nullcontext()
    filelock = require("filelock", extra="tracking", purpose="tracking")
    path = user_lock_path(str(Path(uri.removeprefix(SQLITE)).resolve()))
    # Creating the tables takes seconds, on a busy machine a minute.
    # A new object each time: the thread that holds a shared one could acquire it again.
    return filelock.FileLock(path, timeout=300)


def user_lock_path(name: str) -> Path:
    """Return a lock file of this user, since users cannot open each other's files."""
    hashed = hashlib.sha256(f"{Path.home()} {name}".encode(errors="replace")).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tsformer-{hashed}.lock"


def resolve_uri(uri: str | None = None) -> str:
    """Return the address of an MLflow store, with a relative SQLite path made absolute.

    `uri` is ``"sqlite:///path/to/file.db"`` or the address of a server, ``"http://host:5000"``; by
    default the variable ``MLFLOW_TRACKING_URI``, else ``sqlite:///mlflow.db`` in the working
    folder. Other texts raise ValueError: MLflow would treat them as a folder, a deprecated kind of
    store.
    """
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"{SQLITE}mlflow.db"
    if "://" not in uri:
        raise ValueError(
            f"a tracking store must be an address; got {uri!r}. Give a file, "
            "'sqlite:///mlflow.db', or a server, 'http://127.0.0.1:5000'"
        )
    if uri.startswith(SQLITE):
        return SQLITE + str(Path(uri.removeprefix(SQLITE)).absolute())
    return uri


def prepare_store(uri: str | None = None, experiment: str = "tsformer") -> RunStore:
    """Create the tables and the `experiment` if they are missing, before anything is tracked.

    `uri` is as in `resolve_uri`; artifacts go to ``mlruns/`` beside a SQLite file. The first use of
    an empty SQLite file takes seconds. Two processes would corrupt it, so the second waits.

    Raises
    ------
    ConnectionError
        If the store cannot be reached.
    ValueError
        If the experiment was deleted but not purged.
    """
    require("mlflow", extra="tracking", purpose="tracking")
    uri = resolve_uri(uri)
    artifacts = None  # a server has its own location for them
    try:
        if uri.startswith(SQLITE):
            path = Path(unquote(uri.removeprefix(SQLITE).partition("?")[0]))  # as SQLAlchemy does
            path.parent.mkdir(parents=True, exist_ok=True)
            # A name such as /Users/me/x or ../x must not lead out of the folder.
            part = re.sub(r"[/\\]", "_", experiment).lstrip(".")
            artifacts = (path.parent / "mlruns" / part).as_uri()
            # MLflow would try for two minutes to open what is no database.
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA schema_version")
        client = _client(uri)
        with creating(uri):
            found = client.get_experiment_by_name(experiment)
            if found is None:
                made = client.create_experiment(experiment, artifacts, tags=_EXPERIMENT_TAGS)
                return RunStore(uri, made)
    except Exception as error:
        raise ConnectionError(
            f"the tracking store {without_credentials(uri)} cannot be used. Start its server, or "
            f"name another store, such as 'sqlite:///mlflow.db'. {reason(error)}"
        ) from error
    if found.lifecycle_stage == "deleted":
        raise ValueError(f"experiment {experiment!r} was deleted; restore it, or name another")
    return RunStore(uri, found.experiment_id)


def command_line(argv: Sequence[str] | None = None) -> str:
    """Return the command line of a process, without passwords."""
    argv = sys.argv if argv is None else argv
    path = PurePath(argv[0] if argv else "")
    program = path.parent.name if path.name == "__main__.py" else path.name
    return shlex.join([program or "python", *map(without_credentials, argv[1:])])[:2000]


@dataclass(frozen=True)
class RunStore:
    """The runs of one experiment in one store, from `prepare_store`; can be pickled.

    `command` is the command line of the runs, by default of this process; copies in workers keep
    it.
    """

    uri: str
    experiment_id: str
    command: str = field(default_factory=command_line, compare=False, repr=False)

    def client(self) -> MlflowClient:
        """Return the client of the store, one per process."""
        return _client(self.uri)

    def runs(self, status: str | None = None, tags: Mapping[str, str] | None = None) -> list[Run]:
        """Return the runs with this status, such as "FINISHED", and these tags, oldest first."""
        wanted = [f"tags.`{name}` = '{value}'" for name, value in (tags or {}).items()]
        wanted += [] if status is None else [f"attributes.status = '{status}'"]
        filters, order = " and ".join(wanted), ["attributes.start_time ASC"]
        found: list[Run] = []
        token: str | None = None
        while token != "":
            page = self.client().search_runs(
                [self.experiment_id], filters, max_results=1000, order_by=order, page_token=token
            )
            found += page
            token = page.token or ""
        return found

    def has(self, run_id: str) -> bool:
        """Return whether the store has a run."""
        try:
            self.client().get_run(run_id)
        except Exception as error:
            if getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST":
                return False
            raise
        return True

    def finished(self, keys: Collection[str], tags: Mapping[str, str]) -> dict[str, Run]:
        """Return the FINISHED run of each key that has one; mark all but the first KILLED.

        A cluster repeats finished work when it loses the worker that held the result.
        """
        found: dict[str, Run] = {}
        for run in sorted(self.runs("FINISHED", tags), key=lambda run: run.info.end_time):
            key = run.data.tags.get("tsformer.key", "")
            if key in keys and found.setdefault(key, run) is not run:
                self.client().set_terminated(run.info.run_id, "KILLED", run.info.end_time)
        return found

    def start(
        self,
        name: str,
        *,
        kind: str,
        key: str = "",
        parent: TrackedRun | None = None,
        tags: Mapping[str, str] | None = None,
        again: bool = False,
    ) -> TrackedRun:
        """Create a run, or with `again` reopen the one with that `key`.

        If the store fails, warn and return a run that records nothing. `kind` is "fit", "encoding"
        (summary of its fits), "model", "search" or "study", and the tag ``tsformer.kind``; `key`
        identifies the work, as the tag ``tsformer.key``; the run is shown under `parent`.
        """
        program = re.match(r"tsformer \w\S*|\S+", self.command)  # at a slash pages would cut it
        own = {
            **tags_of(kind),
            "tsformer.command": self.command,
            "mlflow.source.name": program[0] if program else "",
            "mlflow.source.type": "LOCAL",
            "mlflow.note.content": f"Made by `{self.command}`.",
        }
        own |= {"tsformer.key": key} if key else {}
        if parent is not None and parent.run_id:
            own["mlflow.note.content"] += f" Part of [this study]({self.page_of(parent.run_id)})."
            own["mlflow.parentRunId"] = parent.run_id
        own |= tags or {}
        own = storable_texts(own, TAG_LENGTH)
        name = name[:NAME_LENGTH]
        try:
            client = self.client()
            earlier = self.runs(tags={"tsformer.key": key}) if again else []
            if earlier:
                info = earlier[-1].info
                client.update_run(info.run_id, status="RUNNING", name=name)
                if MISSING_TAG in earlier[-1].data.tags:
                    client.delete_tag(info.run_id, MISSING_TAG)
                for tag, value in own.items():
                    client.set_tag(info.run_id, tag, value)
            else:
                info = client.create_run(self.experiment_id, tags=own, run_name=name).info
        except Exception as error:  # tracking never fails a fit
            warn_untracked(name, error)
            return TrackedRun(None, "", store=self)
        return TrackedRun(client, info.run_id, store=self)

    def page_of(self, run_id: str) -> str:
        """Return the address of a run's page, relative to the server: a link in a description."""
        page = f"#/experiments/{self.experiment_id}/runs/{run_id}"
        return f"{page}?workflowType=machine_learning"  # or MLflow shows it as an evaluation

    def page_of_view(self, view: str) -> str:
        """Return the address of a saved view, relative to the server."""
        page = f"#/experiments/{self.experiment_id}/runs?compareRunsMode=CHART"
        return f"{page}&viewStateShareKey={view}&workflowType=machine_learning"

    def ui_command(self) -> str:
        """Return the shell command that shows the store."""
        bare = self.uri == f"{SQLITE}{Path('mlflow.db').absolute()}"
        if bare and "MLFLOW_TRACKING_URI" not in os.environ:
            return "tsformer ui"
        return shlex.join(["tsformer", "ui", "--tracking-uri", without_credentials(self.uri)])

    def run_address(self, run_id: str) -> str:
        """Return the address of the page of a run; for a file, once `ui_command` is running."""
        local = self.uri.startswith(SQLITE)
        server = "http://127.0.0.1:5000" if local else without_credentials(self.uri).rstrip("/")
        return f"{server}/{self.page_of(run_id)}"


def tags_of(kind: str) -> dict[str, str]:
    """Return the tags of every run."""
    return {
        "tsformer.kind": kind,
        "tsformer.version": __version__,
        "tsformer.host": socket.gethostname(),
        **({"tsformer.commit": commit()} if commit() else {}),
    }


@functools.lru_cache(maxsize=8)
def _client(uri: str) -> Any:
    mlflow = require("mlflow", extra="tracking", purpose="tracking")
    # MLflow's defaults wait four minutes for an unreachable server, and print two lines per run.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    with creating(uri):
        return mlflow.MlflowClient(tracking_uri=uri)


@functools.cache
def commit() -> str:
    """Return the last commit of the package's own files, "" outside a checkout."""
    if shutil.which("git") is None:
        return ""
    command = ["git", "-C", str(Path(__file__).parents[1]), "log", "-1", "--format=%H", "--", "."]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
