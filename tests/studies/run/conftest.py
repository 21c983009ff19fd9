"""Experiments, cheaper studies, and real processes that tests start and kill."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from listening import answers, wait_until
from run_once import NoWorker

from tsformer.studies.run.fits import Fits
from tsformer.tracking import TrackedRun


@pytest.fixture
def experiment(request):
    """An experiment of the test's own: what one test finished another must not find."""
    return str(request.node.name)


@pytest.fixture
def no_figures(monkeypatch):
    """Draw no pictures, which take longer than a small fit; test_compare.py looks at them."""
    monkeypatch.setattr(TrackedRun, "figure", lambda *args, **options: None)
    monkeypatch.setattr("tsformer.studies.report.write.as_png", lambda figure: b"")


@pytest.fixture
def no_report(monkeypatch, no_figures):
    """Write no report either."""
    monkeypatch.setattr("tsformer.studies.run.finalize.report_of", lambda *args: None)


@pytest.fixture
def no_workers(monkeypatch):
    """Fit methods of other libraries in this process: a worker imports for ten seconds."""
    monkeypatch.setattr(Fits, "new_pool", lambda self: NoWorker())


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
            environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
            options = {"stdout": log, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
            process: subprocess.Popen[bytes] = subprocess.Popen(
                command, cwd=self.folder, env=environment, start_new_session=True, **options
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
        health = f"http://127.0.0.1:{port}/health"
        wait_until(lambda: process.poll() is not None or answers(health))
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
def processes(tmp_path, empty_store, monkeypatch):
    # A killed server is given up without a pause; a slow one is not.
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "60")
    started = Processes(tmp_path, empty_store)
    yield started
    started.kill_all()
