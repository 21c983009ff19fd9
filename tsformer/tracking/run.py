"""TrackedRun: a run of MLflow whose failures never fail the tracked work."""

from __future__ import annotations

import json
import math
import os
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tsformer._optional import require
from tsformer.tracking.settings import reason, warn, warn_untracked

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from mlflow import MlflowClient

# A database refuses longer names; some characters are left for a suffix and a prefix.
_KEY_LENGTH = 220
_REFUSED = re.compile(r"[^/\w.\- ]" if os.name == "nt" else r"[^/\w.\- :]")


def storable(value: object, length: int | None = None) -> str:
    """Return a value as text, NUL and surrogates escaped, of at most `length` characters."""
    try:
        text = str(value)
    except Exception as error:  # a class of the user's
        text = f"<{type(value).__name__}: str() raised {type(error).__name__}>"
    # A database may refuse NUL, and UTF-8 has no lone surrogates.
    text = text[:length].replace("\0", r"\x00")
    return text.encode("utf-8", "backslashreplace").decode("utf-8")[:length]


def storable_name(name: str) -> str:
    """Return a name with characters and path parts replaced that MLflow refuses.

    Examples
    --------
    >>> storable_name("class_weight.walk (slow)")
    'class_weight.walk _slow_'
    >>> storable_name("../a//b")
    'a/b'
    """
    parts = _REFUSED.sub("_", name[:_KEY_LENGTH]).split("/")
    return "/".join(part for part in parts if part.strip(".")) or "_"


class Names:
    """The names under which one run stores parameters, metrics or tags."""

    def __init__(self) -> None:
        self._stored: dict[str, str] = {}

    def __call__(self, name: object) -> str:
        """Return the stored form of a name; warn if it differs, once."""
        text = name if isinstance(name, str) else storable(name, _KEY_LENGTH)
        if text not in self._stored:
            short = stored = storable_name(text)
            number = 1
            while stored in self._stored.values():
                number += 1
                stored = f"{short}_{number}"
            self._stored[text] = stored
            if stored != text:
                shown = ascii(text[:_KEY_LENGTH])
                warn(f"MLflow refuses the name {shown}: it is stored as {stored!r}")
        return self._stored[text]


# MLflow's limits of one call and of values.
_AT_ONCE = {"metrics": 1000, "params": 100, "tags": 100}
_PARAM_LENGTH = 6000
NAME_LENGTH = 250
TAG_LENGTH = 5000
_REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
_DESCRIPTION = "mlflow.note.content"
#: The data that scores are of, by the first part of their names.
CONTEXTS = {"train": "train", "val": "validation", "test": "test"}
#: The tag of an incomplete run.
MISSING_TAG = "tsformer.missing"
# Pixels: two such pictures fit side by side into a window of 2,000.
_IMAGE_SIZE = 600


class RunEnded(Exception):
    """Another process ended the run: stop the work and discard its result."""


