"""TrackedRun: a run of MLflow whose failures never fail the tracked work."""

from __future__ import annotations

import json
import math
import os
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tsformer._optional import require
from tsformer.tracking.settings import reason, warn, warn_untracked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# A database refuses longer names; some characters are left for a suffix and a prefix.
_KEY_LENGTH = 220
_REFUSED = re.compile(r"[^/\w.\- ]" if os.name == "nt" else r"[^/\w.\- :]")
_PARAM_LENGTH = 6000
NAME_LENGTH = 250
TAG_LENGTH = 5000
_DESCRIPTION = "mlflow.note.content"
#: The data that scores are of, by the first part of their names.
CONTEXTS = {"train": "train", "val": "validation", "test": "test"}
#: The tag of an incomplete run.
MISSING_TAG = "tsformer.missing"
# Pixels: two such pictures fit side by side into a window of 2,000.
_IMAGE_SIZE = 600


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


class Names(dict[str, str]):
    """The stored names of one run's parameters, metrics or tags."""

    def __missing__(self, name: str) -> str:
        """Store a name under a free form; warn if it differs."""
        short = stored = storable_name(name)
        number = 1
        while stored in self.values():
            number += 1
            stored = f"{short}_{number}"
        if stored != name:
            shown = ascii(name[:_KEY_LENGTH])
            warn(f"MLflow refuses the name {shown}: it is stored as {stored!r}")
        return self.setdefault(name, stored)


class RunEnded(Exception):
    """Another process ended the run: stop the work and discard its result."""


