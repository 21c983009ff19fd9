"""compare() with a real tracking server that is killed, and with a scheduler that refuses."""

from __future__ import annotations

from typing import Any

import pytest
from run_once import assert_finished_once, statuses

from tsformer.studies import Progress, Study, compare
from tsformer.studies.run.executors import cluster
from tsformer.tracking import prepare_store

SMALL = {"d_model": 8, "n_heads": 2, "n_layers": 1, "stem": "linear", "max_epochs": 10}
STUDY = Study(("ItalyPowerDemand",), ("none", "tape+erpe"), seeds=2, parameters=SMALL)


@pytest.mark.processes
@pytest.mark.usefixtures("no_report")
def test_a_tracking_server_that_goes_away_and_comes_back(processes, port, experiment, tmp_path):
    keys = [STUDY.key(*trial) for trial in STUDY.trials()]
    address = f"http://127.0.0.1:{port}"
    servers = [processes.server(port)]

    def kill_and_start_again(progress: Progress) -> None:
        if progress.event == "epoch" and progress.done == 1 and progress.epoch == 5:
            processes.kill(servers[0])
        if progress.event == "fit-end" and progress.done == 3:
            servers.append(processes.server(port))

    options: dict[str, Any] = {
        "out": tmp_path / "out", "tracking_uri": address, "experiment": experiment,
    }  # fmt: skip
    with pytest.warns(UserWarning, match="tracking of .* stopped; the work itself continues"):
        comparison = compare(STUDY, on_progress=kill_and_start_again, **options)
    assert len(comparison.results) == 4, "a server that is away fails no fit"
    assert comparison.failures.empty
    away = comparison.unrecorded[["encoding", "seed"]].to_numpy().tolist()
    assert away == [["tape+erpe", 0], ["none", 1]]
    store = prepare_store(address, experiment)
    done = {key for (key, status), _ in statuses(store).items() if status == "FINISHED"}
    assert done == {keys[0], keys[3]}

    again = compare(STUDY, **options)
    assert again.unrecorded.empty
    assert len(again.results) == 4
    assert_finished_once(store, STUDY)


def test_a_client_without_a_certificate_is_closed(port, monkeypatch):
    """Otherwise the garbage collector closes it, in the thread of the next client."""
    distributed = pytest.importorskip("distributed", reason='needs the extra "dask"')
    close = distributed.Client.close
    closed: list[str] = []

    def recorded(client: Any) -> None:
        close(client)
        closed.append(client.status)

    monkeypatch.setattr(distributed.Client, "close", recorded)
    address = f"tls://127.0.0.1:{port}"
    with pytest.raises(ConnectionError) as raised, cluster(address):
        pass
    assert closed == ["closed"]
    assert f"no Dask scheduler lets this process in at {address!r}" in str(raised.value)
