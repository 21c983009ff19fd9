"""The lock of a study: who holds it, and what a dead comparison leaves."""

import contextlib
import os
import signal
import socket
from collections.abc import Iterator
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


@contextlib.contextmanager
def held(store: RunStore, study: str) -> Iterator[None]:
    """Hold the lock of a study in another process, which is killed at the end."""
    ready, tell = os.pipe()
    pid = os.fork()
    if pid == 0:
        with exclusive(store, study):
            os.write(tell, b"1")
            signal.pause()
    try:
        assert os.read(ready, 1) == b"1"
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_the_second_names_the_first_and_follows_a_dead_one(uri, experiment):
    store = prepare_store(uri, experiment)
    tags = {DRIVER_TAG: this_process()}
    run = store.start("a", kind="study", key="study-a", tags=tags)
    owner = rf"by {socket.gethostname()}, process {os.getpid()}, since 20\d\d-.*{run.run_id}"
    with held(store, "study-a"):
        with pytest.raises(StudyBusyError, match=owner), exclusive(store, "study-a"):
            pass
        second = prepare_store(uri, f"{experiment} 2")
        with exclusive(store, "study-b"), exclusive(second, "study-a"):
            pass  # other studies and experiments are free
    with exclusive(store, "study-a"):
        pass


def test_on_a_server_a_comparison_of_another_machine_counts():
    def server(host: str) -> Any:
        tags = {"tsformer.host": host, DRIVER_TAG: f"{host}, process 7, since 2026-01-01"}
        data, info = SimpleNamespace(tags=tags), SimpleNamespace(run_id="abc")
        running = {"study-a": [SimpleNamespace(data=data, info=info)]}
        runs = lambda status, tags: running.get(tags["tsformer.key"], [])  # noqa: E731
        return SimpleNamespace(uri="http://user:secret@server", experiment_id="1", runs=runs)

    elsewhere, driver = server("elsewhere"), "http://server by elsewhere"
    with pytest.raises(StudyBusyError, match=driver), exclusive(elsewhere, "study-a"):
        pass
    with exclusive(server(socket.gethostname()), "study-a"), exclusive(elsewhere, "study-b"):
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
    assert [client.get_run(run_id).info.status for run_id in kept] == ["RUNNING"] * 2
