"""Runs of one MLflow experiment, addressed by explicit ids: RunStore has them, TrackedRun is one.

A failure of the store never fails the tracked work.
"""

from __future__ import annotations

import functools
import hashlib
import io
import os
import re
import shlex
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from tsformer._optional import require
from tsformer._version import __version__
from tsformer.tracking.options import reason, warn, warn_untracked, without_credentials

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow import MlflowClient
    from mlflow.entities import Run

SQLITE = "sqlite:///"
_DESCRIPTION = "mlflow.note.content"
_MISSING_TAG = "tsformer.missing"
#: The data that scores are of, by the first part of their names.
CONTEXTS = {"train": "train", "val": "validation", "test": "test"}
#: Values of the data that are digested: 256 MiB of float64. Larger data: the first series.
_MOST_VALUES = 2**25
_EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # training runs, not evaluations
    _DESCRIPTION: "Fits of time-series transformers; *Views*, at the top right, compare them.",
}


def mlflow_part(name: str = "") -> Any:
    """Import MLflow, or a module of it."""
    return require(f"mlflow{name and '.'}{name}", extra="tracking", purpose="tracking")


def creating(uri: str) -> AbstractContextManager[object]:
    """Return a context in which no other process creates this store."""
    if not uri.startswith(SQLITE):
        return nullcontext()
    filelock = require("filelock", extra="tracking", purpose="tracking")
    path = user_lock_path(str(Path(uri.removeprefix(SQLITE)).resolve()))
    # A new object each time: the thread that holds a shared one could acquire it again.
    return filelock.FileLock(path, timeout=300)  # creating the tables takes up to a minute


def user_lock_path(name: str) -> Path:
    """Return a lock file of this user, since users cannot open each other's files."""
    hashed = hashlib.sha256(f"{Path.home()} {name}".encode(errors="replace")).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tsformer-{hashed}.lock"


def resolve_uri(uri: str | None = None) -> str:
    """Return the address of an MLflow store, with a relative SQLite path made absolute.

    `uri` is ``"sqlite:///path/to/file.db"`` or a server, ``"http://host:5000"``; by default the
    variable ``MLFLOW_TRACKING_URI``, else ``sqlite:///mlflow.db`` in the working folder. Other
    texts, which MLflow would treat as a folder, raise ValueError.
    """
    uri = uri or os.environ.get("MLFLOW_TRACKING_URI") or f"{SQLITE}mlflow.db"
    if "://" not in uri:
        raise ValueError(f"{uri!r} is no address of a store, such as 'sqlite:///mlflow.db'")
    if uri.startswith(SQLITE):
        return SQLITE + str(Path(uri.removeprefix(SQLITE)).absolute())
    return uri


def prepare_store(uri: str | None = None, experiment: str = "tsformer") -> RunStore:
    """Create the tables and the `experiment` if they are missing, before anything is tracked.

    `uri` is as in `resolve_uri`; artifacts go to ``mlruns/`` beside a SQLite file. Raises
    ConnectionError if the store cannot be used, ValueError if the experiment was deleted.
    """
    mlflow_part()
    uri, artifacts = resolve_uri(uri), None  # a server has its own location for artifacts
    try:
        if uri.startswith(SQLITE):
            path = Path(unquote(uri.removeprefix(SQLITE).partition("?")[0]))  # as SQLAlchemy does
            path.parent.mkdir(parents=True, exist_ok=True)
            # A name such as /Users/me/x or ../x must not lead out of the folder.
            folder = re.sub(r"[/\\]", "_", experiment).lstrip(".")
            artifacts = (path.parent / "mlruns" / folder).as_uri()
            # MLflow retries for two minutes on a file that is not a database.
            with closing(sqlite3.connect(path)) as connection:
                connection.execute("PRAGMA schema_version")
        with creating(uri):
            client = _client(uri)
            stored = client.get_experiment_by_name(experiment)
            if stored is None:
                new_id = client.create_experiment(experiment, artifacts, _EXPERIMENT_TAGS)
                return RunStore(uri, new_id)
    except Exception as error:
        problem = f"cannot use the store {without_credentials(uri)}; start it, or name another"
        raise ConnectionError(f"{problem} {reason(error)}") from error
    if stored.lifecycle_stage == "deleted":
        raise ValueError(f"experiment {experiment!r} was deleted; restore it, or name another")
    return RunStore(uri, stored.experiment_id)


def command_line(argv: Sequence[str] | None = None) -> str:
    """Return the command line of a process, without passwords."""
    argv = sys.argv if argv is None else argv
    path = PurePath(argv[0] if argv else "")
    program = path.parent.name if path.name == "__main__.py" else path.name
    return shlex.join([program or "python", *map(without_credentials, argv[1:])])[:2000]


