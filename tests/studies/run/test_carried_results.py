"""Everything that a fit carries across processes, runs, files and calls arrives as it was."""

import dataclasses
import pickle
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import typer
from foreign_classifiers import __name__ as FOREIGN

from tsformer.cli.studies import finish
from tsformer.estimators.series_estimator import add_observer, remove_observer
from tsformer.studies import Comparison, Study
from tsformer.studies.run.results import ResultStore
from tsformer.studies.run.trial import Task, TrialResult, result_columns, run_task
from tsformer.tracking import RunStore, prepare_store

METHODS: dict[str, dict[str, Any]] = {
    "ridge": {"estimator": "flat-ridge"},
    "majority": {},
    "raises": {"estimator": f"{FOREIGN}.Raises"},
}
STUDY = Study(
    ("ItalyPowerDemand",),
    ("none",),
    seeds=1,
    parameters={"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 1},
    vary={"norm_first": [False], "scaling": [None]},
    train_sizes=("50%",),
    methods=METHODS,
)


def tasks(store: RunStore, study: Study = STUDY) -> list[Task]:
    return [Task(trial, study, store, "") for trial in study.trials()]


@pytest.fixture
def no_observed_fit(monkeypatch):
    """Fail fits that observers such as `autolog` see; the first one warms the process up."""

    def observer(fit):
        raise AssertionError(fit)

    monkeypatch.setattr("tsformer.studies.run.trial.WARMED_UP", set())
    add_observer(observer)
    yield
    remove_observer(observer)


@pytest.mark.usefixtures("no_figures", "no_observed_fit")
def test_every_field_of_a_row_survives_process_run_file_and_call(uri, experiment, tmp_path):
    store = prepare_store(uri, experiment)
    kept = ResultStore(STUDY, store, tmp_path / "results.csv")
    kept.open()
    for task in tasks(store):
        sent: Task = pickle.loads(pickle.dumps(task))
        for field in dataclasses.fields(Task):
            if field.name != "store":
                assert getattr(sent, field.name) == getattr(task, field.name), field.name
        result = run_task(sent)
        received: TrialResult = pickle.loads(pickle.dumps(result))
        assert kept.add(received) == [task.trial]
        if result.row is None:
            assert result.error == "ArithmeticError: no such luck"
            continue
        assert list(result.row) == result_columns(STUDY)
        again = run_task(task).row
        shown, there = pd.DataFrame([again]), pd.DataFrame([result.row])
        pd.testing.assert_frame_equal(shown, there, check_dtype=False)
    shown = kept.results()
    assert shown["n_train"].tolist() == [34] * 3, "half of 67"
    resumed = ResultStore(STUDY, store, tmp_path / "results.csv")
    resumed.open()
    pd.testing.assert_frame_equal(resumed.results(), shown)
    lost = ResultStore(STUDY, store, tmp_path / "lost.csv")
    for trial in STUDY.trials():  # another process finished these fits
        lost.add(TrialResult(trial, None, "ProcessLost: no answer", recorded=False))
    lost.settle()
    pd.testing.assert_frame_equal(lost.results(), shown)
    for frame in (lost.failures(), lost.without_record()):
        assert frame["method"].tolist() == ["raises"]
    as_text = pd.read_csv(kept.path, keep_default_na=False)
    assert set(as_text["scaling"]) == {"None"}
    written = pd.read_csv(kept.path, float_precision="round_trip")
    for name in shown:
        there = shown[name].notna() & (shown[name] != "")
        assert written[name][there].tolist() == shown[name][there].tolist(), name


@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("error", ["", "ValueError: no"])
def test_every_field_of_a_result_is_shown_for_each_seed_that_shares_the_fit(
    error, recorded, tmp_path
):
    study = Study(("ItalyPowerDemand",), methods={"flat-ridge": {}}, seeds=3)
    store = ResultStore(study, RunStore("sqlite:///none.db", ""), tmp_path / "results.csv")
    row = None if error else dict.fromkeys(result_columns(study), 0) | {"accuracy": 0.5}
    trials = study.trials()
    assert store.add(TrialResult(trials[1], row, error, recorded)) == trials
    frames = {"results": store.results(), "failures": store.failures()}
    shown = frames["failures" if error else "results"]
    assert shown["seed"].tolist() == [0, 1, 2]
    assert sum(map(len, frames.values())) == 3
    assert len(store.without_record()) == (0 if recorded else 3)
    assert [*store.waiting()] == (trials[:1] if error else [])
    if error:
        assert set(shown["error"]) == {error}
    else:
        assert set(pd.read_csv(store.path)["accuracy"]) == {0.5}


def test_a_worker_that_lost_the_store_says_so_of_every_outcome(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    lost = RunStore("http://127.0.0.1:9", "1")
    study = dataclasses.replace(STUDY, encodings=(), parameters={}, vary={})
    absent = Study(("Absent",), methods={"majority": {}}, seeds=1)
    with pytest.warns(UserWarning, match="continues"):
        results = [run_task(task) for task in tasks(lost, study) + tasks(lost, absent)]
    assert [result.row is None for result in results] == [False, False, True, True]
    assert [result.recorded for result in results] == [False] * 4


FIT = pd.DataFrame({"dataset": ["A"], "encoding": ["none"], "seed": [0], "resample": [0]})
SKIPPED, FAILED = (FIT.assign(error=e) for e in ("UnreadableSeries: one", "ValueError: no\n luck"))
LOST = "not recorded, since the tracking store was unreachable: A  none  0"
AGAIN = "run the same command once the store is back to repeat these"


@pytest.mark.parametrize(
    ("results", "failures", "unrecorded", "status", "lines"),
    [
        (FIT, SKIPPED, FIT[:0], 0, ["skipped: A  none  0  UnreadableSeries: one"]),
        (FIT, FAILED, FIT[:0], 2, ["failed: A  none  0  ValueError: no luck"]),
        (FIT, SKIPPED[:0], FIT, 2, [LOST, AGAIN]),
        (FIT[:0], SKIPPED, FIT[:0], 2, ["skipped: A  none  0  UnreadableSeries: one"]),
    ],
)
def test_a_command_ends_with_2_unless_each_fit_has_a_score_and_a_run(
    results, failures, unrecorded, status, lines, capsys
):
    file = Path("results.csv")
    comparison = Comparison(STUDY, results, failures, unrecorded, file, None, None, "tsformer ui")
    try:
        finish(comparison, err=True)
        ended = 0
    except typer.Exit as stopped:
        ended = stopped.exit_code
    assert ended == status
    shown = capsys.readouterr()
    assert shown.out == "", "standard output is for a table that another program reads"
    assert shown.err.splitlines() == lines
