"""The servers that the pages start, as written there: who can reach them, and who gets in."""

import re
import shutil
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from listening import listening, wait_until

from tsformer.studies import Study, compare

pytest.importorskip("distributed", reason='needs the extra "dask"')

ROOT = Path(__file__).parents[3]
#: Of schedulers, their dashboards and MLflow's pages, as the pages have them.
PORTS = ("8786", "8787", "5000")
COMMANDS = "The three commands"


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
    (line,) = re.findall(rf"^{re.escape(start)}\b.*$", commands(page, section), re.MULTILINE)
    return str(line).removesuffix(" &")


def elsewhere(line: str, ports: dict[str, int]) -> str:
    """Replace the ports of a line."""
    return re.sub("|".join(ports), lambda port: str(ports[port[0]]), line)


@pytest.fixture
def ports():
    """A free port for each that the pages name."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in PORTS]
        return {old: probe.getsockname()[1] for old, probe in zip(PORTS, probes, strict=True)}


def start_worker(line: str, processes: Any, **variables: str) -> subprocess.Popen[bytes]:
    """Start one worker in place of four, and wait until the scheduler knows it."""
    assert "--nworkers 4" in line
    worker = processes.shell(line.replace("--nworkers 4", "--nworkers 1"), **variables)
    wait_until(lambda: worker.poll() is not None or "Registered to:" in processes.said(worker))
    assert worker.poll() is None, processes.said(worker)
    return worker


@pytest.mark.processes
def test_all_of_a_cluster_on_one_machine_listens_to_that_machine_only(processes, ports):
    page = "docs/cluster.md"
    assert " --host 127.0.0.1 " in command("mlflow server", page, "Where the runs go") + " "
    scheduler = processes.shell(elsewhere(command("dask scheduler", page, COMMANDS), ports))
    worker = start_worker(elsewhere(command("dask worker", page, COMMANDS), ports), processes)
    assert listening(scheduler.pid) == {("127.0.0.1", ports[port]) for port in ("8786", "8787")}
    # A nanny, a worker and a dashboard.
    assert len(listening(worker.pid)) == 3
    assert {address for address, _ in listening(worker.pid)} == {"127.0.0.1"}


@pytest.mark.processes
def test_without_the_certificate_nobody_gets_into_a_cluster_of_several_machines(
    processes, ports, tmp_path, empty_store
):
    if shutil.which("openssl") is None:
        pytest.skip("needs openssl")
    page = "docs/cluster.md"
    lines = commands(page, "Several machines")
    made = processes.shell(lines.partition("\ndask scheduler")[0] + "\nenv", HOME=str(tmp_path))
    assert made.wait(timeout=240) == 0, processes.said(made)
    folder = tmp_path / "dask-tls"
    assert f"DASK_CONFIG={folder}\n" in processes.said(made)
    assert (folder / "key.pem").stat().st_mode & 0o077 == 0
    inside = {"DASK_CONFIG": str(folder)}

    def local(line: str) -> str:
        return elsewhere(line, ports).replace("login-node", "127.0.0.1")

    line = local(command("dask scheduler", page, "Several machines"))
    scheduler = processes.shell(line, **inside)
    line = local(command("dask worker", page, "Several machines"))
    start_worker(line, processes, **inside)
    dashboards = {(at, port) for at, port in listening(scheduler.pid) if port == ports["8787"]}
    assert dashboards == {("127.0.0.1", ports["8787"])}
    line = local(command("tsformer compare", page, "Several machines"))
    small = "--datasets ItalyPowerDemand --encodings none --seeds 1 --max-epochs 1"
    line = re.sub(r"--study \S+", small, line)
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    line = re.sub(r"--tracking-uri \S+", f"--tracking-uri {uri}", line)
    (scheduler_address,) = re.findall(r"tls://\S+", line)
    study = Study(("ItalyPowerDemand",), ("none",), seeds=1)
    for address in (scheduler_address, scheduler_address.replace("tls://", "tcp://")):
        with pytest.raises(ConnectionError):
            compare(study, out=tmp_path / "refused", tracking_uri=uri, scheduler=address)
    assert not (tmp_path / "mlflow.db").exists()
    empty_store(tmp_path / "mlflow.db")
    welcome = processes.shell(line, **inside)
    assert welcome.wait(timeout=300) == 0, processes.said(welcome)
    assert (tmp_path / "results/compare/results.csv").read_text().count("\n") == 2
