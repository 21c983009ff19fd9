"""compare(): each fit is done once, whatever happens in between."""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from torch import Tensor

from tsformer.data import DatasetError
from tsformer.encodings import PositionalEncoding, unregister
from tsformer.studies import Progress, Study, compare
from tsformer.studies.run.problem import Problem
from tsformer.tracking import prepare_store

MlflowClient = pytest.importorskip("mlflow", reason='needs the extra "tracking"').MlflowClient
pytest.importorskip("matplotlib", reason='needs the extra "plots"')

pytestmark = pytest.mark.usefixtures("no_figures")

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2}
STUDY = Study(("ItalyPowerDemand",), ("none", "tape+erpe"), seeds=2, parameters=SMALL)


@pytest.fixture
def broken() -> Iterator[str]:
    class Broken(PositionalEncoding, name="broken"):
        def __init__(self, *, d_model: int, n_heads: int, max_len: int):
            super().__init__()

        def embed(self, x: Tensor, t: Tensor) -> Tensor:
            raise ArithmeticError("no such luck")

    yield "broken"
    unregister("broken")


def test_a_fit_that_raises_is_recorded_and_the_others_go_on(
    broken: str, uri: str, experiment: str, tmp_path: Path, statuses: Any
) -> None:
    study = Study(("ItalyPowerDemand",), (broken, "none"), seeds=1, parameters=SMALL)
    events: list[Progress] = []
    options: dict[str, Any] = {"tracking_uri": uri, "experiment": experiment, "out": tmp_path}
    comparison = compare(study, on_progress=events.append, **options)
    assert comparison.results.encoding.tolist() == ["none"]
    assert comparison.failures.to_dict("records") == [
        {
            "dataset": "ItalyPowerDemand",
            "encoding": "broken",
            "seed": 0,
            "resample": 0,
            "error": "ArithmeticError: no such luck",
        }
    ]
    ends = [e for e in events if e.event == "fit-end"]
    assert [(e.error, e.failed) for e in ends] == [("ArithmeticError: no such luck", 1), ("", 1)]
    store = prepare_store(uri, experiment)
    (failed,) = store.runs("FAILED")
    assert failed.data.tags["tsformer.error"] == "ArithmeticError: no such luck"
    trace = MlflowClient(uri).download_artifacts(failed.info.run_id, "error.txt")
    assert "in embed" in Path(trace).read_text()
    (parent,) = store.runs(tags={"tsformer.kind": "study"})
    assert parent.data.metrics == {"fits/finished": 1, "fits/failed": 1, "fits/unrecorded": 0}

    again = compare(study, **options)
    assert len(again.failures) == 1
    keys = [study.key("ItalyPowerDemand", encoding, 0) for encoding in study.encodings]
    assert statuses(store) == {(keys[0], "FAILED"): 2, (keys[1], "FINISHED"): 1}


@pytest.mark.slow
def test_ctrl_c_loses_nothing_and_the_next_call_goes_on(
    uri: str, experiment: str, tmp_path: Path, statuses: Any
) -> None:
    options: dict[str, Any] = {"tracking_uri": uri, "experiment": experiment, "out": tmp_path}

    def press_in_the_second_fit(progress: Progress) -> None:
        if progress.event == "epoch" and progress.done == 1:
            raise KeyboardInterrupt

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            compare(STUDY, on_progress=press_in_the_second_fit, **options)
    told = [str(each.message) for each in caught]
    assert not any("is kept" in text for text in told), "of a trial that was interrupted nothing is"
    assert pd.read_csv(tmp_path / "results.csv").encoding.tolist() == ["none"]
    store = prepare_store(uri, experiment)
    keys = [STUDY.key(*trial) for trial in STUDY.trials()]
    assert statuses(store) == {(keys[0], "FINISHED"): 1, (keys[1], "KILLED"): 1}
    assert [run.info.status for run in store.runs(tags={"tsformer.kind": "study"})] == ["KILLED"]

    assert len(compare(STUDY, **options).results) == 4
    assert statuses(store) == {(keys[1], "KILLED"): 1, **{(key, "FINISHED"): 1 for key in keys}}
    assert [run.info.status for run in store.runs(tags={"tsformer.kind": "study"})] == ["FINISHED"]


