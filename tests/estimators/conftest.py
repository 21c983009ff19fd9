"""A real problem, and every estimator, fitted once."""

from typing import Any

import numpy as np
import pytest
from small_estimators import MAKERS, RAGGED, TIMES, X, Y

from tsformer import load_dataset
from tsformer.estimators import base


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out a check that repeats others."""
    for item in items:
        # Every estimator is fitted to read-only series in test_contract.py.
        if "check_classifiers_train(readonly" in item.name:
            item.add_marker(pytest.mark.exhaustive)


@pytest.fixture(scope="session")
def italy() -> tuple[np.ndarray, np.ndarray]:
    """67 series of 24 steps and one channel in two classes."""
    pytest.importorskip("sktime", reason='the problem comes with the extra "data"')
    return load_dataset("ItalyPowerDemand", split="train")


@pytest.fixture(scope="session")
def fitted() -> dict[str, Any]:
    """Every estimator, fitted to series with gaps and times; not to be changed."""
    return {name: make().fit(RAGGED, Y, times=TIMES) for name, make in MAKERS.items()}


@pytest.fixture(scope="session")
def plain() -> dict[str, Any]:
    """Every estimator, fitted to series of equal length; not to be changed."""
    return {name: make().fit(X, Y) for name, make in MAKERS.items()}


@pytest.fixture
def trained(monkeypatch) -> list[list[np.ndarray]]:
    """The values of the series of each training run: trained on, and held out."""
    runs, train = [], base.train_ensemble

    def recording(models, panel, *args, validation, **kwargs):
        panels = [panel, *([] if validation is None else [validation.panel])]
        runs.append([p.values.numpy() for p in panels])
        return train(models, panel, *args, validation=validation, **kwargs)

    monkeypatch.setattr(base, "train_ensemble", recording)
    return runs
