"""Locks on an SQLite store: one process creates it, and one comparison at a time writes to it.

The operating system releases them with the process that holds them, however it ends. They lie in
files beside the database. A tracking server creates its store itself, and what drives it from
several machines is not kept apart.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from tsformer._optional import require

__all__ = ["SQLITE", "creating", "driving"]

SQLITE = "sqlite:///"
#: Creating the tables takes seconds, on a busy machine a minute.
_CREATION_SECONDS = 300


def creating(uri: str) -> AbstractContextManager[object]:
    """Return a context in which no other process creates this store; others wait for it.

    Parameters
    ----------
    uri : str
        Absolute address. Nothing is locked for a server, nor where nothing can be created.
    """
    if not uri.startswith(SQLITE) or not os.access(_file(uri).parent, os.W_OK):
        return nullcontext()
    lock: AbstractContextManager[object] = _lock(uri, "creating", _CREATION_SECONDS)
    return lock


@contextmanager
def driving(uri: str, what: str) -> Iterator[None]:
    """Be the one that writes to this store, inside the block.

    Parameters
    ----------
    uri : str
        Absolute address. Several may write to a server.
    what : str
        What this process does, for the messages of others.

    Raises
    ------
    ConnectionError
        If another comparison is writing to the file.
    """
    if not uri.startswith(SQLITE):
        yield
        return
    filelock = require("filelock", extra="tracking", purpose="tracking")
    about = _file(uri).with_name(f"{_file(uri).name}.driver.json")
    lock = _lock(uri, "driver", 0)
    try:
        lock.acquire()
    except filelock.Timeout as error:
        raise ConnectionError(
            f"{_described(about)} is writing to {uri}. One comparison at a time may write to a "
            "file, as each takes the running fits of others for leftovers of one that was killed. "
            "Wait until that process has ended, or stop it, and repeat this call, which keeps the "
            "fits that are done; or give this one a file of its own, with "
            f"--tracking-uri {SQLITE}other.db"
        ) from error
    try:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        own = {"pid": os.getpid(), "host": socket.gethostname(), "what": what, "since": now}
        about.write_text(json.dumps(own) + "\n", encoding="utf-8")
        yield
    finally:
        about.unlink(missing_ok=True)
        lock.release()


def _lock(uri: str, what: str, seconds: float) -> Any:
    filelock = require("filelock", extra="tracking", purpose="tracking")
    file = _file(uri)
    # A new lock each time: one that is shared could be taken again by the thread that holds it.
    return filelock.FileLock(file.with_name(f"{file.name}.{what}.lock"), timeout=seconds)


def _file(uri: str) -> Path:
    return Path(uri.removeprefix(SQLITE)).resolve()


def _described(about: Path) -> str:
    try:
        other = json.loads(about.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # it has just begun, or just ended
        return "another process"
    return "process {pid} on {host} ({what}, since {since})".format(**other)
