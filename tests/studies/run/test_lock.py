"""The lock of a study: who holds it, and what a dead comparison leaves."""

import contextlib
import os
import signal
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from tsformer.studies.run.lock import (
    DRIVER_TAG,
    STUDY_TAG,
    StudyBusyError,
    end_left_over,
    exclusive,
    this_process,
)
from tsformer.tracking import RunStore, prepare_store


@pytest.fixture
def hold():
    """Return a function that holds the lock of a study in another process, and returns its id."""
    started: list[int] = []

    def start(store: RunStore, study: str) -> int:
        ready, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            with exclusive(store, study):
                os.write(tell, b"1")
                signal.pause()
        assert os.read(ready, 1) == b"1"
        started.append(pid)
        return pid

    yield start
    for pid in started:
        end(pid)


def end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_the_second_names_the_first_and_follows_a_dead_one(hold, uri, experiment):
    store = prepare_store(uri, experiment)
    tags = {DRIVER_TAG: this_process()}
    run = store.start("a", kind="study", key="study-a", tags=tags)
    pid = hold(store, "study-a")
    owner = rf"by {socket.gethostname()}, process {os.getpid()}, since 20\d\d-.*{run.run_id}"
    with pytest.raises(StudyBusyError, match=owner), exclusive(store, "study-a"):
        pass
    with exclusive(store, "study-b"), exclusive(prepare_store(uri, f"{experiment} 2"), "study-a"):
        pass  # other studies and experiments are free
    end(pid)
    with exclusive(store, "study-a"):
        pass


class Server:
    """A tracking server on which one study is RUNNING."""

    uri = "http://user:secret@server"
    experiment_id = "1"

    def __init__(self, host: str):
        tags = {"tsformer.host": host, DRIVER_TAG: f"{host}, process 7, since 2026-01-01"}
        data, info = SimpleNamespace(tags=tags), SimpleNamespace(run_id="abc")
        self.run = SimpleNamespace(data=data, info=info)

    def runs(self, status: str, tags: dict[str, str]) -> list[Any]:
        assert status == "RUNNING"
        return [self.run] if tags["tsformer.key"] == "study-a" else []


def test_on_a_server_a_comparison_of_another_machine_counts(tmp_path):
    elsewhere: Any = Server("elsewhere")
    said = "http://server by elsewhere, process 7.* abc"
    with pytest.raises(StudyBusyError, match=said), exclusive(elsewhere, "study-a"):
        pass
    here: Any = Server(socket.gethostname())
    with exclusive(here, "study-a"), exclusive(elsewhere, "study-b"):
        pass  # this machine's comparison is dead: its lock was free


def test_fits_of_a_dead_comparison_end_and_fits_of_others_go_on(uri, experiment):
    store = prepare_store(uri, experiment)

    def start(key: str, study: str) -> str:
        return store.start(key, kind="fit", key=key, tags={STUDY_TAG: study}).run_id

    left = start("a", "ours")
    kept = [start("a", "alive"), start("other", "ours")]
    end_left_over(store, "ours", {"a"})
    client = store.client()
    assert client.get_run(left).info.status == "KILLED"
    assert [client.get_run(each).info.status for each in kept] == ["RUNNING"] * 2
