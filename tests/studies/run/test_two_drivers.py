"""Two comparisons of the same fits at a time: the second is refused, and repeats nothing later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tsformer.studies import Study, compare
from tsformer.tracking import prepare_store
from tsformer.tracking.locks import driving

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("matplotlib", reason='needs the extra "plots"')

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "max_epochs": 60}
STUDY = Study(("ItalyPowerDemand",), ("none", "lspe"), seeds=1, parameters=SMALL)
DRIVER = f"""
import sys
from tsformer.studies import Study, compare

if __name__ == "__main__":
    compare(Study(**{STUDY.as_dict()!r}), out=sys.argv[2], tracking_uri=sys.argv[1])
"""


def test_a_second_driver_is_refused_before_it_touches_anything(
    uri: str, experiment: str, tmp_path: Path
) -> None:
    store = prepare_store(uri, experiment)
    run = store.start("of the first", kind="fit", key=STUDY.key(*STUDY.trials()[0]))
    told = pytest.raises(ConnectionError, match=r"first study, .* is writing to sqlite:///")
    with driving(store.uri, "first study"), told:
        compare(STUDY, out=tmp_path / "out", tracking_uri=uri, experiment=experiment)
    assert not run.ended()
    assert not (tmp_path / "out").exists()
    run.end("KILLED")


@pytest.mark.processes
def test_two_drivers_started_at_once_on_a_new_store(
    processes: Any, tmp_path: Path, statuses: Any, wait_until: Callable[..., None]
) -> None:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    (tmp_path / "driver.py").write_text(DRIVER, encoding="utf-8")
    drivers = [processes.start("driver.py", uri, f"out{i}") for i in range(2)]
    wait_until(lambda: all(driver.poll() is not None for driver in drivers))
    first, second = sorted(drivers, key=lambda driver: driver.returncode)
    assert first.returncode == 0, processes.said(first)
    assert second.returncode != 0
    assert f"ConnectionError: process {first.pid} on " in processes.said(second)
    found = statuses(prepare_store(uri))
    assert found == {(STUDY.key(*trial), "FINISHED"): 1 for trial in STUDY.trials()}

    again = compare(STUDY, out=tmp_path / "again", tracking_uri=uri)
    assert len(again.results) == 2
    assert statuses(prepare_store(uri)) == found, "the second repeats nothing"
