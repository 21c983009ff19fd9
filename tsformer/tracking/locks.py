"""The lock on an SQLite store while one process creates its tables."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from tsformer._optional import require

SQLITE = "sqlite:///"
#: Creating the tables takes seconds, on a busy machine a minute.
_CREATION_SECONDS = 300


def creating(uri: str) -> AbstractContextManager[object]:
    """Return a context in which no other process creates this store."""
    if not uri.startswith(SQLITE):
        return nullcontext()
    filelock = require("filelock", extra="tracking", purpose="tracking")
    path = user_lock_path(str(Path(uri.removeprefix(SQLITE)).resolve()))
    # A new object each time: the thread that holds a shared one could acquire it again.
    lock: AbstractContextManager[object] = filelock.FileLock(path, timeout=_CREATION_SECONDS)
    return lock


def user_lock_path(name: str) -> Path:
    """Return a lock file of this user, since users cannot open each other's files."""
    hashed = hashlib.sha256(f"{Path.home()} {name}".encode(errors="replace")).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"tsformer-{hashed}.lock"
