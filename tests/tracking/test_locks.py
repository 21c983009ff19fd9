"""One process creates an SQLite store, and one comparison at a time writes to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tsformer.tracking import prepare_store
from tsformer.tracking.locks import creating, driving

pytest.importorskip("mlflow", reason='needs the extra "tracking"')

HOLDS = """
import sys
from tsformer.tracking.locks import driving
with driving(sys.argv[1], "first study"):
    print("in", flush=True)
    sys.stdin.read()
"""
CREATES = """
import sys
import mlflow
from tsformer.tracking import prepare_store
print("ready", flush=True)
sys.stdin.readline()
print(prepare_store(sys.argv[1]).experiment_id)
"""


def start(code: str, uri: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", code, uri],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() in ("in\n", "ready\n")
    return process


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/mlflow.db"


def refused(file: str, message: str) -> None:
    with pytest.raises(ConnectionError, match=message), driving(file, "refused"):
        pass


def test_the_second_is_told_of_the_first(file: str, tmp_path: Path) -> None:
    with driving(file, "first study"):
        first = rf"process {os.getpid()} on \S+ \(first study, since \d{{4}}-.*\) is writing to"
        refused(file, first)
        with driving(f"sqlite:///{tmp_path}/other.db", "second study"):
            pass
        # By another name of the same file.
        (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
        refused(f"sqlite:///{tmp_path}/link/mlflow.db", "first study")
    with driving(file, "second study"):
        pass
    with pytest.raises(KeyError), driving(file, "third study"):
        raise KeyError
    with driving(file, "fourth study"):
        pass


def test_what_the_message_says_to_do(file: str) -> None:
    with driving(file, "first study"):
        told = r"Wait until that process has ended.*--tracking-uri sqlite:///other\.db"
        refused(file, told)
        Path(file.removeprefix("sqlite:///") + ".driver.json").unlink()
        refused(file, r"^another process is writing")


def test_several_may_write_to_a_server() -> None:
    with driving("http://127.0.0.1:9", "first"), driving("http://127.0.0.1:9", "second"):
        pass


def test_a_store_that_is_being_created_is_waited_for(file: str) -> None:
    done = threading.Event()

    def second() -> None:
        with creating(file):
            done.set()

    with creating(file):
        thread = threading.Thread(target=second)
        thread.start()
        assert not done.wait(0.3)
    assert done.wait(10)
    thread.join()


def test_where_nothing_can_be_written_nothing_is_locked(file: str, tmp_path: Path) -> None:
    with creating(f"sqlite:///{tmp_path}/no folder/mlflow.db"):
        pass
    with creating("http://127.0.0.1:9"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.processes
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_the_lock_of_a_dead_process_is_taken_over(file: str, how: signal.Signals) -> None:
    other = start(HOLDS, file)
    refused(file, rf"process {other.pid} .*first study")
    other.send_signal(how)
    other.communicate()
    with driving(file, "second study"):
        refused(file, f"process {os.getpid()} ")


@pytest.mark.processes
def test_processes_that_create_a_store_at_once(file: str) -> None:
    creators = [start(CREATES, file) for _ in range(4)]
    for creator in creators:
        assert creator.stdin is not None
        creator.stdin.write("go\n")
        creator.stdin.flush()
    outputs = [creator.communicate(timeout=200)[0] for creator in creators]
    assert [creator.returncode for creator in creators] == [0] * 4, outputs
    ids = {output.splitlines()[-1] for output in outputs}
    assert ids == {prepare_store(file).experiment_id}
