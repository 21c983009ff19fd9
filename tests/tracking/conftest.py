"""One MLflow store for all tests of tracking, and a real problem to train on."""

from __future__ import annotations

from typing import Any

import pytest

from tsformer.data import load_dataset
from tsformer.tracking import RunStore, prepare_store


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    # One store a session, shared with the tests of studies: making its tables takes seconds.
    folder = tmp_path_factory.getbasetemp() / "store"
    folder.mkdir(exist_ok=True)
    return f"sqlite:///{folder / 'mlflow.db'}"


@pytest.fixture(scope="session")
def store(uri: str) -> RunStore:
    return prepare_store(uri, "tests of tracking")


@pytest.fixture(scope="session")
def italy() -> tuple[Any, Any]:
    return load_dataset("ItalyPowerDemand", split="train")