@dataclass(frozen=True)
class RunStore:
    """The runs of one experiment in one store, from `prepare_store`; can be pickled.

    `command` is the command line of the runs, by default of this process, also in its workers.
    """

    uri: str
    experiment_id: str
    command: str = field(default_factory=command_line, compare=False, repr=False)

    def client(self) -> MlflowClient:
        """Return the client of the store, one per process."""
        return _client(self.uri)

    def runs(self, status: str | None = None, tags: Mapping[str, str] | None = None) -> list[Run]:
        """Return the runs with this status, such as "FINISHED", and these tags, oldest first."""
        wanted = {f"tags.`{name}`": value for name, value in (tags or {}).items()}
        wanted |= {} if status is None else {"attributes.status": status}
        terms = " and ".join(f"{name} = '{value}'" for name, value in wanted.items())
        page = functools.partial(self.client().search_runs, [self.experiment_id], terms)
        pages = mlflow_part("utils").get_results_from_paginated_fn
        return list(pages(lambda n, token: page(max_results=n, page_token=token), 1000))[::-1]

    def has(self, run_id: str) -> bool:
        """Return whether the experiment has a run."""
        return bool(self.client().search_runs([self.experiment_id], f"run_id = '{run_id}'"))

    def finished(self, keys: Collection[str], tags: Mapping[str, str]) -> dict[str, Run]:
        """Return the FINISHED run of each key that has one; mark all but the first KILLED.

        A cluster repeats finished work when it loses the worker that held the result.
        """
        first: dict[str, Run] = {}
        for run in sorted(self.runs("FINISHED", tags), key=lambda run: run.info.end_time):
            key = run.data.tags.get("tsformer.key", "")
            if key in keys and first.setdefault(key, run) is not run:
                self.client().set_terminated(run.info.run_id, "KILLED", run.info.end_time)
        return first

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

        If the store fails, warn and return a run that records nothing. `kind`, such as "fit", is
        the tag ``tsformer.kind``; `key`, ``tsformer.key``, identifies the work of the run; pages
        show it under `parent`.
        """
        labels = tags_of(kind) | {"tsformer.command": self.command, "mlflow.source.type": "LOCAL"}
        labels["mlflow.source.name"] = self.command.partition(" ")[0]
        labels[_DESCRIPTION] = f"Made by `{self.command}`."
        labels |= {"tsformer.key": key} if key else {}
        if parent is not None and parent.run_id:
            labels[_DESCRIPTION] += f" Part of [this study]({self.page_of(parent.run_id)})."
            labels["mlflow.parentRunId"] = parent.run_id
        labels = {_key(k): str(text) for k, text in (labels | dict(tags or {})).items()}
        try:
            client = self.client()
            earlier = self.runs(tags={"tsformer.key": key}) if again else []
            if earlier:
                info = earlier[-1].info
                client.update_run(info.run_id, status="RUNNING", name=name[:250])
                if _MISSING_TAG in earlier[-1].data.tags:
                    client.delete_tag(info.run_id, _MISSING_TAG)
                TrackedRun(client, info.run_id).tags(labels)
            else:
                info = client.create_run(self.experiment_id, tags=labels, run_name=name[:250]).info
        except Exception as error:
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
        if "MLFLOW_TRACKING_URI" not in os.environ and self.uri == resolve_uri():
            return "tsformer ui"
        return shlex.join(["tsformer", "ui", "--tracking-uri", without_credentials(self.uri)])

    def run_address(self, run_id: str) -> str:
        """Return the address of the page of a run; for a file, once `ui_command` is running."""
        uri = "http://127.0.0.1:5000" if self.uri.startswith(SQLITE) else self.uri
        return f"{without_credentials(uri).rstrip('/')}/{self.page_of(run_id)}"


def tags_of(kind: str) -> dict[str, str]:
    """Return the tags of every run."""
    origin = {"tsformer.version": __version__, "tsformer.host": socket.gethostname()}
    return {"tsformer.kind": kind, **origin, **({"tsformer.commit": commit()} if commit() else {})}


@functools.lru_cache(maxsize=8)
def _client(uri: str) -> Any:
    mlflow = mlflow_part()
    # MLflow's defaults wait four minutes for an unreachable server, and print two lines per run.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
    return mlflow.MlflowClient(tracking_uri=uri)


@functools.cache
def commit() -> str:
    """Return the last commit of the package's own files, "" outside a checkout."""
    command = ["git", "-C", str(Path(__file__).parents[1]), "log", "-1", "--format=%H", "--", "."]
    with suppress(FileNotFoundError):  # there may be no git
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return ""


def _key(name: str) -> str:
    """Return a name as MLflow can store it: short, and with ``_`` for some characters."""
    return re.sub(r"[^/\w.\- ]", "_", name[:220]) or "_"


