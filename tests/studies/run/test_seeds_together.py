"""On a GPU the seeds of one trial train as one; here the same way is taken on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
import torch

import tsformer.studies.run.trial as trial_module
from tsformer.estimators import base
from tsformer.studies import Study, compare
from tsformer.studies.run import executors
from tsformer.studies.run.worker import Task
from tsformer.tracking import prepare_store

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')

pytestmark = pytest.mark.usefixtures("no_figures")

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2}
STUDY = Study(("ItalyPowerDemand",), ("none", "tape"), seeds=3, parameters=SMALL)
NUMBERS = ["encoding", "seed", "accuracy", "log_loss", "n_epochs", "n_parameters"]


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tsformer.studies.run.executors._as_one", lambda task, n: n > 1)


@pytest.mark.slow
def test_the_rows_and_runs_are_those_of_single_fits(
    uri: str, experiment: str, tmp_path: Path, statuses: Any, as_on_a_gpu: None
) -> None:
    events: list[Any] = []
    at_once = compare(
        STUDY,
        out=tmp_path / "a",
        tracking_uri=uri,
        experiment=experiment,
        on_progress=events.append,
    )
    assert [e.event for e in events].count("fit-start") == 2
    assert [e.event for e in events].count("fit-end") == 6
    store = prepare_store(uri, experiment)
    assert statuses(store) == {(STUDY.key(*trial), "FINISHED"): 1 for trial in STUDY.trials()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tsformer.studies.run.executors._as_one", lambda task, n: False)
        alone = compare(
            STUDY, out=tmp_path / "b", tracking_uri=uri, experiment=f"{experiment}-alone"
        )
    pd.testing.assert_frame_equal(at_once.results[NUMBERS], alone.results[NUMBERS])


@pytest.mark.slow
def test_what_cannot_be_fitted_as_one_is_fitted_one_by_one(
    uri: str,
    experiment: str,
    tmp_path: Path,
    statuses: Any,
    as_on_a_gpu: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def diverges(*args: Any) -> Any:
        raise ArithmeticError("as one it fails")

    monkeypatch.setattr(trial_module, "fit_vectorized", diverges)
    with pytest.warns(UserWarning, match="3 seeds of none on ItalyPowerDemand could not be"):
        comparison = compare(STUDY, out=tmp_path, tracking_uri=uri, experiment=experiment)
    assert len(comparison.results) == 6
    store = prepare_store(uri, experiment)
    counts = statuses(store)
    assert all(counts[STUDY.key(*trial), "FINISHED"] == 1 for trial in STUDY.trials())
    # A FAILED run would be the result of another call that runs at the same time.
    assert all(counts[STUDY.key(*trial), "KILLED"] == 1 for trial in STUDY.trials())


@pytest.mark.parametrize("as_method", [False, True])
@pytest.mark.parametrize(
    ("compile", "n", "as_one"),
    [("auto", 3, False), ("auto", 20, True), (False, 3, True), (False, 1, False)],
)
def test_seeds_are_together_where_they_train_as_one_on_a_gpu(
    compile: Any, n: int, as_one: bool, as_method: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each has its own seconds, and its row as soon as it is fitted."""
    said: dict[str, Any] = {"compile": compile}
    study = Study(("ItalyPowerDemand",), ("none",), seeds=1, parameters=said)
    if as_method:
        study = Study(("ItalyPowerDemand",), methods={"mine": said}, seeds=1)
    task = Task(study.trials()[0], study, cast("Any", None), "")
    assert not executors._as_one(task, n), "on a CPU"
    monkeypatch.setattr(base, "resolve_device", lambda _: torch.device("cuda"))
    monkeypatch.setattr(base, "resolve_precision", lambda *_: True)
    assert executors._as_one(task, n) == as_one
    members = Study(("A",), ("none",), seeds=1, parameters={"compile": compile, "n_estimators": 7})
    task = Task(members.trials()[0], members, cast("Any", None), "")
    assert executors._as_one(task, n) == (7 * n >= 20 or compile is False), "all models count"
    here = Study(("A",), ("none",), seeds=1, parameters={"compile": "cuda-graphs"})
    monkeypatch.undo()
    task = Task(here.trials()[0], here, cast("Any", None), "")
    assert not executors._as_one(task, n), "the fit itself says that there is no GPU"
