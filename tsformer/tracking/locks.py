"""The lock on an SQLite store while one process creates its tables.

The operating system releases it with the process that holds it, however it ends. Its file is in the
folder for temporary files. A tracking server creates its store itself. Who runs which fit is not
locked but claimed, as `tsformer.tracking.claims` says.
"""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tsformer._optional import require

__all__ = ["SQLITE", "creating"]

SQLITE = "sqlite:///"
#: Creating the tables takes seconds, on a busy machine a minute.
_CREATION_SECONDS = 300


def creating(uri: str) -> AbstractContextManager[object]:
    """Return a context in which no other process creates this store; others wait for it."""
    if not uri.startswith(SQLITE):
        return nullcontext()
    filelock = require("filelock", extra="tracking", purpose="tracking")
    file = Path(uri.removeprefix(SQLITE)).resolve()
    # A file for each user: nobody may open that of another one.
    which = hashlib.sha256(f"{Path.home()} {file}".encode(errors="replace")).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"tsformer-{which}.lock"
    # A new lock each time: one that is shared could be taken again by the thread that holds it.
    lock: AbstractContextManager[object] = filelock.FileLock(path, timeout=_CREATION_SECONDS)
    return lock
