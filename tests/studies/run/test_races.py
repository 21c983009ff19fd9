"""What goes wrong in the store when processes meet, and must cost no fit its record."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tsformer.tracking import prepare_store

mlflow = pytest.importorskip("mlflow", reason='needs the extra "tracking"')
MlflowClient, MlflowException = mlflow.MlflowClient, mlflow.MlflowException


def test_the_second_to_write_a_parameter_of_one_run_keeps_it(uri, experiment, monkeypatch):
    first, second = (
        prepare_store(uri, experiment).start("study", kind="study", key="study", again=True)
        for _ in range(2)
    )
    assert first.run_id == second.run_id
    log_batch, refused = MlflowClient.log_batch, []

    def lose(client: Any, *args: Any, **kwargs: Any) -> None:
        if not refused:
            refused.append(True)
            raise MlflowException("(sqlite3.IntegrityError) UNIQUE constraint failed: params.key")
        log_batch(client, *args, **kwargs)

    monkeypatch.setattr(MlflowClient, "log_batch", lose)
    second.params({"encoding": "none"})
    assert refused
    assert not second.lost
    assert MlflowClient(uri).get_run(second.run_id).data.params["encoding"] == "none"


def test_of_doubled_runs_the_first_to_end_stays(uri, experiment):
    store = prepare_store(uri, experiment)
    tags = {"tsformer.configuration": experiment}
    slow, fast, other, outside = (
        store.start(key, kind="fit", key=key, tags=tags) for key in ("a", "a", "other", "b")
    )
    for run in (other, fast, slow, outside):
        run.end("FINISHED")
        time.sleep(0.002)
    store.kill_doubled(["a", "b"], tags)
    left = {run.info.run_id for run in store.runs("FINISHED", tags)}
    assert left == {fast.run_id, other.run_id, outside.run_id}
