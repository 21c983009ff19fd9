"""compare() with processes that are killed: every fit is recorded once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tsformer.studies import Progress, Study, compare
from tsformer.studies.run.lock import StudyBusyError
from tsformer.tracking import RunStore, prepare_store

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')
psutil = pytest.importorskip("psutil")

# Long enough to be met in the middle.
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 60}
SHORT = SMALL | {"stem": "linear", "max_epochs": 2}
STUDY = Study(("ItalyPowerDemand",), ("none", "tape+erpe"), seeds=2, parameters=SMALL)
DRIVER = f"""
import os
import resource
import sys
from dataclasses import replace
from tsformer.studies import Study, compare

def fill_the_disk(progress):
    if sys.argv[3] == "full" and progress.event == "fit-end" and progress.done == 1:
        size = os.path.getsize(sys.argv[1].removeprefix("sqlite:///"))
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

if __name__ == "__main__":
    study = Study(**{STUDY.as_dict()!r})
    if sys.argv[3] != "jobs":
        study = replace(study, parameters={SHORT!r})
    options = dict(jobs=2) if sys.argv[3] == "jobs" else dict(on_progress=fill_the_disk)
    found = compare(study, out="out", tracking_uri=sys.argv[1], experiment=sys.argv[2], **options)
    print("unrecorded:", len(found.unrecorded))
"""


def running(store: RunStore) -> list[Any]:
    return store.runs("RUNNING", {"tsformer.kind": "fit"})


def one_finished(statuses: Any, study: Study = STUDY) -> None:
    """Assert that every fit has one FINISHED run, and that none is left RUNNING."""
    finished = {key: n for (key, status), n in statuses.items() if status == "FINISHED"}
    assert finished == {study.key(*trial): 1 for trial in study.trials()}
    assert {status for _, status in statuses} <= {"FINISHED", "KILLED"}


@pytest.mark.processes
@pytest.mark.usefixtures("no_report")
def test_a_killed_worker(
    uri: str, experiment: str, tmp_path: Path, statuses: Any, wait_until: Callable[..., None]
) -> None:
    store = prepare_store(uri, experiment)
    events: list[Progress] = []

    def kill_one_that_works(progress: Progress) -> None:
        if progress.event == "fit-end" and not any(e.event == "fit-end" for e in events):
            wait_until(lambda: running(store))
            for child in psutil.Process().children():
                if "popen_loky" in " ".join(child.cmdline()):
                    child.kill()
        events.append(progress)

    comparison = compare(
        STUDY, out=tmp_path, tracking_uri=uri, experiment=experiment, jobs=2,
        on_progress=kill_one_that_works,
    )  # fmt: skip
    found = statuses(store)
    one_finished(found)
    assert sum(n for (_, status), n in found.items() if status == "KILLED") >= 1
    assert len(comparison.results) == 4
    assert comparison.failures.empty
    assert comparison.unrecorded.empty
    assert [e.event for e in events] == ["start", *["fit-end"] * 4, "end"]
    assert [e.running for e in events] == [2, 2, 2, 1, 0, 0]


@pytest.mark.processes
@pytest.mark.usefixtures("no_report", "no_figures")
def test_a_killed_driver_takes_its_workers_along_and_the_next_goes_on(
    uri: str, experiment: str, processes: Any, tmp_path: Path, statuses: Any,
    wait_until: Callable[..., None],
) -> None:  # fmt: skip
    store = prepare_store(uri, experiment)
    (tmp_path / "driver.py").write_text(DRIVER, encoding="utf-8")
    driver = processes.start("driver.py", uri, experiment, "jobs")
    # The third fit begins when one of the first two has ended, and has all its time before it:
    # workers look for their driver twice a second.
    wait_until(
        lambda: (len(store.runs(tags={"tsformer.kind": "fit"})) > 2 and running(store))
        or driver.poll() is not None
    )  # fmt: skip
    options: dict[str, Any] = {"tracking_uri": uri, "experiment": experiment}
    with pytest.raises(StudyBusyError, match=f"process {driver.pid}, since "):
        compare(STUDY, out=tmp_path / "refused", **options)
    assert not (tmp_path / "refused").exists()
    workers = psutil.Process(driver.pid).children()
    driver.kill()
    driver.wait()
    assert running(store)
    wait_until(lambda: not any(worker.is_running() for worker in workers), seconds=20)

    comparison = compare(STUDY, out=tmp_path / "out", **options)
    one_finished(statuses(store))
    assert len(comparison.results) == 4
    assert any(status == "KILLED" for _, status in statuses(store))


@pytest.mark.processes
def test_a_full_disk_under_the_store_loses_nothing(
    processes: Any, tmp_path: Path, statuses: Any
) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    store = prepare_store(uri)
    (tmp_path / "driver.py").write_text(DRIVER, encoding="utf-8")
    full = processes.start("driver.py", uri, "tsformer", "full")
    assert full.wait() == 0, processes.said(full)
    assert "unrecorded: 3" in processes.said(full)
    assert "the work itself continues" in processes.said(full)
    again = processes.start("driver.py", uri, "tsformer", "")
    assert again.wait() == 0, processes.said(again)
    assert "unrecorded: 0" in processes.said(again)
    one_finished(statuses(store), replace(STUDY, parameters=SHORT))
    rows = pd.read_csv(tmp_path / "out/results.csv")
    assert rows["run_id"].nunique() == 4
    assert not store.runs("RUNNING")


@pytest.mark.processes
def test_ctrl_c_in_many_processes_says_how_to_go_on(
    uri: str, processes: Any, tmp_path: Path, statuses: Any, wait_until: Callable[..., None]
) -> None:
    pytest.importorskip("typer", reason='needs the extra "cli"')
    store = prepare_store(uri, "ctrl-c")
    command = [
        "compare", "--datasets", "ItalyPowerDemand", "--encodings", "none,tape+erpe", "--seeds", 2,
        "--max-epochs", 500, "--jobs", 2, "--tracking-uri", uri, "--experiment", "ctrl-c",
    ]  # fmt: skip
    driver = processes.start("-m", "tsformer", *command)
    wait_until(lambda: len(running(store)) == 2 or driver.poll() is not None)
    children = psutil.Process(driver.pid).children()
    os.killpg(driver.pid, signal.SIGINT)  # as a terminal does
    assert driver.wait(timeout=60) == 130
    wait_until(lambda: not any(child.is_running() for child in children), seconds=20)
    assert {status for _, status in statuses(store)} == {"KILLED"}
    said = (tmp_path / "process-0.log").read_text()
    _, _, resume = said.partition("finished fits are kept; to resume:\n")
    assert f"tsformer {' '.join(map(str, command))}\n" in resume
    assert "Traceback" not in said