def test_what_a_killed_process_left_running_is_done_again(
    uri: str, experiment: str, tmp_path: Path, statuses: Any
) -> None:
    study = Study(("ItalyPowerDemand",), ("none",), seeds=1, parameters=SMALL)
    store = prepare_store(uri, experiment)
    key = study.key("ItalyPowerDemand", "none", 0)
    tags = {"tsformer.configuration": study.hash_of()}
    store.start("killed with -9", kind="fit", key=key, tags=tags)
    store.start("of another study", kind="fit", key="other/none/0/x", tags=tags)
    comparison = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment)
    assert len(comparison.results) == 1
    assert statuses(store) == {
        (key, "KILLED"): 1,
        (key, "FINISHED"): 1,
        ("other/none/0/x", "RUNNING"): 1,
    }


@pytest.mark.slow
def test_a_data_set_that_a_worker_lacks_is_recorded_as_a_failure(
    uri: str, experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_up = []

    def load(name: str, resample: int = 0, *subset: Any) -> Problem:
        if resample and looked_up:  # the driver, which looks first, has it
            raise DatasetError(f"there is no {name} here")
        looked_up.append(resample)
        return original(name, resample, *subset)

    original = Problem.load
    monkeypatch.setattr(Problem, "load", load)
    study = Study(("ItalyPowerDemand",), ("none",), seeds=1, parameters=SMALL, resamples=2)
    found = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment)
    assert len(found.results) == 1
    assert found.failures["error"].tolist() == ["DatasetError: there is no ItalyPowerDemand here"]
    assert found.unrecorded.empty, "the store was there all the time"
    (failed,) = prepare_store(uri, experiment).runs("FAILED")
    assert failed.data.tags["tsformer.error"] == found.failures["error"][0]
    assert failed.data.tags["tsformer.key"] == study.key("ItalyPowerDemand", "none", 0, "", 1)


@pytest.mark.slow
def test_results_of_another_store_are_not_overwritten(
    uri: str, experiment: str, tmp_path: Path
) -> None:
    study = Study(("ItalyPowerDemand",), ("none",), seeds=1, parameters=SMALL)
    found = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment)
    there = found.csv_path.read_bytes()
    elsewhere = f"sqlite:///{tmp_path / 'other.db'}"
    larger = dataclasses.replace(study, seeds=2)
    with pytest.raises(FileExistsError, match=r"results.csv has fits that .*other.db"):
        compare(larger, out=tmp_path, tracking_uri=elsewhere, experiment=experiment)
    assert found.csv_path.read_bytes() == there
    assert json.loads((tmp_path / "study.json").read_text()) == study.as_dict()
    # Another study in the same folder and store replaces it: nothing is lost by that.
    other = dataclasses.replace(study, seeds=(5,))
    assert compare(other, out=tmp_path, tracking_uri=uri, experiment=experiment).results[
        "seed"
    ].tolist() == [5]


@pytest.mark.parametrize("content", [b"\n", b"\x89PNG\x00\xff", b"a,b\n1,2,3\n4\n", b"a,b\n1,2\n"])
def test_a_file_that_is_no_table_of_ours_is_not_overwritten(
    content: bytes, uri: str, experiment: str, tmp_path: Path
) -> None:
    (tmp_path / "results.csv").write_bytes(content)
    with pytest.raises(
        FileExistsError, match="is not a results file of a study and would be overwritten"
    ):
        compare(STUDY, out=tmp_path, tracking_uri=uri, experiment=experiment)
    assert (tmp_path / "results.csv").read_bytes() == content
