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


def test_pages_have_views_made_where_there_were_none(uri: str) -> None:
    store = prepare_store(uri, "pages")
    with store.start("fit", kind="fit") as run:
        run.params({"encoding": "none"})
    pages = pages_of(store, "http://127.0.0.1:5000")
    assert list(pages) == ["fits by encoding", "all fits"]
    tags = store.client().get_experiment(store.experiment_id).tags
    for address in pages.values():
        key = address.partition("viewStateShareKey=")[2].partition("&")[0]
        assert f"mlflow.sharedViewState.{key}" in tags
    with store.start("none", kind="encoding") as run:
        run.params({"encoding": "none"})
    assert "viewStateShareKey=encodings" in pages_of(store, "http://x")["encodings side by side"]


def test_pages_of_a_study_of_methods_say_so(uri: str) -> None:
    store = prepare_store(uri, "methods")
    with store.start("encoding of an earlier study", kind="encoding") as run:
        run.params({"encoding": "none", "study": "earlier"})
    with store.start("rocket", kind="encoding") as run:
        run.params({"method": "rocket", "study": "field"})
    pages = pages_of(store, "http://x")
    assert list(pages) == ["methods side by side", "fits by method", "all fits"]


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
