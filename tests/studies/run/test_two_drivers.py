"""Real comparisons of the same fits at once: they share the work, also when one is killed."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tsformer.studies import Study
from tsformer.tracking import RunStore, prepare_store

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 20}
STUDY = Study(("ItalyPowerDemand",), ("none", "tape", "lspe"), seeds=4, parameters=SMALL)
KEYS = [STUDY.key(*trial) for trial in STUDY.trials()]
LEASE_SECONDS = 20
DRIVER = f"""
import os, signal, socket, sys
import tsformer.tracking.leases

if "elsewhere" in sys.argv:
    socket.gethostname = lambda: "elsewhere"
    tsformer.tracking.leases.LEASE_SECONDS = {LEASE_SECONDS}.0

from tsformer import TSTransformerClassifier
from tsformer.studies import Study, compare

fit, left = TSTransformerClassifier.fit, 2

def fit_or_die(classifier, X, y):
    global left
    if classifier.max_epochs == {SMALL["max_epochs"]}:  # a fit of the study, not to get warm
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
    return fit(classifier, X, y)

if "dies" in sys.argv:
    TSTransformerClassifier.fit = fit_or_die
if __name__ == "__main__":
    compare(Study(**{STUDY.as_dict()!r}), out=sys.argv[2], tracking_uri=sys.argv[1])
"""


@pytest.fixture
def start(processes: Any, tmp_path: Path) -> Callable[..., Any]:
    """Start a driver on a store, which writes to a folder; of another machine, to die, or not."""
    (tmp_path / "driver.py").write_text(DRIVER, encoding="utf-8")
    return lambda *arguments: processes.start("driver.py", *arguments)


def of(driver: Any, store: RunStore, status: str) -> int:
    """Return how many fits of a driver have this status."""
    processes = [
        json.loads(run.data.tags["tsformer.process"])
        for run in store.runs(status, {"tsformer.kind": "fit"})
    ]
    return sum(process["pid"] == driver.pid for process in processes)


def complete(folder: Path) -> None:
    rows = pd.read_csv(folder / "results.csv")
    assert len(rows) == 12
    assert len(rows.drop_duplicates(["encoding", "seed"])) == 12
    assert rows["accuracy"].notna().all()


@pytest.mark.processes
@pytest.mark.parametrize("out", ["apart", "together"])
def test_two_that_are_started_at_once_on_a_new_store(
    out: str, start: Any, processes: Any, tmp_path: Path, statuses: Any,
    wait_until: Callable[..., None],
) -> None:  # fmt: skip
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    folders = ["out", "out2" if out == "apart" else "out"]
    drivers = [start(uri, folder) for folder in folders]
    wait_until(lambda: all(driver.poll() is not None for driver in drivers), seconds=280)
    for driver, folder in zip(drivers, folders, strict=True):
        assert driver.returncode == 0, processes.said(driver)
        complete(tmp_path / folder)
    store = prepare_store(uri)
    assert statuses(store) == {(key, "FINISHED"): 1 for key in KEYS}
    shares = [of(driver, store, "FINISHED") for driver in drivers]
    assert sum(shares) == 12
    assert min(shares) >= 1
    # Both have written what the study and its encodings show.
    kinds = Counter(run.data.tags["tsformer.kind"] for run in store.runs("FINISHED"))
    assert kinds == {"fit": 12, "study": 1, "encoding": 3}


@pytest.mark.processes
@pytest.mark.parametrize("kind", ["file", "server"])
def test_one_of_two_is_killed_in_the_middle_of_a_fit(
    kind: str, start: Any, processes: Any, port: int, tmp_path: Path, statuses: Any,
    wait_until: Callable[..., None],
) -> None:  # fmt: skip
    address = f"sqlite:///{tmp_path}/mlflow.db"
    if kind == "server":
        processes.server(port)
        address = f"http://127.0.0.1:{port}"
    store = prepare_store(address)
    drivers = [start(address, f"out{i}") for i in range(2)]
    killed, survivor = drivers

    def in_the_middle() -> bool:
        at_it = of(killed, store, "RUNNING") and of(killed, store, "FINISHED")
        return bool(at_it and of(survivor, store, "FINISHED")) or killed.poll() is not None

    wait_until(in_the_middle, seconds=280)
    assert killed.poll() is None, processes.said(killed)
    processes.kill(killed)
    wait_until(lambda: survivor.poll() is not None, seconds=280)
    assert survivor.returncode == 0, processes.said(survivor)
    complete(tmp_path / "out1")
    found = statuses(store)
    assert {key: found[key, "FINISHED"] for key in KEYS} == dict.fromkeys(KEYS, 1)
    assert {status for _, status in found} <= {"FINISHED", "KILLED"}
    assert of(killed, store, "KILLED") <= 1
    assert of(killed, store, "FINISHED") >= 1


@pytest.mark.processes
def test_what_a_machine_that_died_had_is_taken_over_after_its_silence(
    start: Any, processes: Any, tmp_path: Path, statuses: Any, wait_until: Callable[..., None]
) -> None:
    address = f"sqlite:///{tmp_path}/mlflow.db"
    store = prepare_store(address)
    killed = start(address, "out0", "elsewhere", "dies")
    wait_until(lambda: killed.poll() is not None, seconds=280)
    assert killed.returncode == -signal.SIGKILL, processes.said(killed)
    assert (of(killed, store, "FINISHED"), of(killed, store, "RUNNING")) == (2, 1)
    (left,) = store.runs("RUNNING", {"tsformer.kind": "fit"})
    survivor = start(address, "out1")
    wait_until(lambda: survivor.poll() is not None, seconds=280)
    assert survivor.returncode == 0, processes.said(survivor)
    complete(tmp_path / "out1")
    key = left.data.tags["tsformer.key"]
    expected = {(each, "FINISHED"): 1 for each in KEYS}
    assert statuses(store) == {**expected, (key, "KILLED"): 1}
    (taken,) = store.runs("FINISHED", {"tsformer.kind": "fit", "tsformer.key": key})
    assert of(survivor, store, "FINISHED") == 10
    # It listens once all others are done.
    fits = store.runs("FINISHED", {"tsformer.kind": "fit"})
    ended = max(run.info.end_time for run in fits if run.info.run_id != taken.info.run_id)
    assert (taken.info.start_time - ended) / 1000 >= LEASE_SECONDS
