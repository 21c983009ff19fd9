"""The lock of a study: one comparison of it at a time in each store."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tsformer._optional import require
from tsformer.tracking import RunStore
from tsformer.tracking.options import without_credentials
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
    name = hashlib.sha256(f"{store.experiment_id} {study}".encode()).hexdigest()[:16]
    path = user_lock_path(f"{store.uri} {name}")
    is_file = store.uri.startswith(SQLITE)
    if is_file:  # beside the file, which containers and users may share
        database = Path(store.uri.removeprefix(SQLITE)).resolve()
        path = database.parent / "mlruns" / ".locks" / f"{database.name}-{name}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    running = store.runs("RUNNING", {"tsformer.kind": "study", "tsformer.key": study})
    hosts = {run.data.tags.get("tsformer.host") for run in running}
    lock = filelock.FileLock(path, timeout=0)
    with suppress(filelock.Timeout):
        lock.acquire()
    busy = not lock.is_locked or bool(not is_file and hosts - {socket.gethostname()})
    try:
        if busy:
            drivers = [f"{r.data.tags.get(DRIVER_TAG)} (run {r.info.run_id})" for r in running]
            raise StudyBusyError(
                f"this study is being run in {without_credentials(store.uri)} by "
                f"{', '.join(drivers) or 'another process'}. Wait until it ends, or end it; "
                "finished fits are kept. If its machine died: mlflow runs delete --run-id RUN"
            )
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
