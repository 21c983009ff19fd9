"""One process creates an SQLite store."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tsformer.tracking import prepare_store
from tsformer.tracking.locks import creating

pytest.importorskip("mlflow", reason='needs the extra "tracking"')

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
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.fixture
def file(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/mlflow.db"


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
    assert list(Path(file.removeprefix("sqlite:///")).parent.iterdir()) == []


def test_a_lock_leaves_nothing_beside_the_store(file: str, tmp_path: Path) -> None:
    with creating(f"sqlite:///{tmp_path}/no folder/mlflow.db"):
        pass
    with creating("http://127.0.0.1:9"):
        pass
    assert list(tmp_path.iterdir()) == []


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