@dataclass(eq=False, repr=False)
class TrackedRun(AbstractContextManager["TrackedRun"]):
    """One run of MLflow, addressed by its id; MLflow's "active run" is never touched.

    Metrics are sent in batches, in about 2 % of the time. A refused entry costs a warning and is
    listed in the tag ``tsformer.missing``. If the store fails, one warning is issued, `lost` is
    true, and the run ends KILLED once the store is back. As a context manager it ends FINISHED,
    KILLED by Ctrl-C, or FAILED, with the tag ``tsformer.error`` and the traceback in ``error.txt``.

    Parameters
    ----------
    client : MlflowClient or None, run_id : str
        Client of the store, None for a run that could not be created; id of the run.
    flush_seconds : float, default=5.0
        Minimum time between two batches of metrics.
    store : RunStore, optional
        The store of the run.
    borrowed : bool, default=False
        Whether the caller's own code ends the run. The tag ``tsformer.status`` has other ends.
    """

    client: Any
    run_id: str
    flush_seconds: float = field(default=5.0, kw_only=True)
    store: Any = field(default=None, kw_only=True)
    borrowed: bool = field(default=False, kw_only=True)
    status: str | None = field(default=None, init=False)
    model_id: str | None = field(default=None, init=False)
    #: The last value of each metric, also of a lost run.
    scores: dict[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.lost = self.client is None
        self._data: dict[str, tuple[str, str]] = {}
        self._missing: list[str] = []
        self._waiting: list[Any] = []
        self._next_flush = time.monotonic() + self.flush_seconds

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.status is not None:
            return
        if isinstance(error, (Exception, SystemExit)):
            self.tags({"tsformer.error": f"{type(error).__name__}: {error}"})
            self.text("".join(traceback.format_exception(error)), "error.txt")
            self.end("FAILED")
        else:
            self.end("FINISHED" if error is None else "KILLED")

    @property
    def address(self) -> str | None:
        """Where to see the run; None if the store failed."""
        return None if self.lost or not self.store else str(self.store.run_address(self.run_id))

    def params(self, values: Mapping[str, object]) -> None:
        """Log parameters, which cannot change later."""
        param = mlflow_part("entities").Param
        self._send("params", [param(_key(name), value) for name, value in values.items()])

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Buffer metrics for the next batch; non-finite values are dropped."""
        # MLflow would store a huge number for a value that is not finite.
        finite = {_key(name): float(value) for name, value in values.items() if isfinite(value)}
        self.scores |= finite
        sent, metric = int(1000 * time.time()), mlflow_part("entities").Metric
        for name, value in finite.items():
            data = self._data.get(CONTEXTS.get(name.partition("/")[0], ""), (None, None))
            source = (self.model_id, *data, self.run_id) if self.model_id else ()
            self._waiting.append(metric(name, value, sent, step, *source))
        if time.monotonic() >= self._next_flush:
            self.flush()

    def flush(self) -> None:
        """Send the buffered metrics."""
        begun, waiting, self._waiting = time.monotonic(), self._waiting, []
        self._send("metrics", waiting)
        self._next_flush = begun + max(self.flush_seconds, 50 * (time.monotonic() - begun))

    def tags(self, values: Mapping[str, str]) -> None:
        """Set tags."""
        tag = mlflow_part("entities").RunTag
        self._send("tags", [tag(_key(name), str(text)) for name, text in values.items()])

    def describe(self, text: str) -> None:
        """Append a text in Markdown to the description, which MLflow shows on the run's page."""
        if (run := self.read()) is not None:
            before = run.data.tags.get(_DESCRIPTION, "")
            self.tags({_DESCRIPTION: f"{before}\n\n{text}".strip()})

    def text(self, text: str, path: str) -> None:
        """Log a text file as an artifact."""
        self.attempt(path, lambda: self.client.log_text(self.run_id, text, path))

    def json(self, value: object, path: str) -> None:
        """Log a value as a JSON artifact."""
        self.attempt(path, lambda: self.client.log_dict(self.run_id, value, path))

    def folder(self, path: Path, name: str) -> None:
        """Log the files of a folder as artifacts in a folder `name`."""
        self.attempt(name, lambda: self.client.log_artifacts(self.run_id, str(path), name))

    def model(self, path: Path, kind: str, params: Mapping[str, object]) -> None:
        """Log a folder of `write_model` as the run's logged model, named `model`."""
        client, texts = self.client, {_key(k): str(v)[:5000] for k, v in params.items()}
        owner = client.get_run(self.run_id).info.experiment_id, "model", self.run_id
        logged = client.create_logged_model(*owner, params=texts, model_type=kind)
        described = mlflow_part("models").Model.load(str(path))
        described.model_id = described.model_uuid = logged.model_id
        described.run_id, described.artifact_path = self.run_id, logged.artifact_location
        described.save(str(path / "MLmodel"))
        output = mlflow_part("entities").LoggedModelOutput(logged.model_id, step=0)
        client.log_outputs(self.run_id, [output])
        client.log_model_artifacts(logged.model_id, str(path))
        client.finalize_logged_model(logged.model_id, "READY")
        self.model_id = logged.model_id

    def attempt(self, entry: str, log: Callable[[], object]) -> None:
        """Call `log`. If it raises, note `entry` as missing, or the store as lost."""
        try:
            if not self.lost:
                log()
        except Exception as error:
            run = self.read()
            if run is None or run.info.lifecycle_stage != "active":
                self._lose(error)
            elif entry not in self._missing:
                self._missing.append(entry)
                warn(f"{entry} could not be tracked {reason(error)}")

    def figure(
        self, draw: Callable[[], Figure], path: str, *, key: str = "", size: int = 600
    ) -> None:
        """Log the figure that `draw` returns, with `key` in the image grids of the UI too."""

        def log() -> None:
            draw().savefig(file := io.BytesIO(), format="png")
            picture = require("PIL.Image", extra="plots", purpose="pictures in MLflow").open(file)
            self.client.log_image(self.run_id, picture, artifact_file=path)
            if key:
                self.image(picture, key, size=size)

        self.attempt(path, log)

    def image(self, picture: Any, key: str, *, size: int = 600) -> None:
        """Log a Pillow image for the image grids, at most `size` pixels wide and high there."""
        picture, small = picture.copy(), picture.copy()
        small.thumbnail((size, size))
        # MLflow resizes pictures of grids to 256 pixels, too few to read a word.
        picture.resize = lambda *args, **kwargs: small
        self.attempt(key, lambda: self.client.log_image(self.run_id, picture, key=key))

    def dataset(
        self, X: Any, y: Any, *, name: str, context: str, loader: str = "", **reading: Any
    ) -> None:
        """Log name, shape and digest of "train", "validation" or "test" data.

        `loader` is the expression that loads them, by default a call of `load_dataset`. Of more
        than 256 MiB the first series are digested; `reading` has options of `to_source`.
        """
        from tsformer.data.containers import to_source  # imports torch
        from tsformer.tracking.scoring import array_of

        def log() -> None:
            series, entities = to_source(X, **reading), mlflow_part("entities")
            n_cases = max(_MOST_VALUES // (series.n_steps * series.n_channels), 1)
            values = series.read(np.arange(min(len(series), n_cases))).values.swapaxes(1, 2)
            code = loader or f"tsformer.data.load_dataset({name!r}, split={context!r})"
            source = mlflow_part("data.code_dataset_source").CodeDatasetSource({"code": code})
            targets = None if y is None else array_of(y)[: len(values)]
            described = mlflow_part("data").from_numpy(values, source, targets, name=name[:250])
            dataset = entities.Dataset.from_dictionary(described.to_dict())
            tag = entities.InputTag("mlflow.data.context", context)
            self.client.log_inputs(self.run_id, datasets=[entities.DatasetInput(dataset, [tag])])
            self._data[context] = described.name, described.digest

        self.attempt(f"the {context} data", log)

    def read(self) -> Any:
        """Return the run as the store has it; None if the store fails."""
        try:
            return None if self.lost else self.client.get_run(self.run_id)
        except Exception as error:
            self._lose(error)
            return None

    def end(self, status: str) -> None:
        """Flush, and end with "FINISHED", "FAILED" or "KILLED"; a borrowed run stays active."""
        self.flush()
        self.status = status
        if self.lost:  # the store may be back
            self._missing.append("what came after a failure of the store")
            self.status = "KILLED" if status == "FINISHED" else status
        tags = {_MISSING_TAG: ", ".join(self._missing)} if self._missing else {}
        if self.borrowed and self.status != "FINISHED":
            tags["tsformer.status"] = self.status
        try:
            for tag in tags.items():
                self.client.set_tag(self.run_id, *tag)
            if not self.borrowed:
                self.client.set_terminated(self.run_id, self.status)
        except Exception as error:
            self._lose(error)

    def _send(self, kind: str, entities: Sequence[Any]) -> None:
        """Send parameters, metrics or tags; singly where MLflow refuses one of them."""
        if self.lost or not entities:
            return
        log = functools.partial(self.client.log_batch, self.run_id)
        try:
            log(**{kind: entities})
        except Exception as error:
            if getattr(error, "error_code", "") not in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST"):
                self._lose(error)
            for entity in entities:
                self.attempt(f"{kind}.{entity.key}", functools.partial(log, **{kind: [entity]}))

    def _lose(self, error: Exception) -> None:
        """Send nothing more; warn once."""
        if not self.lost:
            self.lost = True
            warn_untracked(f"run {self.run_id}", error)