class TrackedRun:
    """One run of MLflow, addressed by its id; MLflow's "active run" is never touched.

    Metrics are sent in batches, at most every `flush_seconds`, in about 2 % of the time. A name or
    file that MLflow refuses costs a warning and is listed in the tag ``tsformer.missing``. If the
    store fails, one warning is issued, `lost` is true, and nothing more is sent. Such a run is not
    FINISHED: it is KILLED if the store is back at the end, else it stays RUNNING.

    As a context manager it ends the run: FINISHED, KILLED by Ctrl-C, or FAILED with the tag
    ``tsformer.error`` and the traceback in ``error.txt``. RunEnded leaves the run as it is.

    Parameters
    ----------
    client : MlflowClient or None
        Client of the store; None for a run that could not be created.
    run_id : str
        Id of the run.
    flush_seconds : float, default=5.0
        Minimum time between two batches of metrics.
    started : int, optional
        Start of the run in milliseconds since 1970; now by default.
    borrowed : bool, default=False
        Whether the caller's own code ends the run. Parameters are then sent at the end, and named
        ``tsformer.NAME`` if the run has another value.
    """

    def __init__(
        self,
        client: MlflowClient | None,
        run_id: str,
        *,
        flush_seconds: float = 5.0,
        started: int | None = None,
        borrowed: bool = False,
    ):
        self.client = client
        self.run_id = run_id
        self.flush_seconds = flush_seconds
        self.borrowed = borrowed
        self.lost = client is None
        self.status: str | None = None
        self.model_id: str | None = None
        self._scores: dict[str, Any] = {}
        self._data: dict[str, tuple[str, str]] = {}
        self._late_params: dict[str, str] = {}
        self._param_names, self._metric_names, self._tag_names = Names(), Names(), Names()
        self._missing: list[str] = []
        self._no_artifacts = False
        self._started = int(time.time() * 1000) if started is None else started
        self._begun = time.monotonic()
        self._waiting: list[Any] = []
        self._next_flush = time.monotonic() + flush_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.status is not None:
            return  # it was ended inside the block
        if error is None:
            self.end("FINISHED")
        elif isinstance(error, RunEnded):
            return
        elif isinstance(error, Exception):
            self.error(error)
            self.end("FAILED")
        else:
            self.end("KILLED")

    def error(self, error: Exception) -> None:
        """Log the message of an error as the tag ``tsformer.error``, its traceback as a file."""
        self.tags({"tsformer.error": f"{type(error).__name__}: {error}"})
        self.text("".join(traceback.format_exception(error)), "error.txt")

    def params(self, values: Mapping[str, object]) -> None:
        """Log parameters. They cannot change later; long values are truncated."""
        texts = {self._param_names(n): storable(v, _PARAM_LENGTH) for n, v in values.items()}
        if self.borrowed:  # its owner may still log the same names
            self._late_params |= texts
        else:
            self._send_params(texts)

    def _send_params(self, texts: Mapping[str, str]) -> None:
        entities = require("mlflow.entities", extra="tracking", purpose="tracking")
        self._send_batches("params", [entities.Param(name, text) for name, text in texts.items()])

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Buffer metrics for the next batch; non-finite values are dropped."""
        entities = require("mlflow.entities", extra="tracking", purpose="tracking")
        now = self._now()
        metrics = [
            entities.Metric(self._metric_names(name), float(value), now, step)
            for name, value in values.items()
            if math.isfinite(value)  # MLflow would store a huge number instead
        ]
        self._waiting += metrics
        self._scores |= {metric.key: metric for metric in metrics}
        if time.monotonic() >= self._next_flush:
            self.flush()

    def flush(self) -> None:
        """Send the buffered metrics."""
        begun = time.monotonic()
        waiting, self._waiting = self._waiting, []
        self._send_batches("metrics", waiting)
        now = time.monotonic()
        self._next_flush = now + max(self.flush_seconds, 50 * (now - begun))

    def tags(self, values: Mapping[str, str]) -> None:
        """Set tags; long values are truncated."""
        entities = require("mlflow.entities", extra="tracking", purpose="tracking")
        texts = {self._tag_names(name): storable(v, TAG_LENGTH) for name, v in values.items()}
        self._send_batches("tags", [entities.RunTag(name, text) for name, text in texts.items()])

    def describe(self, text: str) -> None:
        """Append a text in Markdown to the description, which MLflow shows on the run's page."""

        def log() -> None:
            client: Any = self.client
            before = client.get_run(self.run_id).data.tags.get(_DESCRIPTION, "")
            self.tags({_DESCRIPTION: f"{before}\n\n{text}".strip()})

        self.attempt("the description", log)

    def text(self, text: str, path: str) -> None:
        """Log a text file as an artifact."""
        self._send_artifact(path, "log_text", storable(text), path)

    def json(self, value: object, path: str) -> None:
        """Log a value as a JSON artifact."""
        self.text(json.dumps(value, indent=2, default=str), path)

    def folder(self, path: Path, name: str) -> None:
        """Log the files of a folder as artifacts in a folder `name`."""
        self._send_artifact(name, "log_artifacts", str(path), name)

    def model(self, path: Path, kind: str, params: Mapping[str, object]) -> None:
        """Log a folder of `write_model` as the run's logged model, named `model`."""
        client: Any = self.client
        entities = require("mlflow.entities", extra="tracking", purpose="tracking")
        models = require("mlflow.models", extra="tracking", purpose="tracking")
        texts = {self._param_names(n): storable(v, _PARAM_LENGTH) for n, v in params.items()}
        try:
            experiment_id = client.get_run(self.run_id).info.experiment_id
            logged = client.create_logged_model(
                experiment_id, "model", self.run_id, params=texts, model_type=kind
            )
        except Exception as error:
            if getattr(error, "error_code", "") != "ENDPOINT_NOT_FOUND":
                raise
            self.folder(path, "model")  # a server before MLflow 3
            return
        described = models.Model.load(str(path))
        described.model_id = described.model_uuid = logged.model_id
        described.run_id, described.artifact_path = self.run_id, logged.artifact_location
        described.save(str(path / "MLmodel"))
        try:
            client.log_outputs(self.run_id, [entities.LoggedModelOutput(logged.model_id, step=0)])
            client.log_model_artifacts(logged.model_id, str(path))
        except Exception:
            client.finalize_logged_model(logged.model_id, "FAILED")
            raise
        client.finalize_logged_model(logged.model_id, "READY")
        self.model_id = logged.model_id

    def _link_scores(self) -> None:
        """Log the last scores again as those of the model, with their data."""
        entities = require("mlflow.entities", extra="tracking", purpose="tracking")
        linked = []
        for metric in self._scores.values():
            part = metric.key.partition("/")[0]
            if part in CONTEXTS:
                name, digest = self._data.get(CONTEXTS[part], (None, None))
                value = (metric.key, metric.value, metric.timestamp, metric.step)
                linked.append(entities.Metric(*value, self.model_id, name, digest, self.run_id))
        self._send_batches("metrics", linked)

    def attempt(self, what: str, log: Callable[[], object]) -> None:
        """Call `log`. If it raises, `what` is missing: tracking never fails a fit."""
        if self.lost:
            return
        try:
            log()
        except Exception as error:
            self.miss(what, error)

    def figure(
        self, draw: Callable[[], Figure], path: str, *, key: str = "", size: int = _IMAGE_SIZE
    ) -> None:
        """Log the figure that `draw` returns, with `key` in the image grids of the UI too."""

        def log() -> None:
            pixels = _pixels(draw())
            self._send_artifact(path, "log_image", pixels, artifact_file=path)
            if key:
                self.image(pixels, key, size=size)

        self.attempt(path, log)

    def image(self, picture: Any, key: str, *, size: int = _IMAGE_SIZE) -> None:
        """Log an array or Pillow image for the image grids, at most `size` pixels wide there."""
        images = require("PIL.Image", extra="plots", purpose="images in MLflow")
        picture = images.fromarray(picture) if isinstance(picture, np.ndarray) else picture.copy()
        small = picture.copy()
        small.thumbnail((size, size))
        # MLflow resizes pictures of grids to 256 pixels, too few to read a word.
        picture.resize = lambda *args, **kwargs: small
        self._send_artifact(key, "log_image", picture, key=key, step=0, synchronous=True)

    def dataset(
        self,
        X: np.ndarray | Sequence[np.ndarray],
        y: np.ndarray | None,
        *,
        name: str,
        context: str,
        loader: str = "",
    ) -> None:
        """Log name, shape and digest of "train", "validation" or "test" data.

        `loader` is the expression that loads them, by default a call of `load_dataset`.
        """
        data = require("mlflow.data", extra="tracking", purpose="tracking")
        sources = require("mlflow.data.code_dataset_source", extra="tracking", purpose="tracking")
        entities = require("mlflow.entities", extra="tracking", purpose="tracking")
        loader = loader or f"tsformer.data.load_dataset({name!r}, split={context!r})"
        described = data.from_numpy(
            _dense(X),
            source=sources.CodeDatasetSource({"code": loader}),
            targets=None if y is None else np.asarray(y),
            name=storable(name, NAME_LENGTH),
        )
        used = entities.DatasetInput(
            entities.Dataset.from_dictionary(described.to_dict()),
            tags=[entities.InputTag("mlflow.data.context", context)],
        )
        if (error := self._send("log_inputs", datasets=[used])) is not None:
            self.miss(f"the data {name}", error)
        else:
            self._data[context] = described.name, described.digest

    def ended(self) -> bool:
        """Return whether the run has ended in the store; False if the store fails."""
        if self.client is None or self.lost:
            return False
        try:
            return bool(self.client.get_run(self.run_id).info.status != "RUNNING")
        except Exception:  # the next write reports it
            return False

    def logged_metrics(self) -> dict[str, float]:
        """Return the last values of the metrics that the store has of this run."""
        data = self._read()
        return {} if data is None else dict(data.metrics)

    def _read(self) -> Any:
        """Return the data that the store has of this run; None if it fails."""
        if self.client is None or self.lost:
            return None
        try:
            return self.client.get_run(self.run_id).data
        except Exception as error:  # tracking never fails a fit
            self._lose(error)
            return None

    def end(self, status: str) -> None:
        """Flush and end the run with status "FINISHED", "FAILED" or "KILLED".

        A borrowed run stays active; a status other than FINISHED is in the tag ``tsformer.status``.
        """
        self.flush()
        if self.model_id is not None:
            self._link_scores()
        if self.borrowed:
            self._send_params(self._renamed(self._late_params))
            if status != "FINISHED":
                self.tags({"tsformer.status": status})
        if self._missing:
            self.tags({MISSING_TAG: ", ".join(self._missing)})
        if not self.borrowed:
            self._send("set_terminated", status, end_time=self._now())
        self.status = "KILLED" if self.lost and status == "FINISHED" else status
        if self.lost:
            self._abandon(self.status)

    def miss(self, what: str, error: Exception) -> None:
        """Warn that `what` is not tracked, and list it in the tag ``tsformer.missing``."""
        if what not in self._missing:
            self._missing.append(what)
            warn(f"{what} could not be tracked {reason(error)}")

    def _abandon(self, status: str) -> None:
        """Try to end a run whose store failed."""
        if self.client is None:
            return
        try:
            missing = [*self._missing, "what came after a failure of the store"]
            self.client.set_tag(self.run_id, MISSING_TAG, storable(", ".join(missing), TAG_LENGTH))
            if not self.borrowed and self.client.get_run(self.run_id).info.status == "RUNNING":
                self.client.set_terminated(self.run_id, status, end_time=self._now())
        except Exception:  # the warning of the failure was issued before
            return

    def _renamed(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Return parameters that the run lacks, under free names."""
        if (data := self._read()) is None:
            return {}
        there = data.params
        named = {(f"tsformer.{k}" if k in there else k): v for k, v in texts.items()}
        same = {name for name, text in texts.items() if there.get(name) == text}
        return {
            name: text
            for name, text in named.items()
            if name not in there and name.removeprefix("tsformer.") not in same
        }

    def _now(self) -> int:
        """Return milliseconds since 1970, monotonic."""
        passed = int(1000 * (time.monotonic() - self._begun))
        return max(self._started + passed, int(time.time() * 1000))

    def _send_batches(self, kind: str, entities: Sequence[Any]) -> None:
        """Send parameters, metrics or tags; singly where MLflow refuses one of them."""
        for i in range(0, len(entities), _AT_ONCE[kind]):
            batch = entities[i : i + _AT_ONCE[kind]]
            named: dict[str, Any] = {kind: batch}
            error = self._send("log_batch", **named)
            if error is None:
                continue
            if len(batch) == 1:
                self.miss(f"{kind}.{batch[0].key}", error)
                continue
            for entity in batch:
                self._send_batches(kind, [entity])

    def _send_artifact(self, path: str, method: str, *args: Any, **kwargs: Any) -> None:
        """Log a file; skip further files after the artifact store failed."""
        if self.lost:
            return
        if self._no_artifacts:
            self._missing.append(path)
            return
        try:
            getattr(self.client, method)(self.run_id, *args, **kwargs)
        except Exception as error:  # tracking never fails a fit
            self._no_artifacts = not _refused(error)
            if self._writable(error):
                self.miss(path, error)

    def _send(self, method: str, *args: Any, again: bool = True, **kwargs: Any) -> Exception | None:
        """Call the client; return the error if MLflow refuses the arguments."""
        if self.lost:
            return None
        try:
            getattr(self.client, method)(self.run_id, *args, **kwargs)
        except Exception as error:  # tracking never fails a fit
            # Two processes inserted the same row at once; now it exists.
            if again and re.search("unique|duplicate|integrity", str(error), re.IGNORECASE):
                return self._send(method, *args, again=False, **kwargs)
            if _refused(error) and self._writable(error):
                return error
            self._lose(error)
        return None

    def _writable(self, error: Exception) -> bool:
        """Return whether the store still has the run; else stop tracking."""
        client: Any = self.client
        try:
            active = client.get_run(self.run_id).info.lifecycle_stage == "active"
        except Exception:  # `error` is reported
            active = False
        if not active:
            self._lose(error)
        return active

    def _lose(self, error: Exception) -> None:
        if self.lost:
            return
        self.lost = True
        warn_untracked(f"run {self.run_id}", error)


def _refused(error: Exception) -> bool:
    """Return whether MLflow refuses an argument; else the store failed."""
    return isinstance(error, UnicodeError) or getattr(error, "error_code", "") in _REFUSALS


def _pixels(figure: Figure) -> np.ndarray:
    """Return the figure as an array [height, width, 3] of bytes."""
    agg = require("matplotlib.backends.backend_agg", extra="plots", purpose="drawing a figure")
    canvas = agg.FigureCanvasAgg(figure)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()


def _dense(X: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
    """Return one array, shorter series padded with NaN."""
    if isinstance(X, np.ndarray):
        return X
    longest = max(series.shape[-1] for series in X)
    return np.stack(
        [
            np.pad(s, ((0, 0), (0, longest - s.shape[-1])), constant_values=np.nan)
            for s in map(np.asarray, X)
        ]
    )
