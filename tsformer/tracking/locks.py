"""The lock on an SQLite store while one process creates its tables.

The operating system releases it with the process that holds it, however it ends. It lies in a file
beside the database. A tracking server creates its store itself. Who runs which fit is not locked
but claimed, as `tsformer.tracking.claims` says.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tsformer._optional import require

__all__ = ["SQLITE", "creating"]

SQLITE = "sqlite:///"
#: Creating the tables takes seconds, on a busy machine a minute.
_CREATION_SECONDS = 300


def creating(uri: str) -> AbstractContextManager[object]:
    """Return a context in which no other process creates this store; others wait for it."""
    if not uri.startswith(SQLITE) or not os.access(_file(uri).parent, os.W_OK):
        return nullcontext()
    filelock = require("filelock", extra="tracking", purpose="tracking")
    file = _file(uri)
    # A new lock each time: one that is shared could be taken again by the thread that holds it.
    name = f"{file.name}.creating.lock"
    lock: AbstractContextManager[object] = filelock.FileLock(
        file.with_name(name), timeout=_CREATION_SECONDS
    )
    return lock


def _file(uri: str) -> Path:
    return Path(uri.removeprefix(SQLITE)).resolve()
