"""Leases: signs of life in the tags of a run, and who has given none for too long."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from tsformer.tracking.run import TrackedRun

__all__ = ["BEAT_SECONDS", "LEASE_SECONDS", "Watch", "beating", "is_dead", "lease_tags"]

#: Seconds between two signs of life.
BEAT_SECONDS = 15.0
#: Seconds without one after which somebody else may take over: some signs may fail to be written.
LEASE_SECONDS = 120.0

# Tags.
_PROCESS = "tsformer.process"
_BEAT = "tsformer.heartbeat"
_LEASE = "tsformer.lease_seconds"

# Silence that counts between two looks. Whoever was asleep in between has not listened.
_LONGEST_PAUSE = 10.0


def lease_tags(seconds: float = LEASE_SECONDS) -> dict[str, str]:
    """Return the tags of a run that this process works on, and shows signs of life for."""
    return {_PROCESS: json.dumps(_this_process()), _BEAT: _now(), _LEASE: f"{seconds:g}"}


@contextmanager
def beating(runs: Iterable[TrackedRun]) -> Iterator[None]:
    """Show signs of life for these runs inside the block, from a thread that holds nothing up."""
    stop = threading.Event()
    alive = [(run.client, run.run_id) for run in runs if run.client is not None]
    threading.Thread(target=_beat, args=(alive, stop), daemon=True).start()
    try:
        yield
    finally:
        stop.set()  # it is not waited for: it may be waiting for a server that is away


def _beat(runs: list[tuple[MlflowClient, str]], stop: threading.Event) -> None:
    while not stop.wait(BEAT_SECONDS):
        for client, run_id in runs:
            try:
                client.set_tag(run_id, _BEAT, _now())
            except Exception:  # whatever the fit itself writes reports it; the store may come back
                continue


class Watch:
    """Tells who has been silent for too long, as far as this process has been listening.

    Clocks of two machines are never compared, only signs of life with those seen before. Time in
    which this process did not look does not count, since it may have been suspended together with
    whom it watches.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._looked = clock()
        self._heard: dict[str, tuple[str, float]] = {}  # run -> its latest sign, silence since

    def silent(self, runs: Iterable[Run]) -> list[Run]:
        """Return those of these runs whose lease is over; to be called every few seconds."""
        now = self._clock()
        passed, self._looked = min(now - self._looked, _LONGEST_PAUSE), now
        heard: dict[str, tuple[str, float]] = {}
        over = []
        for run in runs:
            sign = run.data.tags.get(_BEAT, "")
            before, silence = self._heard.get(run.info.run_id, (None, 0.0))
            silence = silence + passed if sign == before else 0.0
            heard[run.info.run_id] = sign, silence
            if silence > float(run.data.tags.get(_LEASE, LEASE_SECONDS)):
                over.append(run)
        self._heard = heard
        return over


def is_dead(tags: Mapping[str, str]) -> bool:
    """Return whether nobody can be working on a run with these tags any more.

    That is known of a process of this machine, and of a run without a lease, which an earlier
    version of tsformer has left behind; a process elsewhere has to be watched.
    """
    if _PROCESS not in tags:
        return True
    process, here = json.loads(tags[_PROCESS]), _this_process()
    if os.name != "posix" or any(process.get(name) != here[name] for name in _PLACE):
        return False
    try:
        os.kill(process["pid"], 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # it exists, and is another user's
        return False
    return _started(process["pid"]) not in ("", process["started"])


# What is the same for processes that see each other under their ids. Containers may share the name
# of their host and not its processes.
_PLACE = ("host", "boot", "namespace")


def _this_process() -> dict[str, Any]:
    boot = Path("/proc/sys/kernel/random/boot_id")
    namespace = Path("/proc/self/ns/pid")
    return {
        "host": socket.gethostname(),
        "boot": boot.read_text().strip() if boot.exists() else "",
        "namespace": os.readlink(namespace) if namespace.is_symlink() else "",
        "pid": os.getpid(),
        "started": _started(os.getpid()),
    }


def _started(pid: int) -> str:
    """Return when a process began, which tells it from a later one of its id; "" if unknown."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # not Linux, or other users' processes are hidden
        return ""
    fields = stat.rpartition(")")[2].split()  # what precedes is the name, which may have blanks
    return "ended" if fields[0] in "ZX" else fields[19]


def _now() -> str:
    """Return the time in words, and what makes it differ from the time before."""
    return f"{time.strftime('%Y-%m-%d %H:%M:%S %z')} ({time.time_ns() % 10**9:09d} ns)"
