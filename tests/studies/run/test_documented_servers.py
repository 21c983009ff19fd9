"""The servers that the pages start, as written there: who can reach them, and who gets in."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tsformer import TSTransformerClassifier, load_dataset
from tsformer.cli import main

pytest.importorskip("mlflow", reason='needs the extra "tracking"')
pytest.importorskip("distributed", reason='needs the extra "dask"')
psutil = pytest.importorskip("psutil")

ROOT = Path(__file__).parents[3]
#: Of schedulers, their dashboards and MLflow's pages, as the pages have them.
PORTS = ("8786", "8787", "5000")


def commands(page: str, section: str = "") -> str:
    """Return the lines of the code blocks of a page, or of one of its sections."""
    text = (ROOT / page).read_text(encoding="utf-8")
    if section:
        text = text.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    indented = re.findall(r"^ {4}(.*)$", text, re.MULTILINE)
    fenced = re.findall(r"^```bash\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return "\n".join([*indented, *fenced]).replace("\\\n", " ")


def command(start: str, page: str, section: str = "") -> str:
    """Return the one command of a page that starts with these words."""
    (found,) = re.findall(rf"^{re.escape(start)}\b.*$", commands(page, section), re.MULTILINE)
    return str(found).removesuffix(" &")


def elsewhere(line: str, ports: dict[str, int]) -> str:
    """Replace the ports of a line."""
    for old, new in ports.items():
        line = line.replace(old, str(new))
    return line


def listening(process: subprocess.Popen[bytes]) -> set[tuple[str, int]]:
    """Return the addresses and ports at which a process and its children listen."""
    found = set()
    parent = psutil.Process(process.pid)
    for each in [parent, *parent.children(recursive=True)]:
        try:
            sockets = each.net_connections(kind="inet")
        except psutil.NoSuchProcess:
            continue
        found |= {tuple(s.laddr) for s in sockets if s.status == psutil.CONN_LISTEN}
    return found


def interfaces(process: subprocess.Popen[bytes]) -> set[str]:
    return {address for address, _ in listening(process)}


@pytest.fixture
def ports() -> dict[str, int]:
    """A free port for each that the pages name."""
    probes = {name: socket.create_server(("127.0.0.1", 0)) for name in PORTS}
    try:
        return {name: probe.getsockname()[1] for name, probe in probes.items()}
    finally:
        for probe in probes.values():
            probe.close()


def start_workers(
    line: str, number: int, processes: Any, wait_until: Callable[..., None], **variables: str
) -> subprocess.Popen[bytes]:
    """Start some workers in place of four, and wait until all are known to the scheduler."""
    assert "--nworkers 4" in line
    line = line.replace("--nworkers 4", f"--nworkers {number}")
    workers = processes.shell(line, **variables)
    wait_until(
        lambda: (
            workers.poll() is not None or processes.said(workers).count("Registered to:") == number
        )
    )
    assert workers.poll() is None, processes.said(workers)
    return workers


@pytest.mark.processes
def test_all_of_a_cluster_on_one_machine_listens_to_that_machine_only(
    processes: Any, ports: dict[str, int], wait_until: Callable[..., None]
) -> None:
    page = "docs/cluster.md"
    server = processes.shell(elsewhere(commands(page, "Where the runs go"), ports))
    line = elsewhere(command("dask scheduler", page, "The three commands"), ports)
    scheduler = processes.shell(line)
    line = elsewhere(command("dask worker", page, "The three commands"), ports)
    workers = start_workers(line, 2, processes, wait_until)
    wait_until(lambda: server.poll() is not None or listening(server))
    assert interfaces(server) == {"127.0.0.1"}
    assert {port for _, port in listening(scheduler)} == {ports["8786"], ports["8787"]}
    assert interfaces(scheduler) == {"127.0.0.1"}
    # A nanny, a worker and a dashboard for each.
    assert len(listening(workers)) == 6
    assert interfaces(workers) == {"127.0.0.1"}


@pytest.mark.processes
def test_models_are_served_to_this_machine_only(
    processes: Any, ports: dict[str, int], tmp_path: Path, wait_until: Callable[..., None],
    empty_store: Callable[[Path], str], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    empty_store(tmp_path / "mlflow.db")
    X, y = load_dataset("ItalyPowerDemand", split="train")
    TSTransformerClassifier("none", d_model=8, n_heads=1, max_epochs=1).fit(X, y).save(
        tmp_path / "model"
    )
    page = "docs/guide/serving.md"
    monkeypatch.chdir(tmp_path)
    for exported in command("export MLFLOW_TRACKING_URI", page).split()[1:]:
        monkeypatch.setenv(*exported.split("="))
    with pytest.raises(SystemExit) as ended:
        main(shlex.split(command("tsformer register", page))[1:])
    assert ended.value.code == 0
    port = ports["8786"]
    models = processes.shell(command("mlflow models serve", page).replace("5001", str(port)))
    wait_until(lambda: models.poll() is not None or listening(models))
    assert listening(models) == {("127.0.0.1", port)}, processes.said(models)
