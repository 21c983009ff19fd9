"""Experiments, and real processes that tests start and kill."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tsformer.studies import Study
from tsformer.tracking import RunStore


@pytest.fixture
def experiment(request: pytest.FixtureRequest) -> str:
    """An experiment of the test's own: what one test finished another must not find."""
    return str(request.node.name)


@pytest.fixture
def statuses() -> Callable[[RunStore], Counter[tuple[str, str]]]:
    """How many runs of fits there are of each key and status."""

    def count(store: RunStore) -> Counter[tuple[str, str]]:
        runs = store.runs(tags={"tsformer.kind": "fit"})
        return Counter((run.data.tags["tsformer.key"], run.info.status) for run in runs)

    return count


@pytest.fixture
def assert_finished_once(
    statuses: Callable[[RunStore], Counter[tuple[str, str]]],
) -> Callable[[RunStore, Study], int]:
    """Assert that every fit has one FINISHED run, others KILLED; return how many were killed."""

    def check(store: RunStore, study: Study) -> int:
        found = statuses(store)
        finished = {key: n for (key, status), n in found.items() if status == "FINISHED"}
        assert finished == {study.key(*trial): 1 for trial in study.trials()}
        assert {status for _, status in found} <= {"FINISHED", "KILLED"}
        return sum(n for (_, status), n in found.items() if status == "KILLED")

    return check


class Processes:
    """Processes of one test, each in a group of its own, all ended with it."""

    def __init__(self, folder: Path, empty_store: Callable[[Path], str]):
        self.folder = folder
        self._empty_store = empty_store
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self, *command: object, **variables: str) -> subprocess.Popen[bytes]:
        """Start Python with these arguments; what it says goes to a file named by its number."""
        return self._start([sys.executable, *map(str, command)], variables)

    def shell(self, lines: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start lines of a page in a shell that finds the programs beside this Python."""
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return self._start(["bash", "-euc", lines], {"PATH": path, **variables})

    def path(self, folder: str) -> str:
        """Return PYTHONPATH with the modules of a folder."""
        return os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))

    def said(self, process: subprocess.Popen[bytes]) -> str:
        """Return what a process has printed so far."""
        return (self.folder / f"process-{self._started.index(process)}.log").read_text()

    def _start(self, command: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / f"process-{len(self._started)}.log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def server(self, port: int) -> subprocess.Popen[bytes]:
        """Start MLflow's server on a SQLite file of the test's own, and wait until it answers."""
        store = self.folder / "server.db"
        if not store.exists():
            self._empty_store(store)
        process = self.start(
            "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", port, "--workers", 1,
            "--backend-store-uri", f"sqlite:///{store}",
            "--artifacts-destination", self.folder / "artifacts",
            MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false",
        )  # fmt: skip
        until(lambda: process.poll() is not None or _answers(f"http://127.0.0.1:{port}/health"))
        assert process.poll() is None
        return process

    def kill(self, process: subprocess.Popen[bytes]) -> None:
        """End it and its children with -9."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def kill_all(self) -> None:
        for process in reversed(self._started):
            self.kill(process)


@pytest.fixture
def processes(
    tmp_path: Path, empty_store: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Processes]:
    # A killed server is given up without a pause; a slow one is not.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    started = Processes(tmp_path, empty_store)
    yield started
    started.kill_all()


@pytest.fixture
def port() -> int:
    """A port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(true: Callable[[], object], seconds: float = 240) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


@pytest.fixture
def wait_until() -> Callable[..., None]:
    return until


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
