"""TrackedRun: a run of MLflow whose failures never fail the tracked work."""

from __future__ import annotations

import json
import math
import os
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
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
    store : RunStore, optional
        The store of the run.
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
        store: Any = None,
        borrowed: bool = False,
    ):
        self.client: Any = client
        self.run_id = run_id
        self.flush_seconds = flush_seconds
        self.store: Any = store  # a RunStore, whose module imports this one
        self.borrowed = borrowed
        self.lost = client is None
        self.status: str | None = None
        self.model_id: str | None = None
        self._scores: dict[str, Any] = {}
        self._data: dict[str, tuple[str, str]] = {}
        self._late_params: dict[str, str] = {}
        self._names = {kind: Names() for kind in _AT_ONCE}
        self._missing: list[str] = []
        self._no_artifacts = False
        self._started = int(time.time() * 1000) if started is None else started
        self._begun = time.monotonic()
        self._waiting: list[Any] = []
        self._next_flush = time.monotonic() + flush_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self.status is not None or isinstance(error, RunEnded):
            return
        if isinstance(error, Exception):
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
        texts = self._texts(values)
        if self.borrowed:  # its owner may still log the same names
            self._late_params |= texts
        else:
            self._send_batches("params", map(_entities().Param, texts, texts.values()))

    def _texts(self, values: Mapping[str, object]) -> dict[str, str]:
        names = self._names["params"]
        return {names[name]: storable(value, _PARAM_LENGTH) for name, value in values.items()}

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Buffer metrics for the next batch; non-finite values are dropped."""
        names, now = self._names["metrics"], self._now()
        metrics = [
            _entities().Metric(names[name], float(value), now, step)
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
        names, tag = self._names["tags"], _entities().RunTag
        texts = {names[name]: storable(value, TAG_LENGTH) for name, value in values.items()}
        self._send_batches("tags", map(tag, texts, texts.values()))

    def describe(self, text: str) -> None:
        """Append a text in Markdown to the description, which MLflow shows on the run's page."""
        if (run := self._read()) is not None:
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
        texts = {"params": self._texts(params), "model_type": kind}
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

    def ended(self) -> bool:
        """Return whether the run has ended in the store; False if the store fails."""
        run = self._read()
        return run is not None and run.info.status != "RUNNING"

    def logged_metrics(self) -> dict[str, float]:
        """Return the last values of the metrics that the store has of this run."""
        run = self._read()
        return {} if run is None else dict(run.data.metrics)

    def _read(self) -> Any:
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
        if self.model_id is not None:
            self._link_scores()
        if self.borrowed:
            there = {} if (run := self._read()) is None else run.data.params
            self._send_batches(
                "params",
                [
                    _entities().Param(k if there.get(k, v) == v else f"tsformer.{k}", v)
                    for k, v in self._late_params.items()
                ],
            )
            if status != "FINISHED":
                self.tags({"tsformer.status": status})
        if self._missing:
            self.tags({MISSING_TAG: ", ".join(self._missing)})
        if not self.borrowed:
            self._send("the end", "set_terminated", status, end_time=self._now())
        self.status = "KILLED" if self.lost and status == "FINISHED" else status
        if self.lost and self.client is not None:
            self._abandon(self.status)

    def _link_scores(self) -> None:
        """Log the last scores again as those of the model, with their data."""
        linked = []
        for metric in self._scores.values():
            part = metric.key.partition("/")[0]
            if part in CONTEXTS:
                data = self._data.get(CONTEXTS[part], (None, None))
                value = (metric.key, metric.value, metric.timestamp, metric.step)
                linked.append(_entities().Metric(*value, self.model_id, *data, self.run_id))
        self._send_batches("metrics", linked)

    def _abandon(self, status: str) -> None:
        """Try to end a run whose store failed."""
        missing = [*self._missing, "what came after a failure of the store"]
        try:
            self.client.set_tag(self.run_id, MISSING_TAG, storable(", ".join(missing), TAG_LENGTH))
            if not self.borrowed and self.client.get_run(self.run_id).info.status == "RUNNING":
                self.client.set_terminated(self.run_id, status, end_time=self._now())
        except Exception:  # the warning of the failure was issued before
            return

    def _now(self) -> int:
        """Return milliseconds since 1970, monotonic."""
        passed = int(1000 * (time.monotonic() - self._begun))
        return max(self._started + passed, int(time.time() * 1000))

    def _send_batches(self, kind: str, entities: Iterable[Any]) -> None:
        """Send parameters, metrics or tags; singly where MLflow refuses one of them."""
        entities = list(entities)
        for i in range(0, len(entities), _AT_ONCE[kind]):
            batch = entities[i : i + _AT_ONCE[kind]]
            what = f"{kind}.{batch[0].key}" if len(batch) == 1 else ""
            named: dict[str, Any] = {kind: batch}
            if self._send(what, "log_batch", **named) is not None and not what:
                for entity in batch:
                    self._send_batches(kind, [entity])

    def _send(
        self, what: str, method: str, *args: Any, file: bool = False, **kwargs: Any
    ) -> Exception | None:
        """Call the client; return the error of a refusal, after which `what` is missing.

        A failed store ends tracking, a failed artifact store that of files.
        """
        if self.lost:
            return None
        if file and self._no_artifacts:
            self._missing.append(what)
            return None
        for last in (False, True):
            try:
                getattr(self.client, method)(self.run_id, *args, **kwargs)
            except Exception as error:  # tracking never fails a fit
                # Two processes inserted the same row at once; now it exists.
                if not last and re.search("unique|duplicate|integrity", str(error), re.IGNORECASE):
                    continue
                code = getattr(error, "error_code", "")
                refused = isinstance(error, UnicodeError) or code in _REFUSALS
                self._no_artifacts |= file and not refused
                if (file or refused) and self._is_there():
                    if what:
                        self._miss(what, error)
                    return error
                self._lose(error)
            return None
        return None

    def _is_there(self) -> bool:
        """Return whether the store still has the run."""
        try:
            return bool(self.client.get_run(self.run_id).info.lifecycle_stage == "active")
        except Exception:  # the error of the call before is reported
            return False

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
