"""RunStore: its address, its creation, its runs and their pages."""

import pickle
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tsformer.tracking import RunStore, prepare_store, resolve_uri
from tsformer.tracking.options import without_credentials
from tsformer.tracking.store import command_line, creating

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')

DEAD = "http://127.0.0.1:9"


def test_of_doubled_runs_the_first_to_end_stays(store):
    tags = {"tsformer.configuration": "doubled"}
    slow, fast, unrelated, outside = (
        store.start(key, kind="fit", key=key, tags=tags) for key in ("a", "a", "other", "b")
    )
    for run in (unrelated, fast, slow, outside):
        run.end("FINISHED")
        time.sleep(0.002)
    kept = {key: run.info.run_id for key, run in store.finished("abc", tags).items()}
    assert kept == {"a": fast.run_id, "b": outside.run_id}
    assert pickle.loads(pickle.dumps(store)) == store
    assert store.has(fast.run_id)
    assert not store.has("0" * 32)
    left = {run.info.run_id for run in store.runs("FINISHED", tags)}
    assert left == {fast.run_id, unrelated.run_id, outside.run_id}


def test_where_a_store_is_and_its_runs_are_shown(tmp_path, monkeypatch, store):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    assert resolve_uri() == f"sqlite:///{tmp_path / 'mlflow.db'}"
    assert resolve_uri("sqlite:///a/b.db") == f"sqlite:///{tmp_path / 'a' / 'b.db'}"
    here = RunStore(resolve_uri(), "1")
    assert here.ui_command() == "tsformer ui"
    assert store.ui_command() == f"tsformer ui --tracking-uri {store.uri}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store.uri)
    assert resolve_uri() == store.uri
    assert here.ui_command() == f"tsformer ui --tracking-uri {here.uri}"
    page = "#/experiments/1/runs/a1?workflowType=machine_learning"
    assert here.run_address("a1") == f"http://127.0.0.1:5000/{page}"
    assert RunStore("http://host:5000/", "1").run_address("a1") == f"http://host:5000/{page}"
    with pytest.raises(ValueError, match="mlruns"):
        resolve_uri("mlruns")


def test_a_store_that_cannot_be_used_says_so(tmp_path, store, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(ConnectionError):
        prepare_store(DEAD)
    client = mlflow.MlflowClient(store.uri)
    client.delete_experiment(client.create_experiment("deleted"))
    with pytest.raises(ValueError, match="deleted"):
        prepare_store(store.uri, "deleted")
    (tmp_path / "text.db").write_text("this is no database")
    monkeypatch.setattr(mlflow, "MlflowClient", None)  # it would retry for minutes
    with pytest.raises(ConnectionError, match="database"):
        prepare_store(f"sqlite:///{tmp_path / 'text.db'}")


@pytest.mark.parametrize("name", ["/Users/me/x", "../../x", ".."])
def test_the_files_of_an_experiment_stay_beside_the_database(store, name):
    made = prepare_store(store.uri, name).experiment_id
    artifacts = Path(urlsplit(store.client().get_experiment(made).artifact_location).path)
    folder = Path(store.uri.removeprefix("sqlite:///")).parent / "mlruns"
    assert artifacts.resolve().is_relative_to(folder)


def test_no_password_is_printed():
    store = RunStore("https://me:s3cret@host:5000/mlflow?token=s3cret#s3cret", "7")
    assert store.ui_command() == "tsformer ui --tracking-uri https://host:5000/mlflow"
    page = "/#/experiments/7/runs/a1?workflowType=machine_learning"
    assert store.run_address("a1") == f"https://host:5000/mlflow{page}"
    assert without_credentials("postgresql://me:s3cret@db/mlflow") == "postgresql://db/mlflow"
    message = "request to https://me:p@ss@host:5000?token=x/api failed with url: /?token=x/a"
    assert without_credentials(message) == "request to https://host:5000 failed with url: /"
    assert without_credentials("unknown 'a'? b@c") == "unknown 'a'? b@c"
    assert without_credentials("sqlite:////tmp/a@b?.db") == "sqlite:////tmp/a@b?.db"
    line = command_line(["/bin/tsformer", "fit", "a b", "--uri=https://me:s3cret@host:5000/x"])
    assert line == "tsformer fit 'a b' --uri=https://host:5000/x"


def test_a_store_that_is_being_created_is_waited_for_without_a_trace(tmp_path):
    done, file = threading.Event(), f"sqlite:///{tmp_path}/mlflow.db"

    def second() -> None:
        with creating(file):
            done.set()

    with creating(file):
        thread = threading.Thread(target=second)
        thread.start()
        assert not done.wait(0.3)
    assert done.wait(10)
    thread.join()
    with creating(f"sqlite:///{tmp_path}/no folder/mlflow.db"), creating(DEAD):
        pass
    assert list(tmp_path.iterdir()) == []