@dataclass(eq=False, repr=False)
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
    store : RunStore, optional
        The store of the run.
    borrowed : bool, default=False
        Whether the caller's own code ends the run. Parameters are then sent at the end, and named
        ``tsformer.NAME`` if the run has another value.
    """

    client: Any
    run_id: str
    flush_seconds: float = field(default=5.0, kw_only=True)
    store: Any = field(default=None, kw_only=True)  # a RunStore, whose module imports this one
    borrowed: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self.lost = self.client is None
        self.status: str | None = None
        self.model_id: str | None = None
        self.scores: dict[str, float] = {}  # the last value of each metric, also of a lost run
        self._sent: dict[str, Any] = {}
        self._data: dict[str, tuple[str, str]] = {}
        self._late_params: dict[str, str] = {}
        self._names = {kind: Names() for kind in ("metrics", "params", "tags")}
        self._missing: list[str] = []
        self._no_artifacts = False
        self._waiting: list[Any] = []
        self._next_flush = time.monotonic() + self.flush_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.status is not None or isinstance(error, RunEnded):
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
        known = self.store is not None and not self.lost
        return str(self.store.run_address(self.run_id)) if known else None

    def params(self, values: Mapping[str, object]) -> None:
        """Log parameters. They cannot change later; long values are truncated."""
        if self.borrowed:  # its owner may still log the same names
            self._late_params |= self._texts("params", values)
        else:
            self._send_entities("params", self._texts("params", values))

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Buffer metrics for the next batch; non-finite values are dropped."""
        names, now = self._names["metrics"], int(1000 * time.time())
        # MLflow would store a huge number for a value that is not finite.
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        metrics = [_entities().Metric(names[name], v, now, step) for name, v in finite.items()]
        self.scores |= finite
        self._sent |= {metric.key: metric for metric in metrics}
        self._waiting += metrics
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
        self._send_entities("tags", self._texts("tags", values))

    def describe(self, text: str) -> None:
        """Append a text in Markdown to the description, which MLflow shows on the run's page."""
        if (run := self.read()) is not None:
            before = run.data.tags.get(_DESCRIPTION, "")
            self.tags({_DESCRIPTION: f"{before}\n\n{text}".strip()})

    def text(self, text: str, path: str) -> None:
        """Log a text file as an artifact."""
        self._send(path, "log_text", storable(text), path, file=True)

    def json(self, value: object, path: str) -> None:
        """Log a value as a JSON artifact."""
        self.text(json.dumps(value, indent=2, default=str), path)

    def folder(self, path: Path, name: str) -> None:
        """Log the files of a folder as artifacts in a folder `name`."""
        self._send(name, "log_artifacts", str(path), name, file=True)

    def model(self, path: Path, kind: str, params: Mapping[str, object]) -> None:
        """Log a folder of `write_model` as the run's logged model, named `model`."""
        client, experiment_id = self.client, self.client.get_run(self.run_id).info.experiment_id
        texts = {"params": self._texts("params", params), "model_type": kind}
        try:
            logged = client.create_logged_model(experiment_id, "model", self.run_id, **texts)
        except Exception as error:
            if getattr(error, "error_code", "") != "ENDPOINT_NOT_FOUND":
                raise
            self.folder(path, "model")  # a server before MLflow 3
            return
        models = require("mlflow.models", extra="tracking", purpose="tracking")
        described = models.Model.load(str(path))
        described.model_id = described.model_uuid = logged.model_id
        described.run_id, described.artifact_path = self.run_id, logged.artifact_location
        described.save(str(path / "MLmodel"))
        status = "FAILED"
        try:
            output = _entities().LoggedModelOutput(logged.model_id, step=0)
            client.log_outputs(self.run_id, [output])
            client.log_model_artifacts(logged.model_id, str(path))
            status = "READY"
        finally:
            client.finalize_logged_model(logged.model_id, status)
        self.model_id = logged.model_id

    def attempt(self, what: str, log: Callable[[], object]) -> None:
        """Call `log`. If it raises, `what` is missing: tracking never fails a fit."""
        if self.lost:
            return
        try:
            log()
        except Exception as error:
            self._miss(what, error)

    def figure(
        self, draw: Callable[[], Figure], path: str, *, key: str = "", size: int = _IMAGE_SIZE
    ) -> None:
        """Log the figure that `draw` returns, with `key` in the image grids of the UI too."""

        def log() -> None:
            agg = require("matplotlib.backends.backend_agg", extra="plots", purpose="a figure")
            canvas = agg.FigureCanvasAgg(draw())
            canvas.draw()
            pixels = np.asarray(canvas.buffer_rgba())[..., :3].copy()
            self._send(path, "log_image", pixels, artifact_file=path, file=True)
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
        image = {"key": key, "step": 0, "synchronous": True}
        self._send(key, "log_image", picture, file=True, **image)

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
        loader = loader or f"tsformer.data.load_dataset({name!r}, split={context!r})"
        described = data.from_numpy(
            X if isinstance(X, np.ndarray) else _padded(X),
            source=sources.CodeDatasetSource({"code": loader}),
            targets=None if y is None else np.asarray(y),
            name=storable(name, NAME_LENGTH),
        )
        dataset = _entities().Dataset.from_dictionary(described.to_dict())
        tags = [_entities().InputTag("mlflow.data.context", context)]
        used = [_entities().DatasetInput(dataset, tags=tags)]
        if self._send(f"the data {name}", "log_inputs", datasets=used) is None:
            self._data[context] = described.name, described.digest

    def read(self) -> Any:
        """Return the run as the store has it; None if the store fails."""
        if self.lost:
            return None
        try:
            return self.client.get_run(self.run_id)
        except Exception as error:  # tracking never fails a fit
            self._lose(error)
            return None

    def end(self, status: str) -> None:
        """Flush and end the run with status "FINISHED", "FAILED" or "KILLED".

        A borrowed run stays active; a status other than FINISHED is in the tag ``tsformer.status``.
        """
        self.flush()
        if self.model_id is not None:  # the last scores again, as those of the model
            linked = []
            for metric in self._sent.values():
                if (part := metric.key.partition("/")[0]) in CONTEXTS:
                    data = self._data.get(CONTEXTS[part], (None, None))
                    value = (metric.key, metric.value, metric.timestamp, metric.step)
                    linked.append(_entities().Metric(*value, self.model_id, *data, self.run_id))
            self._send_batch("metrics", linked)
        if self.borrowed:
            there = {} if (run := self.read()) is None else run.data.params
            late = self._late_params.items()
            named = {k if there.get(k, v) == v else f"tsformer.{k}": v for k, v in late}
            self._send_entities("params", named)
            if status != "FINISHED":
                self.tags({"tsformer.status": status})
        if self._missing:
            self.tags({MISSING_TAG: ", ".join(self._missing)})
        if not self.borrowed:
            self._send("the end", "set_terminated", status)
        self.status = "KILLED" if self.lost and status == "FINISHED" else status
        if self.lost and self.client is not None:  # the store may be back
            missing = [*self._missing, "what came after a failure of the store"]
            try:
                text = storable(", ".join(missing), TAG_LENGTH)
                self.client.set_tag(self.run_id, MISSING_TAG, text)
                if not self.borrowed and self.client.get_run(self.run_id).info.status == "RUNNING":
                    self.client.set_terminated(self.run_id, self.status)
            except Exception:  # the warning of the failure was issued before
                return

    def _texts(self, kind: str, values: Mapping[str, object]) -> dict[str, str]:
        """Return storable names and texts of parameters or tags."""
        names, length = self._names[kind], _PARAM_LENGTH if kind == "params" else TAG_LENGTH
        return {names[name]: storable(value, length) for name, value in values.items()}

    def _send_entities(self, kind: str, texts: Mapping[str, str]) -> None:
        entity = _entities().Param if kind == "params" else _entities().RunTag
        self._send_batch(kind, [entity(name, text) for name, text in texts.items()])

    def _send_batch(self, kind: str, batch: Sequence[Any]) -> None:
        """Send parameters, metrics or tags; singly where MLflow refuses one of them."""
        if batch:
            what = f"{kind}.{batch[0].key}" if len(batch) == 1 else ""
            named: dict[str, Any] = {kind: batch}
            if self._send(what, "log_batch", **named) is not None and not what:
                for entity in batch:
                    self._send_batch(kind, [entity])

    def _send(
        self, what: str, method: str, *args: Any, file: bool = False, **kwargs: Any
    ) -> Exception | None:
        """Call the client; return the error of a refusal, after which `what` is missing.

        A failed store ends tracking, a failed artifact store that of files.
        """
        if file and self._no_artifacts and not self.lost:
            self._missing.append(what)
        if self.lost or (file and self._no_artifacts):
            return None
        try:
            getattr(self.client, method)(self.run_id, *args, **kwargs)
        except Exception as error:  # tracking never fails a fit
            code = getattr(error, "error_code", "")
            refused = code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
            refused |= isinstance(error, UnicodeError)
            self._no_artifacts |= file and not refused
            if not (file or refused):
                self._lose(error)
            run = self.read()  # the error may be that the run or the store is gone
            if run is None or run.info.lifecycle_stage != "active":
                self._lose(error)
                return None
            if what:
                self._miss(what, error)
            return error
        return None

    def _miss(self, what: str, error: Exception) -> None:
        """Warn that `what` is not tracked, and list it in the tag ``tsformer.missing``."""
        if what not in self._missing:
            self._missing.append(what)
            warn(f"{what} could not be tracked {reason(error)}")

    def _lose(self, error: Exception) -> None:
        if not self.lost:
            self.lost = True
            warn_untracked(f"run {self.run_id}", error)


def _entities() -> Any:
    return require("mlflow.entities", extra="tracking", purpose="tracking")


def _padded(X: Sequence[np.ndarray]) -> np.ndarray:
    """Return one array, shorter series padded with NaN."""
    longest = max(x.shape[-1] for x in X)
    padding = [((0, 0), (0, longest - x.shape[-1])) for x in X]
    pairs = zip(X, padding, strict=True)
    return np.stack([np.pad(np.asarray(x), pad, constant_values=np.nan) for x, pad in pairs])
