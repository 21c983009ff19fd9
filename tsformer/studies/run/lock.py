"""The lock of a study: one comparison of it at a time in each store."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tsformer._optional import require
from tsformer.studies._files import write_atomically
from tsformer.tracking import RunStore
from tsformer.tracking.settings import without_credentials
from tsformer.tracking.store import SQLITE, user_lock_path

#: Tag of a fit: name of the study that started it.
STUDY_TAG = "tsformer.started_by"
#: Tag of a study's run: host, process and start of the comparison that writes to it.
DRIVER_TAG = "tsformer.driver"


class StudyBusyError(BlockingIOError):
    """Another comparison runs the study."""


@contextmanager
def exclusive(store: RunStore, study: str) -> Iterator[None]:
    """Hold the lock of a study inside the block; it ends with the process."""
    filelock = require("filelock", extra="tracking", purpose="tracking")
    path = _path(store, study)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path, timeout=0)
    try:
        lock.acquire()
    except filelock.Timeout:
        owner = "another process"
        with suppress(OSError, ValueError):  # the other process has only just taken the lock
            owner = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        raise StudyBusyError(
            f"this study is being run in {without_credentials(store.uri)} by {owner}. Wait until "
            "it ends, or end that process; finished fits are kept"
        ) from None
    try:
        write_atomically(json.dumps(this_process()), path.with_suffix(".json"))
        if not store.uri.startswith(SQLITE):
            _refuse_other_host(store, study)
        yield
    finally:
        lock.release()


def end_left_over(store: RunStore, study: str, keys: Collection[str]) -> None:
    """Mark fits of these keys KILLED that this study left RUNNING."""
    for run in store.runs("RUNNING", {"tsformer.kind": "fit", STUDY_TAG: study}):
        if run.data.tags.get("tsformer.key") in keys:
            store.client().set_terminated(run.info.run_id, "KILLED")


def this_process() -> str:
    """Describe this process by host, id and time."""
    return f"{socket.gethostname()}, process {os.getpid()}, since {time.strftime('%F %T %z')}"


def _path(store: RunStore, study: str) -> Path:
    """Return the lock file: beside a SQLite file, which containers may share, else per user."""
    name = hashlib.sha256(f"{store.experiment_id} {study}".encode()).hexdigest()[:16]
    if store.uri.startswith(SQLITE):
        database = Path(store.uri.removeprefix(SQLITE)).resolve()
        return database.parent / "mlruns" / ".locks" / f"{database.name}-{name}.lock"
    return user_lock_path(f"{store.uri} {name}")


def _refuse_other_host(store: RunStore, study: str) -> None:
    """Raise if a comparison on another machine has not ended."""
    for run in store.runs("RUNNING", {"tsformer.kind": "study", "tsformer.key": study}):
        if run.data.tags.get("tsformer.host") != socket.gethostname():
            driver = run.data.tags.get(DRIVER_TAG, "another machine")
            raise StudyBusyError(
                f"this study is being run in {without_credentials(store.uri)} by {driver}. Wait "
                "until it ends. If that process is dead, delete its run: "
                f"mlflow runs delete --run-id {run.info.run_id}"
            )
