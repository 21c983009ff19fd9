"""TrackedRun: a run of MLflow whose failures never fail the tracked work."""

from __future__ import annotations

import json
import math
import os
import re
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from tsformer._optional import require
from tsformer.tracking.settings import reason, warn, warn_untracked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Limits of MLflow's databases; a name has room for a prefix.
_KEY_LENGTH, _PARAM_LENGTH, NAME_LENGTH, TAG_LENGTH = 220, 6000, 250, 5000
_REFUSED = re.compile(r"[^/\w.\- ]" if os.name == "nt" else r"[^/\w.\- :]")
_DESCRIPTION = "mlflow.note.content"
#: The data that scores are of, by the first part of their names.
CONTEXTS = {"train": "train", "val": "validation", "test": "test"}
#: The tag of an incomplete run.
MISSING_TAG = "tsformer.missing"
#: Values of the data that are digested: 256 MiB of float64. Larger data: the first series.
_MOST_VALUES = 2**25
# Pixels: two such pictures fit side by side into a window of 2,000.
_IMAGE_SIZE = 600


def storable_name(name: str) -> str:
    """Return a name with ``_`` for the characters that MLflow refuses."""
    return _REFUSED.sub("_", name[:_KEY_LENGTH]) or "_"


def storable_texts(values: Mapping[str, object], length: int) -> dict[str, str]:
    """Return parameters or tags as MLflow can store them."""
    return {storable_name(name): str(value)[:length] for name, value in values.items()}


