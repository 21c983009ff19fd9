"""compare(): each fit is done once, whatever happens in between."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_once import statuses
from torch import Tensor

from tsformer.encodings import PositionalEncoding
from tsformer.studies import Progress, Study, compare
from tsformer.tracking import prepare_store

MlflowClient = pytest.importorskip("mlflow", reason='needs the extra "tracking"').MlflowClient

pytestmark = pytest.mark.usefixtures("no_report")

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2}
STUDY = Study(("ItalyPowerDemand",), ("none", "tape+erpe"), seeds=2, parameters=SMALL)


def test_a_fit_that_raises_is_recorded_and_the_others_go_on(uri, experiment, tmp_path):
    class Broken(PositionalEncoding, name="broken"):
        def __init__(self, *, d_model: int, n_heads: int, max_len: int):
            super().__init__()

        def embed(self, x: Tensor, t: Tensor) -> Tensor:
            raise ArithmeticError("no such luck")

    study = Study(("ItalyPowerDemand",), ("broken", "none"), seeds=1, parameters=SMALL)
    events: list[Progress] = []
    options: dict[str, Any] = {"tracking_uri": uri, "experiment": experiment, "out": tmp_path}
    comparison = compare(study, on_progress=events.append, **options)
    assert comparison.results.encoding.tolist() == ["none"]
    failed = {"dataset": "ItalyPowerDemand", "encoding": "broken", "seed": 0, "resample": 0}
    error = "ArithmeticError: no such luck"
    assert comparison.failures.to_dict("records") == [{**failed, "error": error}]
    ends = [e for e in events if e.event == "fit-end"]
    assert [(e.error, e.failed) for e in ends] == [(error, 1), ("", 1)]
    store = prepare_store(uri, experiment)
    (failed,) = store.runs("FAILED")
    assert failed.data.tags["tsformer.error"] == error
    trace = MlflowClient(uri).download_artifacts(failed.info.run_id, "error.txt")
    assert "in embed" in Path(trace).read_text()
    (parent,) = store.runs(tags={"tsformer.kind": "study"})
    assert parent.data.metrics == {"fits/finished": 1, "fits/failed": 1, "fits/unrecorded": 0}

    again = compare(study, **options)
    assert len(again.failures) == 1
    keys = [study.key("ItalyPowerDemand", encoding, 0) for encoding in study.encodings]
    assert statuses(store) == {(keys[0], "FAILED"): 2, (keys[1], "FINISHED"): 1}


@pytest.mark.slow
def test_ctrl_c_loses_nothing_and_the_next_call_goes_on(uri, experiment, tmp_path):
    options: dict[str, Any] = {"tracking_uri": uri, "experiment": experiment, "out": tmp_path}

    def press_in_the_second_fit(progress: Progress) -> None:
        if progress.event == "epoch" and progress.done == 1:
            raise KeyboardInterrupt

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(KeyboardInterrupt):
            compare(STUDY, on_progress=press_in_the_second_fit, **options)
    kept = [each for each in caught if "is kept" in str(each.message)]
    assert not kept, "of a trial that was interrupted nothing is"
    assert pd.read_csv(tmp_path / "results.csv").encoding.tolist() == ["none"]
    store = prepare_store(uri, experiment)
    keys = [STUDY.key(*trial) for trial in STUDY.trials()]
    assert statuses(store) == {(keys[0], "FINISHED"): 1, (keys[1], "KILLED"): 1}
    assert [run.info.status for run in store.runs(tags={"tsformer.kind": "study"})] == ["KILLED"]

    assert len(compare(STUDY, **options).results) == 4
    assert statuses(store) == {(keys[1], "KILLED"): 1, **{(key, "FINISHED"): 1 for key in keys}}
    assert [run.info.status for run in store.runs(tags={"tsformer.kind": "study"})] == ["FINISHED"]
