"""The run of a fit, by the first rule of `docs/tracking.md`, "Where a run goes", that applies."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass

from tsformer.tracking.options import TrackingSettings, warn_untracked
from tsformer.tracking.store import (
    SQLITE,
    RunStore,
    TrackedRun,
    mlflow_part,
    prepare_store,
    resolve_uri,
    tags_of,
)


@dataclass
class Enclosing:
    """The run around tracked work; a free run is taken by the first fit."""

    run: TrackedRun
    free: bool = False
    kind: str = ""
    hides_fits: Callable[[], bool] = lambda: False


_enclosing: ContextVar[Enclosing | None] = ContextVar("enclosing run", default=None)
_settings: TrackingSettings | None = None
# Ids of runs that `activated` made MLflow's active run.
_made_active: set[str] = set()


def set_settings(settings: TrackingSettings | None) -> TrackingSettings | None:
    """Set the options of `autolog`, None if nothing is tracked; return the options before."""
    global _settings
    before, _settings = _settings, settings
    return before


def to_track() -> TrackingSettings | None:
    """Return the options of `autolog` if they ask for a run of work that begins now."""
    enclosing = _enclosing.get()
    if _settings is None or (enclosing is not None and enclosing.hides_fits()):
        return None
    active = mlflow_part().active_run() if _settings.exclusive else None
    return _settings if active is None or active.info.run_id in _made_active else None


@contextmanager
def within(enclosing: Enclosing) -> Iterator[None]:
    """Track fits of this thread in this run inside the block."""
    token = _enclosing.set(enclosing)
    try:
        yield
    finally:
        _enclosing.reset(token)


def start_run(
    name: str,
    *,
    kind: str,
    tracking_uri: str | None = None,
    experiment: str | None = None,
    tags: Mapping[str, str] | None = None,
) -> TrackedRun:
    """Return the run by the rules of this module; without a store it records nothing."""
    enclosing, parent = _enclosing.get(), None
    placed = tracking_uri is not None or experiment is not None
    try:
        if not placed and enclosing is not None:
            parent, store = enclosing.run, enclosing.run.store
            if parent.lost or store is None:
                return TrackedRun(None, "")  # already reported
            if enclosing.free:
                enclosing.free = False
                parent.tags(tags or {})
                return parent
            if enclosing.kind:
                name, kind = f"{enclosing.kind} of {name}", enclosing.kind
        elif not placed and (active := mlflow_part().active_run()) is not None:
            store = RunStore(_uri_of_mlflow(), active.info.experiment_id)
            client, run_id = store.client(), active.info.run_id
            parent = TrackedRun(client, run_id, store=store, borrowed=True)
            if "tsformer.kind" not in client.get_run(run_id).data.tags:
                parent.tags({**tags_of(kind), **(tags or {})})
                return parent
        else:
            uri, set_id = resolve_uri(tracking_uri), os.environ.get("MLFLOW_EXPERIMENT_ID")
            if experiment is None and set_id and uri == resolve_uri():  # by mlflow.set_experiment
                store = RunStore(uri, set_id)
                store.client().get_experiment(set_id)
            else:
                named = experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME") or "tsformer"
                store = prepare_store(tracking_uri, named)
    except Exception as error:  # tracking never fails a fit
        warn_untracked(f"this {kind}", error)
        return TrackedRun(None, "")
    return store.start(name, kind=kind, tags=tags, parent=parent)


@contextmanager
def activated(run: TrackedRun) -> Iterator[None]:
    """Make a new run MLflow's active run inside the block, as MLflow's own flavours do."""
    mlflow = mlflow_part()
    if run.store is None or run.borrowed or run.lost or run.store.uri != _uri_of_mlflow():
        yield
        return
    _made_active.add(run.run_id)
    with suppress(Exception):  # the run is written to by its id
        mlflow.start_run(run_id=run.run_id, nested=True)
    try:
        yield
    finally:
        _made_active.discard(run.run_id)
        active = mlflow.active_run()
        if active is not None and active.info.run_id == run.run_id:
            with suppress(Exception):  # the run has ended itself, or reported the failure
                mlflow.end_run(run.status or "KILLED")


def _uri_of_mlflow() -> str:
    uri: str = mlflow_part().get_tracking_uri()
    return resolve_uri(uri) if uri.startswith(SQLITE) else uri