def padded(
    X: Any, times: Any = None, *, index: bool = False, most: int | None = None
) -> npt.NDArray[Any]:
    """Return the first series as an array [n, C, L], padded with NaN."""
    from tsformer.data.containers import to_source  # imports torch, as the next

    series = to_source(X, times, index=index)
    most = most or max(_MOST_VALUES // (series.n_steps * series.n_channels), 1)
    return series.read(np.arange(min(len(series), most))).values.swapaxes(1, 2)


class RunEnded(Exception):
    """Another process ended the run: stop the work and discard its result."""


@dataclass(eq=False, repr=False)
class TrackedRun:
    """One run of MLflow, addressed by its id; MLflow's "active run" is never touched.

    Metrics are sent in batches, in about 2 % of the time. An entry that MLflow refuses costs a
    warning and is listed in the tag ``tsformer.missing``. If the store fails, one warning is
    issued, `lost` is true, and nothing more is sent: the run is KILLED if the store is back at the
    end, else it stays RUNNING. Scores are those of the model and the data logged before.

    As a context manager it ends the run: FINISHED, KILLED by Ctrl-C, or FAILED with the tag
    ``tsformer.error`` and the traceback in ``error.txt``. RunEnded leaves the run as it is.

    Parameters
    ----------
    client : MlflowClient or None
        Client of the store; None for a run that could not be created.
    run_id : str
        Its id.
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
    store: Any = field(default=None, kw_only=True)  # a RunStore, whose module imports this one
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
        if self.borrowed and self.status is None:  # its owner may still log the same names
            self._late_params |= values
        else:
            pairs = storable_texts(values, _PARAM_LENGTH).items()
            self._send_batch("params", [_entities().Param(*pair) for pair in pairs])

    def metrics(self, values: Mapping[str, float], step: int = 0) -> None:
        """Buffer metrics for the next batch; non-finite values are dropped."""
        # MLflow would store a huge number for a value that is not finite.
        finite = {name: float(value) for name, value in values.items() if math.isfinite(value)}
        self.scores |= finite
        for name, value in finite.items():
            metric = (storable_name(name), value, int(1000 * time.time()), step)
            context = CONTEXTS.get(name.partition("/")[0])
            if context and self.model_id:
                data = self._data.get(context, (None, None))
                metric = (*metric, self.model_id, *data, self.run_id)
            self._waiting.append(_entities().Metric(*metric))
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
        pairs = storable_texts(values, TAG_LENGTH).items()
        self._send_batch("tags", [_entities().RunTag(*pair) for pair in pairs])

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
        self.text(json.dumps(value, indent=2, default=str), path)

    def folder(self, path: Path, name: str) -> None:
        """Log the files of a folder as artifacts in a folder `name`."""
        self._send(name, "log_artifacts", str(path), name, file=True)

    def model(self, path: Path, kind: str, params: Mapping[str, object]) -> None:
        """Log a folder of `write_model` as the run's logged model, named `model`."""
        client, models = self.client, require("mlflow.models", extra="tracking", purpose="tracking")
        logged = client.create_logged_model(
            client.get_run(self.run_id).info.experiment_id,
            "model",
            self.run_id,
            params=storable_texts(params, _PARAM_LENGTH),
            model_type=kind,
        )
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
                images = require("PIL.Image", extra="plots", purpose="images in MLflow")
                self.image(images.fromarray(pixels), key, size=size)

        self.attempt(path, log)

    def image(self, picture: Any, key: str, *, size: int = _IMAGE_SIZE) -> None:
        """Log a Pillow image for the image grids, at most `size` pixels wide there."""
        picture, small = picture.copy(), picture.copy()
        small.thumbnail((size, size))
        # MLflow resizes pictures of grids to 256 pixels, too few to read a word.
        picture.resize = lambda *args, **kwargs: small
        image = {"key": key, "step": 0, "synchronous": True}
        self._send(key, "log_image", picture, file=True, **image)

    def dataset(
        self, X: Any, y: Any, *, name: str, context: str, loader: str = "", **reading: Any
    ) -> None:
        """Log name, shape and digest of "train", "validation" or "test" data.

        `loader` is the expression that loads them, by default a call of `load_dataset`. Of more
        than 256 MiB the first series are digested; `reading` has options of `padded`.
        """
        from tsformer.tracking.scores import array_of

        X = padded(X, **reading)
        data = require("mlflow.data", extra="tracking", purpose="tracking")
        sources = require("mlflow.data.code_dataset_source", extra="tracking", purpose="tracking")
        loader = loader or f"tsformer.data.load_dataset({name!r}, split={context!r})"
        described = data.from_numpy(
            X,
            source=sources.CodeDatasetSource({"code": loader}),
            targets=None if y is None else array_of(y)[: len(X)],
            name=name[:NAME_LENGTH],
        )
        dataset = _entities().Dataset.from_dictionary(described.to_dict())
        tags = [_entities().InputTag("mlflow.data.context", context)]
        used = [_entities().DatasetInput(dataset, tags=tags)]
        if self._send(f"the data {name}", "log_inputs", datasets=used):
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
        self.status = status
        self.params(self._late_params)
        if self.borrowed and status != "FINISHED":
            self.tags({"tsformer.status": status})
        self.tags({MISSING_TAG: ", ".join(self._missing)} if self._missing else {})
        if not self.borrowed:
            self._send("the end", "set_terminated", status)
        if self.lost:
            self.status = "KILLED" if status == "FINISHED" else status
            with suppress(Exception):  # the store may be back; its failure was reported
                missing = [*self._missing, "what came after a failure of the store"]
                self.client.set_tag(self.run_id, MISSING_TAG, ", ".join(missing)[:TAG_LENGTH])
                if not self.borrowed:
                    self.client.set_terminated(self.run_id, self.status)

    def _send_batch(self, kind: str, batch: Sequence[Any]) -> None:
        """Send parameters, metrics or tags; singly where MLflow refuses one of them."""
        if batch:
            what = f"{kind}.{batch[0].key}" if len(batch) == 1 else ""
            named: dict[str, Any] = {kind: batch}
            if not self._send(what, "log_batch", **named) and not (what or self.lost):
                for entity in batch:
                    self._send_batch(kind, [entity])

    def _send(self, what: str, method: str, *args: Any, file: bool = False, **kwargs: Any) -> bool:
        """Call the client. A refused entry or file is missing; a failed store ends tracking."""
        if self.lost:
            return False
        try:
            getattr(self.client, method)(self.run_id, *args, **kwargs)
        except Exception as error:  # tracking never fails a fit
            code = getattr(error, "error_code", "")
            alone = file or code in ("INVALID_PARAMETER_VALUE", "BAD_REQUEST")
            # A refusal may mean that the run is gone.
            run = self.read() if alone else None
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


def _entities() -> Any:
    return require("mlflow.entities", extra="tracking", purpose="tracking")
