"""One MLflow store for all tests of studies, and what is asked of it again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from tsformer.tracking import RunStore


@pytest.fixture(scope="session")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    # One store a session, shared with the tests of tracking: making its tables takes seconds.
    folder = tmp_path_factory.getbasetemp() / "store"
    folder.mkdir(exist_ok=True)
    return f"sqlite:///{folder / 'mlflow.db'}"


@pytest.fixture
def experiment(request: pytest.FixtureRequest) -> str:
    """An experiment of the test's own: what one test finished another must not find."""
    return str(request.node.name)


@pytest.fixture
def statuses() -> Callable[[RunStore], Counter[tuple[str, str]]]:
    """How many runs of fits there are of each key and status."""

    def count(store: RunStore) -> Counter[tuple[str, str]]:
        runs = store.runs(tags={"tsformer.kind": "fit"})
        return Counter((run.data.tags["tsformer.key"], run.info.status) for run in runs)

    return count
