"""compare(): each fit is done once, whatever happens in between."""

import json
import os
import signal
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from foreign_classifiers import in_fits, waiting
from listening import listening, wait_until
from run_once import assert_finished_once, statuses

from tsformer.studies import Progress, Study, compare
from tsformer.studies.run.lock import StudyBusyError
from tsformer.tracking import prepare_store

MlflowClient = pytest.importorskip("mlflow", reason='needs the extra "tracking"').MlflowClient

pytestmark = pytest.mark.usefixtures("no_report")

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 2}
STUDY = Study(("ItalyPowerDemand",), ("none", "tape+erpe"), seeds=2, parameters=SMALL)


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
    kept = [warning for warning in caught if "is kept" in str(warning.message)]
    assert not kept, "of a trial that was interrupted nothing is"
    assert pd.read_csv(tmp_path / "results.csv").encoding.tolist() == ["none"]
    store = prepare_store(uri, experiment)
    keys = [STUDY.key(*trial) for trial in STUDY.trials()]
    assert statuses(store) == {(keys[0], "FINISHED"): 1, (keys[1], "KILLED"): 1}
    assert [run.info.status for run in store.runs(tags={"tsformer.kind": "study"})] == ["KILLED"]

    assert len(compare(STUDY, **options).results) == 4
    assert statuses(store) == {(keys[1], "KILLED"): 1, **{(key, "FINISHED"): 1 for key in keys}}
    assert [run.info.status for run in store.runs(tags={"tsformer.kind": "study"})] == ["FINISHED"]


psutil = pytest.importorskip("psutil")

HERE = str(Path(__file__).parent)


@pytest.fixture
def go(tmp_path):
    """The file for which the fits of a study wait."""
    return tmp_path / "go"


@pytest.fixture
def study(go):
    return Study(("ItalyPowerDemand",), methods=waiting(go), seeds=1)


@pytest.fixture
def command(processes, study, uri, experiment):
    """The command line that runs the study in two worker processes."""
    lines = [f"{name} = {json.dumps(getattr(study, name))}" for name in ("datasets", "seeds")]
    for name, options in study.methods.items():
        lines.append(f"[methods.{name}]")
        lines += [f"{option} = {json.dumps(value)}" for option, value in options.items()]
    (processes.folder / "study.toml").write_text("\n".join(lines), encoding="utf-8")
    return [
        "compare", "--study", "study.toml", "--jobs", "2", "--out", "results",
        "--tracking-uri", uri, "--experiment", experiment,
    ]  # fmt: skip


@pytest.mark.processes
def test_a_killed_driver_takes_its_workers_along_and_the_next_goes_on(
    uri, experiment, processes, tmp_path, go, study, command
):
    store = prepare_store(uri, experiment)
    driver = processes.start("-m", "tsformer", *command, PYTHONPATH=processes.path(HERE))
    wait_until(lambda: len(in_fits(go)) == 2 or driver.poll() is not None)
    assert driver.poll() is None, processes.said(driver)
    options: dict[str, Any] = {"tracking_uri": uri, "experiment": experiment}
    with pytest.raises(StudyBusyError):
        compare(study, out=tmp_path / "refused", **options)
    assert not (tmp_path / "refused").exists()
    workers = psutil.Process(driver.pid).children()
    driver.kill()
    driver.wait()
    wait_until(lambda: not any(worker.is_running() for worker in workers))
    assert sorted(status for _, status in statuses(store)) == ["FINISHED", "RUNNING", "RUNNING"]

    go.touch()
    comparison = compare(study, out=tmp_path / "results", **options)
    assert assert_finished_once(store, study) == 2
    assert len(comparison.results) == 3


@pytest.mark.processes
def test_ctrl_c_in_many_processes_says_how_to_go_on(uri, experiment, processes, go, command):
    pytest.importorskip("typer", reason='needs the extra "cli"')
    store = prepare_store(uri, experiment)
    driver = processes.start("-m", "tsformer", *command, PYTHONPATH=processes.path(HERE))
    wait_until(lambda: len(in_fits(go)) == 2 or driver.poll() is not None)
    children = psutil.Process(driver.pid).children()
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does
    assert driver.wait(timeout=240) == 130, processes.said(driver)
    wait_until(lambda: not any(child.is_running() for child in children))
    assert sorted(status for _, status in statuses(store)) == ["FINISHED", "KILLED", "KILLED"]
    log = processes.said(driver)
    _, _, resume = log.partition("finished fits are kept; to resume:\n")
    assert f"tsformer {' '.join(command)}\n" in resume
    assert "Traceback" not in log


LINEAR = {"d_model": 8, "n_heads": 2, "n_layers": 1, "stem": "linear", "max_epochs": 10}
OF_LINEAR = Study(("ItalyPowerDemand",), ("none", "tape+erpe"), seeds=2, parameters=LINEAR)


@pytest.mark.processes
def test_a_tracking_server_that_goes_away_and_comes_back(processes, port, experiment, tmp_path):
    keys = [OF_LINEAR.key(*trial) for trial in OF_LINEAR.trials()]
    address = f"http://127.0.0.1:{port}"
    servers = [processes.server(port)]
    assert listening(servers[0].pid) == {("127.0.0.1", port)}

    def kill_and_start_again(progress: Progress) -> None:
        if progress.event == "epoch" and progress.done == 1 and progress.epoch == 5:
            processes.kill(servers[0])
        if progress.event == "fit-end" and progress.done == 3:
            servers.append(processes.server(port))

    options: dict[str, Any] = {
        "out": tmp_path / "out", "tracking_uri": address, "experiment": experiment,
    }  # fmt: skip
    with pytest.warns(UserWarning, match="continues"):
        comparison = compare(OF_LINEAR, on_progress=kill_and_start_again, **options)
    assert len(comparison.results) == 4, "a server that is away fails no fit"
    assert comparison.failures.empty
    away = comparison.unrecorded[["encoding", "seed"]].to_numpy().tolist()
    assert away == [["tape+erpe", 0], ["none", 1]]
    store = prepare_store(address, experiment)
    done = {key for (key, status), _ in statuses(store).items() if status == "FINISHED"}
    assert done == {keys[0], keys[3]}

    again = compare(OF_LINEAR, **options)
    assert again.unrecorded.empty
    assert len(again.results) == 4
    assert_finished_once(store, OF_LINEAR)
