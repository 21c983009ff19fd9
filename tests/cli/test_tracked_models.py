"""`tsformer fit` and `evaluate` track by default: where, what, and what happens without a store."""

import importlib.util
import json
import shutil
import socket
import sqlite3
import warnings
from pathlib import Path
from typing import Any

import pytest

from tsformer import load, load_dataset
from tsformer.cli import main

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')

pytestmark = pytest.mark.slow

SMALL = ("--max-epochs", "1", "--set", "d_model=8", "--set", "n_layers=0", "--set", "verbose=0")
FIT = ("fit", "ItalyPowerDemand", *SMALL)
EVALUATE = ("evaluate", "model", "ItalyPowerDemand")
DEAD = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def folder(tmp_path_factory, empty_store):
    """A working folder with a model that was tracked in it."""
    folder = tmp_path_factory.mktemp("tracked")
    empty_store(folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        patch.delenv("MLFLOW_EXPERIMENT_ID", raising=False)
        patch.setenv("MLFLOW_LOGGING_LEVEL", "WARNING")
        with pytest.raises(SystemExit) as ended:
            main(FIT)
        assert ended.value.code == 0
        yield folder


def runs(folder: Path, experiment: str = "tsformer") -> list[Any]:
    client = mlflow.MlflowClient(f"sqlite:///{folder}/mlflow.db")
    return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))


def test_a_fit_is_a_run_and_its_evaluation_is_added_to_it(folder, invoke):
    (run,) = runs(folder)
    assert (run.info.status, run.info.run_name) == ("FINISHED", "lspe on ItalyPowerDemand")
    assert run.data.params.items() >= {"dataset": "ItalyPowerDemand", "d_model": "8"}.items()
    assert "test/accuracy" not in run.data.metrics

    pytest.importorskip("captum", reason='needs the extra "explain"')
    out, err = invoke(*EVALUATE, "--explanations", "1")
    assert err == ""
    page = f"/#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}"
    address = f"http://127.0.0.1:5000{page}?workflowType=machine_learning"
    assert out.endswith(f"run     {address}\nsee it  tsformer ui\n")
    (run,) = runs(folder)
    accuracy = load("model").score(*load_dataset("ItalyPowerDemand", "test"))
    assert run.data.metrics["test/accuracy"] == pytest.approx(accuracy)
    client = mlflow.MlflowClient("sqlite:///mlflow.db")
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files >= {"training.png", "confusion_train.png", "confusion_test.png", "explanations"}
    (model,) = client.search_logged_models([run.info.experiment_id])
    (score,) = (metric for metric in model.metrics if metric.key == "test/accuracy")
    assert (score.value, score.dataset_name) == (accuracy, "ItalyPowerDemand")


def test_a_run_of_another_name_in_another_experiment(folder, invoke):
    n_runs = len(runs(folder))
    out, _ = invoke(*FIT, "--out", "named", "--experiment", "mine", "--run-name", "first")
    invoke("evaluate", "named", "ItalyPowerDemand")
    (run,) = runs(folder, "mine")
    assert run.info.run_name == "first"
    assert f"runs/{run.info.run_id}?workflow" in out
    assert "test/accuracy" in run.data.metrics, "in the run of the model"
    invoke("evaluate", "named", "ItalyPowerDemand", "--run-name", "second")
    (evaluation,) = [r for r in runs(folder) if r.info.run_name == "second"]
    assert evaluation.data.tags["tsformer.kind"] == "evaluation"
    assert len(runs(folder)) == n_runs + 1


def test_nothing_is_tracked_if_asked_or_without_mlflow(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    find = importlib.util.find_spec
    for flags in (("--no-track",), ()):
        for command in (FIT, EVALUATE):
            out, err = invoke(*command, *flags)
            assert "tsformer ui" not in out
            assert err == ""
        assert [path.name for path in tmp_path.iterdir()] == ["model"]
        assert not hasattr(load("model"), "tracked_run_")
        invoke(*EVALUATE, "--explanations", "2", *flags, exits=2)
        monkeypatch.setattr(
            importlib.util, "find_spec", lambda name: (name != "mlflow" and find(name)) or None
        )
    invoke(*FIT, "--no-track", "--experiment", "mine", exits=2)


def test_the_model_of_a_stranger_names_no_server_and_no_file(folder, invoke, monkeypatch, tmp_path):
    """What was tracked elsewhere is not sent there, and a file is not made a store."""
    file = tmp_path / "own.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE runs (run_uuid TEXT)")
    content = file.read_bytes()
    shutil.copytree("model", "strange")
    state = json.loads((folder / "strange/estimator.json").read_text())

    def refused(*_: Any, **__: Any) -> None:
        raise AssertionError("no server is asked")

    monkeypatch.setattr(socket.socket, "connect", refused)
    for store in ("https://evil.example", f"sqlite:///{file}"):
        state["tracked_run"]["store"] = store
        (folder / "strange/estimator.json").write_text(json.dumps(state))
        before = len(runs(folder))
        invoke("evaluate", "strange", "ItalyPowerDemand")
        assert len(runs(folder)) == before + 1, "the scores have a run of their own"
    assert file.read_bytes() == content


def test_no_password_is_kept_with_a_model(folder, monkeypatch):
    from tsformer import TSTransformerClassifier
    from tsformer.tracking import RunStore, autologging

    X, y = load_dataset("ItalyPowerDemand", "train")
    classifier = TSTransformerClassifier(d_model=8, n_heads=1, n_layers=0, max_epochs=1)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    store = RunStore("http://me:s3cret@127.0.0.1:9?token=s3cret", "1")
    real = autologging.RunStore(f"sqlite:///{folder}/mlflow.db", runs(folder)[0].info.experiment_id)
    started = real.start("secret", kind="fit")
    started.store = store
    monkeypatch.setattr(autologging, "start_run", lambda *_, **__: started)
    with autologging.tracked_fit(classifier, dataset="Italy") as run:
        address = run.address
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            classifier.fit(X, y)
    classifier.save(folder / "secret")
    kept = (folder / "secret/estimator.json").read_text()
    assert started.run_id in kept
    assert address.startswith("http://127.0.0.1:9/#")
    assert "s3cret" not in f"{address} {kept} {[str(warning.message) for warning in caught]}"
