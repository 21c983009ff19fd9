"""Runs of one MLflow experiment, addressed by explicit ids: RunStore has them, TrackedRun is one.

A failure of the store never fails the tracked work.
"""

from __future__ import annotations

import functools
import hashlib
import io
import math
import os
import re
import shlex
import shutil
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
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from tsformer._optional import require
from tsformer._version import __version__
from tsformer.tracking.options import reason, warn, warn_untracked, without_credentials

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow import MlflowClient
    from mlflow.entities import Run

SQLITE = "sqlite:///"
#: The longest tag of MLflow's databases.
TAG_LENGTH = 5000
_KEY_LENGTH, _PARAM_LENGTH, _NAME_LENGTH = 220, 6000, 250  # a name has room for a prefix
_REFUSED = re.compile(r"[^/\w.\- ]" if os.name == "nt" else r"[^/\w.\- :]")
_DESCRIPTION = "mlflow.note.content"
#: The tag of an incomplete run.
_MISSING_TAG = "tsformer.missing"
#: The data that scores are of, by the first part of their names.
CONTEXTS = {"train": "train", "val": "validation", "test": "test"}
#: Values of the data that are digested: 256 MiB of float64. Larger data: the first series.
_MOST_VALUES = 2**25
_EXPERIMENT_TAGS = {
    "mlflow.experimentKind": "custom_model_development",  # training runs, not evaluations
    _DESCRIPTION: "Fits of time-series transformers. The menu at the top right of the runs has "
    "the views *Encodings side by side* and *All fits*. The tag `tsformer.kind` tells runs apart.",
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
        message = f"the tracking store {without_credentials(uri)} cannot be used; start it, or name"
        raise ConnectionError(
            f"{message} another, as sqlite:///mlflow.db {reason(error)}"
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
        wanted = [f"tags.`{name}` = '{value}'" for name, value in (tags or {}).items()]
        wanted += [] if status is None else [f"attributes.status = '{status}'"]
        own: Any = {"filter_string": " and ".join(wanted), "order_by": ["start_time ASC"]}
        page = functools.partial(self.client().search_runs, [self.experiment_id], **own)
        pages = mlflow_part("utils").get_results_from_paginated_fn
        return list(pages(lambda n, token: page(max_results=n, page_token=token), 1000))

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

        If the store fails, warn and return a run that records nothing. `kind`, such as "fit" or
        "study", is the tag ``tsformer.kind``; `key`, ``tsformer.key``, identifies the work; the run
        is shown under `parent`.
        """
        program = re.match(r"tsformer \w\S*|\S+", self.command)  # at a slash pages would cut it
        own = {
            **tags_of(kind),
            "tsformer.command": self.command,
            "mlflow.source.name": program[0] if program else "",
            "mlflow.source.type": "LOCAL",
            _DESCRIPTION: f"Made by `{self.command}`.",
            **({"tsformer.key": key} if key else {}),
        }
        if parent is not None and parent.run_id:
            own[_DESCRIPTION] += f" Part of [this study]({self.page_of(parent.run_id)})."
            own["mlflow.parentRunId"] = parent.run_id
        own = _storable(own | dict(tags or {}), TAG_LENGTH)
        name = name[:_NAME_LENGTH]
        try:
            client = self.client()
            earlier = self.runs(tags={"tsformer.key": key}) if again else []
            if earlier:
                info = earlier[-1].info
                client.update_run(info.run_id, status="RUNNING", name=name)
                if _MISSING_TAG in earlier[-1].data.tags:
                    client.delete_tag(info.run_id, _MISSING_TAG)
                TrackedRun(client, info.run_id).tags(own)
            else:
                info = client.create_run(self.experiment_id, tags=own, run_name=name).info
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
        bare = self.uri == f"{SQLITE}{Path('mlflow.db').absolute()}"
        if bare and "MLFLOW_TRACKING_URI" not in os.environ:
            return "tsformer ui"
        return shlex.join(["tsformer", "ui", "--tracking-uri", without_credentials(self.uri)])

    def run_address(self, run_id: str) -> str:
        """Return the address of the page of a run; for a file, once `ui_command` is running."""
        uri = "http://127.0.0.1:5000" if self.uri.startswith(SQLITE) else self.uri
        return f"{without_credentials(uri).rstrip('/')}/{self.page_of(run_id)}"


def tags_of(kind: str) -> dict[str, str]:
    """Return the tags of every run."""
    own = {"tsformer.version": __version__, "tsformer.host": socket.gethostname()}
    return {"tsformer.kind": kind, **own, **({"tsformer.commit": commit()} if commit() else {})}


@functools.lru_cache(maxsize=8)
def _client(uri: str) -> Any:
    mlflow = mlflow_part()
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


def _storable_name(name: str) -> str:
    """Return a name with ``_`` for the characters that MLflow refuses."""
    return _REFUSED.sub("_", name[:_KEY_LENGTH]) or "_"


def _storable(values: Mapping[str, object], length: int) -> dict[str, str]:
    """Return parameters or tags as MLflow can store them."""
    return {_storable_name(name): str(value)[:length] for name, value in values.items()}


def padded(
    X: Any, times: Any = None, *, index: bool = False, most: int | None = None
) -> npt.NDArray[Any]:
    """Return the first series as an array [n, C, L], padded with NaN."""
    from tsformer.data.containers import to_source  # imports torch

    series = to_source(X, times, index=index)
    most = most or max(_MOST_VALUES // (series.n_steps * series.n_channels), 1)
    return series.read(np.arange(min(len(series), most))).values.swapaxes(1, 2)


@dataclass(eq=False, repr=False)
class TrackedRun(AbstractContextManager["TrackedRun"]):
    """One run of MLflow, addressed by its id; MLflow's "active run" is never touched.

    Metrics are sent in batches, in about 2 % of the time. An entry that MLflow refuses costs a
    warning and is listed in the tag ``tsformer.missing``. If the store fails, one warning is
    issued, `lost` is true, and nothing more is sent: the run is KILLED if the store is back at the
    end. As a context manager it ends the run: FINISHED, KILLED by Ctrl-C, or FAILED, with the tag
    ``tsformer.error`` and the traceback in ``error.txt``.

    Parameters
    ----------
    client : MlflowClient or None, run_id : str
        Client of the store, None for a run that could not be created; id of the run.
    flush_seconds : float, default=5.0
        Minimum time between two batches of metrics.
    store : RunStore, optional
        The store of the run.
    borrowed : bool, default=False
        Whether the caller's own code ends the run. Parameters are then sent at the end.
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
        self._late_params: dict[str, object] = {}
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
        """Log parameters. They cannot change later; long values are truncated."""
        if self.borrowed and self.status is None:  # its owner may still log the same names
            self._late_params |= values
            return
        pairs = _storable(values, _PARAM_LENGTH).items()
        self._send_batch("params", [mlflow_part("entities").Param(*pair) for pair in pairs])

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Buffer metrics for the next batch; non-finite values are dropped."""
        # MLflow would store a huge number for a value that is not finite.
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        self.scores |= finite
        for name, value in finite.items():
            metric = (_storable_name(name), value, int(1000 * time.time()), step)
            context = CONTEXTS.get(name.partition("/")[0])
            if context and self.model_id:  # a score of the model, on the data logged before
                data = self._data.get(context, (None, None))
                metric = (*metric, self.model_id, *data, self.run_id)
            self._waiting.append(mlflow_part("entities").Metric(*metric))
        if time.monotonic() >= self._next_flush:
            self.flush()

    def flush(self) -> None:
        """Send the buffered metrics."""
        begun = time.monotonic()
        waiting, self._waiting = self._waiting, []
        self._send_batch("metrics", waiting)
        now = time.monotonic()
        self._next_flush = now + max(self.flush_seconds, 50 * (now - begun))

    def tags(self, values: Mapping[str, str]) -> None:
        """Set tags; long values are truncated."""
        pairs = _storable(values, TAG_LENGTH).items()
        self._send_batch("tags", [mlflow_part("entities").RunTag(*pair) for pair in pairs])

    def describe(self, text: str) -> None:
        """Append a text in Markdown to the description, which MLflow shows on the run's page."""
        if (run := self.read()) is not None:
            before = run.data.tags.get(_DESCRIPTION, "")
            self.tags({_DESCRIPTION: f"{before}\n\n{text}".strip()})

    def text(self, text: str, path: str) -> None:
        """Log a text file as an artifact."""
        self._send(path, "log_text", text, path, file=True)

    def json(self, value: object, path: str) -> None:
        """Log a value as a JSON artifact."""
        self._send(path, "log_dict", value, path, file=True)

    def folder(self, path: Path, name: str) -> None:
        """Log the files of a folder as artifacts in a folder `name`."""
        self._send(name, "log_artifacts", str(path), name, file=True)

    def model(self, path: Path, kind: str, params: Mapping[str, object]) -> None:
        """Log a folder of `write_model` as the run's logged model, named `model`."""
        client, texts = self.client, _storable(params, _PARAM_LENGTH)
        where = client.get_run(self.run_id).info.experiment_id, "model", self.run_id
        logged = client.create_logged_model(*where, params=texts, model_type=kind)
        described = mlflow_part("models").Model.load(str(path))
        described.model_id = described.model_uuid = logged.model_id
        described.run_id, described.artifact_path = self.run_id, logged.artifact_location
        described.save(str(path / "MLmodel"))
        status = "FAILED"
        try:
            output = mlflow_part("entities").LoggedModelOutput(logged.model_id, step=0)
            client.log_outputs(self.run_id, [output])
            client.log_model_artifacts(logged.model_id, str(path))
            status = "READY"
        finally:
            client.finalize_logged_model(logged.model_id, status)
        self.model_id = logged.model_id

    def attempt(self, what: str, log: Callable[[], object]) -> None:
        """Call `log`. If it raises, `what` is missing: tracking never fails a fit."""
        try:
            if not self.lost:
                log()
        except Exception as error:
            self._miss(what, error)

    def figure(
        self, draw: Callable[[], Figure], path: str, *, key: str = "", size: int = 600
    ) -> None:
        """Log the figure that `draw` returns, with `key` in the image grids of the UI too."""

        def log() -> None:
            draw().savefig(file := io.BytesIO(), format="png")
            images = require("PIL.Image", extra="plots", purpose="images in MLflow")
            picture = images.open(file).convert("RGB")
            self._send(path, "log_image", picture, artifact_file=path, file=True)
            if key:
                self.image(picture, key, size=size)

        self.attempt(path, log)

    def image(self, picture: Any, key: str, *, size: int = 600) -> None:
        """Log a Pillow image for the image grids, at most `size` pixels wide and high there."""
        picture, small = picture.copy(), picture.copy()
        small.thumbnail((size, size))
        # MLflow resizes pictures of grids to 256 pixels, too few to read a word.
        picture.resize = lambda *args, **kwargs: small
        self._send(key, "log_image", picture, file=True, key=key, step=0, synchronous=True)

    def dataset(
        self, X: Any, y: Any, *, name: str, context: str, loader: str = "", **reading: Any
    ) -> None:
        """Log name, shape and digest of "train", "validation" or "test" data.

        `loader` is the expression that loads them, by default a call of `load_dataset`. Of more
        than 256 MiB the first series are digested; `reading` has options of `padded`.
        """
        from tsformer.tracking.metrics import array_of

        X, entities = padded(X, **reading), mlflow_part("entities")
        code = loader or f"tsformer.data.load_dataset({name!r}, split={context!r})"
        described = mlflow_part("data").from_numpy(
            X,
            source=mlflow_part("data.code_dataset_source").CodeDatasetSource({"code": code}),
            targets=None if y is None else array_of(y)[: len(X)],
            name=name[:_NAME_LENGTH],
        )
        dataset = entities.Dataset.from_dictionary(described.to_dict())
        tags = [entities.InputTag("mlflow.data.context", context)]
        used = [entities.DatasetInput(dataset, tags=tags)]
        if self._send(f"the data {name}", "log_inputs", datasets=used):
            self._data[context] = described.name, described.digest

    def read(self) -> Any:
        """Return the run as the store has it; None if the store fails."""
        try:
            return None if self.lost else self.client.get_run(self.run_id)
        except Exception as error:
            self._lose(error)
            return None

    def end(self, status: str) -> None:
        """Flush and end the run with status "FINISHED", "FAILED" or "KILLED".

        A borrowed run stays active; a status other than FINISHED is in the tag ``tsformer.status``.
        """
        self.flush()
        self.status = status
        self.params(self._late_params)
        if self.borrowed and status != "FINISHED":
            self.tags({"tsformer.status": status})
        self.tags({_MISSING_TAG: ", ".join(self._missing)} if self._missing else {})
        if not self.borrowed:
            self._send("the end", "set_terminated", status)
        if self.lost:
            self.status = "KILLED" if status == "FINISHED" else status
            with suppress(Exception):  # the store may be back; its failure was reported
                missing = [*self._missing, "what came after a failure of the store"]
                self.client.set_tag(self.run_id, _MISSING_TAG, ", ".join(missing)[:TAG_LENGTH])
                if not self.borrowed:
                    self.client.set_terminated(self.run_id, self.status)

    def _send_batch(self, kind: str, batch: Sequence[Any]) -> None:
        """Send parameters, metrics or tags; singly where MLflow refuses one of them."""
        what = f"{kind}.{batch[0].key}" if len(batch) == 1 else ""
        named: dict[str, Any] = {kind: batch}
        if batch and not self._send(what, "log_batch", **named) and not (what or self.lost):
            for entity in batch:
                self._send_batch(kind, [entity])

    def _send(self, what: str, method: str, *args: Any, file: bool = False, **kwargs: Any) -> bool:
        """Call the client. A refused entry or file is missing; a failed store ends tracking."""
        if self.lost:
            return False
        try:
            getattr(self.client, method)(self.run_id, *args, **kwargs)
        except Exception as error:
            refused = getattr(error, "error_code", "") in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
            # A refusal may mean that the run is gone.
            run = self.read() if file or refused else None
            if run is None or run.info.lifecycle_stage != "active":
                self._lose(error)
            elif what:
                self._miss(what, error)
            return False
        return True

    def _miss(self, what: str, error: Exception) -> None:
        """Warn that `what` is not tracked, and list it in the tag ``tsformer.missing``."""
        if what not in self._missing:
            self._missing.append(what)
            warn(f"{what} could not be tracked {reason(error)}")

    def _lose(self, error: Exception) -> None:
        if not self.lost:
            self.lost = True
            warn_untracked(f"run {self.run_id}", error)
