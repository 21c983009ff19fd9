"""compare() with processes that are killed: every fit is recorded once."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from foreign_classifiers import in_fits, waiting
from listening import wait_until
from run_once import assert_finished_once, statuses

from tsformer.studies import Study, compare
from tsformer.studies.run.lock import StudyBusyError
from tsformer.tracking import prepare_store

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
@pytest.mark.usefixtures("no_report")
def test_a_killed_driver_takes_its_workers_along_and_the_next_goes_on(
    uri, experiment, processes, tmp_path, go, study, command
):
    store = prepare_store(uri, experiment)
    driver = processes.start("-m", "tsformer", *command, PYTHONPATH=processes.path(HERE))
    wait_until(lambda: len(in_fits(go)) == 2 or driver.poll() is not None)
    assert driver.poll() is None, processes.said(driver)
    options: dict[str, Any] = {"tracking_uri": uri, "experiment": experiment}
    with pytest.raises(StudyBusyError, match=f"process {driver.pid}, since "):
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
    said = processes.said(driver)
    _, _, resume = said.partition("finished fits are kept; to resume:\n")
    assert f"tsformer {' '.join(command)}\n" in resume
    assert "Traceback" not in said
