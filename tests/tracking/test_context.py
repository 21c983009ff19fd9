"""Where a run goes: the arguments, the active run, or the settings of MLflow."""

import os
from typing import Any

import pytest

from tsformer.tracking import RunStore, prepare_store
from tsformer.tracking.context import Enclosing, activated, start_run, within

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')


@pytest.fixture(autouse=True)
def told_nothing(monkeypatch, tmp_path):
    """MLflow as it is in a new process, in an empty folder."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(name, raising=False)
    mlflow.set_tracking_uri(None)
    monkeypatch.chdir(tmp_path)
    yield
    while mlflow.active_run() is not None:
        mlflow.end_run()
    mlflow.set_tracking_uri(None)
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)  # which mlflow.set_experiment sets


def started(**where: Any) -> tuple[RunStore, Any]:
    run = start_run("a fit", kind="fit", **where)
    run.end("FINISHED")
    return run.store, run.store.client().get_run(run.run_id)


def experiment_of(store: RunStore) -> Any:
    return store.client().get_experiment(store.experiment_id).name


def test_the_functions_of_mlflow_come_before_its_variables(uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    store, _ = started()
    assert store == prepare_store(uri)
    assert experiment_of(store) == "tsformer"
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "of the variable")
    assert experiment_of(started()[0]) == "of the variable"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("of the function")
    store, run = started()
    assert (store.uri, experiment_of(store)) == (uri, "of the function")
    assert run.info.experiment_id == store.experiment_id


def test_an_active_run_gets_the_first_and_the_next_are_nested_in_it(uri):
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("mine")
    with mlflow.start_run(run_name="my run") as mine:
        # An argument comes before the active run.
        store, placed = started(experiment="asked for")
        assert experiment_of(store) == "asked for"
        assert "mlflow.parentRunId" not in placed.data.tags
        store, first = started()
        assert first.info.run_id == mine.info.run_id
        assert first.info.status == "RUNNING", "whoever has started it ends it"
        nested = [started()[1] for _ in range(2)]
    assert experiment_of(store) == "mine"
    parents = [run.data.tags["mlflow.parentRunId"] for run in nested]
    assert parents == [mine.info.run_id] * 2
    assert [run.info.status for run in nested] == ["FINISHED"] * 2
    assert mlflow.get_run(mine.info.run_id).info.status == "FINISHED"


def test_an_enclosing_run_comes_before_an_active_one(store):
    mlflow.set_tracking_uri(store.uri)
    outer = store.start("outer", kind="fit")
    with mlflow.start_run(), within(Enclosing(outer, free=True)):
        assert started()[1].info.run_id == outer.run_id
        assert started()[1].data.tags["mlflow.parentRunId"] == outer.run_id
    assert outer.status == "FINISHED"


def test_parameters_in_an_active_run_stay_what_the_user_logged(uri):
    mlflow.set_tracking_uri(uri)
    with mlflow.start_run() as mine:
        mlflow.log_params({"d_model": "mine", "n_heads": 2})
        run = start_run("a fit", kind="fit")
        with pytest.warns(UserWarning, match="d_model"):
            run.params({"d_model": 8, "n_heads": 2, "n_layers": 1})
        run.end("KILLED")
    run = mlflow.get_run(mine.info.run_id)
    assert run.data.params == {"d_model": "mine", "n_heads": "2", "n_layers": "1"}
    assert run.data.tags["tsformer.missing"] == "params.d_model"
    assert (run.info.status, run.data.tags["tsformer.status"]) == ("FINISHED", "KILLED")


def test_a_new_run_is_the_active_one_inside_and_the_last_one_afterwards(uri):
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("mine")
    run = start_run("a fit", kind="fit")
    with activated(run), run:
        mlflow.log_metric("own", 1.0)
    assert mlflow.active_run() is None
    last = mlflow.last_active_run()
    assert (last.info.run_id, last.info.status) == (run.run_id, "FINISHED")
    assert last.data.metrics == {"own": 1.0}
