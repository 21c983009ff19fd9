"""The MLflow store of the tests of tracking, and a real problem to train on."""

import pytest

import tsformer
from tsformer.data import load_dataset
from tsformer.tracking import prepare_store


@pytest.fixture(scope="session")
def store(uri):
    return prepare_store(uri, "tests of tracking")


@pytest.fixture(scope="session")
def italy():
    return load_dataset("ItalyPowerDemand", split="train")


@pytest.fixture
def few(italy):
    return italy[0][:24], italy[1][:24]


@pytest.fixture
def experiment(uri, monkeypatch, request):
    """An experiment of its own for each test, and nothing tracked at its end."""
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_EXPERIMENT_ID", raising=False)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", request.node.name)
    yield
    tsformer.autolog(disable=True)
    while mlflow.active_run() is not None:
        mlflow.end_run()


@pytest.fixture
def quick(experiment):
    tsformer.autolog(log_models=False, pictures=False, log_datasets=False)
