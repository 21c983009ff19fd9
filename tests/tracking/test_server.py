"""What `tsformer ui` opens, and what it says when there is nothing to open."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tsformer.tracking import RunStore, prepare_store
from tsformer.tracking.server import find_experiment, pages_of, server_command

pytest.importorskip("mlflow", reason='needs the extra "tracking"')


def test_the_experiment_of_the_newest_run_or_the_one_named(uri: str) -> None:
    older, newer = prepare_store(uri, "older"), prepare_store(uri, "newer")
    for store in (older, newer):
        with store.start("run", kind="fit"):
            pass
    assert find_experiment(uri) == newer
    assert find_experiment(uri, "older") == older
    prepare_store(uri, "empty")
    with pytest.raises(ValueError, match="experiment 'empty' has no runs yet"):
        find_experiment(uri, "empty")
    with pytest.raises(ValueError, match="unknown experiment 'odler': did you mean 'older'"):
        find_experiment(uri, "odler")


def test_a_store_that_is_not_there_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(FileNotFoundError, match=r"there is no .*no\.db; go to the folder"):
        find_experiment(f"sqlite:///{tmp_path}/no.db")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ConnectionError, match=r"http://127\.0\.0\.1:9 cannot be read"):
        find_experiment("http://127.0.0.1:9")


def test_pages_are_those_of_the_newest_study(uri: str) -> None:
    store = prepare_store(uri, "pages")
    with store.start("fit", kind="fit") as run:
        run.params({"encoding": "none"})
    assert list(pages_of(store, "http://x")) == ["all fits"]
    with store.start("none", kind="encoding", tags={"tsformer.study": "older"}) as run:
        run.params({"encoding": "none"})
    with store.start("rocket", kind="encoding", tags={"tsformer.study": "newer"}) as run:
        run.params({"method": "rocket"})
    pages = pages_of(store, "http://x/")
    assert list(pages) == ["methods side by side", "all fits"]
    address = pages["methods side by side"]
    assert address.startswith(f"http://x/#/experiments/{store.experiment_id}/runs?compareRunsMode=")
    key = address.partition("viewStateShareKey=")[2].partition("&")[0]
    assert key == "encodings-newer"
    tags = store.client().get_experiment(store.experiment_id).tags
    assert f"mlflow.sharedViewState.{key}" in tags


def test_a_port_in_use_is_said_before_a_server_starts(store: RunStore) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConnectionError, match=f"port {port} .* choose another, as in --port"):
            server_command(store, port)
    command = server_command(store, port)
    assert command[:4] == [sys.executable, "-m", "mlflow", "ui"]
    assert command[command.index("--host") + 1] == "127.0.0.1"
    assert command[command.index("--port") + 1] == str(port)
