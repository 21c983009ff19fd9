"""A worker of a cluster whose libraries are others fits nothing under their name."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pytest

from tsformer.studies import Study
from tsformer.studies.run.worker import Task, run_task


@pytest.mark.parametrize(
    ("methods", "there", "here"),
    [
        ({"a": {"estimator": "sklearn.svm.SVC"}}, "scikit-learn ", "sklearn.svm.SVC 0.1"),
        ({"rocket": {}}, "aeon ", "Rocket"),
    ],
)
def test_a_worker_with_another_version_says_so_and_fits_nothing(
    methods: dict[str, Any], there: str, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study(("ItalyPowerDemand",), methods=methods, seeds=1)
    (trial,) = study.trials()
    # Claims are of no use to it: whatever it asked them for would raise.
    task = Task(trial, study, cast("Any", None), "")
    assert task.other_versions() == ""
    sent = pickle.dumps(task)
    monkeypatch.setattr(
        "tsformer.studies.design.methods.library_version", lambda path: f"{path} 0.1"
    )
    arrived: Task = pickle.loads(sent)
    result = run_task(arrived)
    assert result.row is None
    assert result.error.startswith("OtherVersions: this worker has ")
    assert here in result.error
    assert f"began with {there}" in result.error


def test_a_worker_with_the_same_versions_goes_on() -> None:
    study = Study(("ItalyPowerDemand",), ("none",), methods={"rocket": {}}, seeds=1)
    for trial in study.trials():
        arrived = pickle.loads(pickle.dumps(Task(trial, study, cast("Any", None), "")))
        assert not arrived.other_versions()
