"""compare() in many processes, killed in its middle: every fit is done, and recorded once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from joblib.externals.loky import get_reusable_executor

from tsformer.encodings import unregister
from tsformer.studies import Progress, Study, compare
from tsformer.tracking import RunStore, prepare_store

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')

# Long enough to be met in the middle.
SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 120}
STUDY = Study(("ItalyPowerDemand",), ("none", "tape+erpe"), seeds=2, parameters=SMALL)
DRIVER = f"""
import sys
from tsformer.studies import Study, compare

if __name__ == "__main__":
    study = Study(**{STUDY.as_dict()!r})
    compare(study, out="out", tracking_uri=sys.argv[1], experiment=sys.argv[2], jobs=2)
"""
POISON = """
import os
import signal

from tsformer.encodings import PositionalEncoding


class Poison(PositionalEncoding, name="poison"):
    def __init__(self, *, d_model, n_heads, max_len):
        super().__init__()

    def embed(self, x, t):
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(autouse=True)
def no_workers_left() -> Iterator[None]:
    yield
    get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def running(store: RunStore) -> list[Any]:
    return store.runs("RUNNING", {"tsformer.kind": "fit"})


def one_finished(statuses: Any, study: Study = STUDY) -> None:
    """Assert that every fit has one FINISHED run, and that none is left RUNNING."""
    finished = {key: n for (key, status), n in statuses.items() if status == "FINISHED"}
    assert finished == {study.key(*trial): 1 for trial in study.trials()}
    assert {status for _, status in statuses} <= {"FINISHED", "KILLED"}


@pytest.mark.processes
def test_a_killed_worker(
    uri: str, experiment: str, tmp_path: Path, statuses: Any, wait_until: Callable[..., None]
) -> None:
    store = prepare_store(uri, experiment)
    events: list[Progress] = []

    def kill_one_that_works(progress: Progress) -> None:
        if progress.event == "fit-end" and not any(e.event == "fit-end" for e in events):
            wait_until(lambda: running(store))
            os.kill(next(iter(get_reusable_executor(reuse=True)._processes)), signal.SIGKILL)
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
def test_a_fit_that_always_kills_its_worker_fails_and_the_others_go_on(
    uri: str, experiment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statuses: Any
) -> None:
    (tmp_path / "poison.py").write_text(POISON, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("poison")
    try:
        parameters = {**SMALL, "max_epochs": 5}
        study = Study(("ItalyPowerDemand",), ("poison", "none"), seeds=1, parameters=parameters)
        comparison = compare(study, out=tmp_path, tracking_uri=uri, experiment=experiment, jobs=2)
    finally:
        unregister("poison")
        del sys.modules["poison"]
    (failure,) = comparison.failures.to_dict("records")
    assert failure["encoding"] == "poison"
    assert "ended 3 times during this fit" in failure["error"]
    assert comparison.results["encoding"].tolist() == ["none"]
    found = statuses(prepare_store(uri, experiment))
    poison, none = (study.key(*trial) for trial in study.trials())
    assert found[poison, "KILLED"] == 3
    assert found[poison, "FAILED"] == 1
    assert found[none, "FINISHED"] == 1
    assert not any(status == "RUNNING" for _, status in found)


@pytest.mark.processes
def test_a_killed_driver_takes_its_workers_along_and_the_next_goes_on(
    uri: str, experiment: str, processes: Any, tmp_path: Path, statuses: Any,
    wait_until: Callable[..., None],
) -> None:  # fmt: skip
    psutil = pytest.importorskip("psutil")
    store = prepare_store(uri, experiment)
    (tmp_path / "driver.py").write_text(DRIVER, encoding="utf-8")
    driver = processes.start("driver.py", uri, experiment)
    # The third fit begins when one of the first two has ended, and has all its time before it:
    # workers look for their driver twice a second.
    wait_until(
        lambda: (len(store.runs(tags={"tsformer.kind": "fit"})) > 2 and running(store))
        or driver.poll() is not None
    )  # fmt: skip
    workers = psutil.Process(driver.pid).children()
    driver.kill()
    driver.wait()
    assert running(store)
    wait_until(lambda: not any(worker.is_running() for worker in workers), seconds=20)

    comparison = compare(
        STUDY, out=tmp_path / "out", tracking_uri=uri, experiment=experiment, jobs=2
    )
    one_finished(statuses(store))
    assert len(comparison.results) == 4
    assert any(status == "KILLED" for _, status in statuses(store))


@pytest.mark.processes
def test_ctrl_c_in_many_processes_says_how_to_go_on(
    uri: str, processes: Any, tmp_path: Path, statuses: Any, wait_until: Callable[..., None]
) -> None:
    psutil = pytest.importorskip("psutil")
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
