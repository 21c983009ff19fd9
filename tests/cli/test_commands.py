"""Commands with their output, their files and their exit codes."""

from __future__ import annotations

import csv
import json
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cli_process import COMMAND

from tsformer import TSTransformerClassifier, load, load_dataset
from tsformer.cli import main
from tsformer.encodings import names
from tsformer.tracking import prepare_store

for library in ("typer", "rich", "sktime", "mlflow", "matplotlib"):
    pytest.importorskip(library, reason='needs the extra "all"')

Run = Callable[..., tuple[str, str]]
SMALL = ("--set", "n_layers=1", "--set", "d_model=8")
FIT = (
    "fit", "ItalyPowerDemand", "--encoding", "tape+erpe", "--out", "model", "--max-epochs", "2",
    "--seed", "3", *SMALL, "--set", "stem_params.kernel_size=5",
)  # fmt: skip
STUDY = (
    "compare", "--datasets", "ItalyPowerDemand", "--encodings", "none,lspe", "--seeds", "1",
    "--max-epochs", "2", "--out", "out", *SMALL,
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(
    tmp_path_factory: pytest.TempPathFactory, empty_store: Callable[[Path], str]
) -> Iterator[Path]:
    """A working folder of all tests here."""
    folder = tmp_path_factory.mktemp("cli")
    empty_store(folder / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


@pytest.fixture
def tsformer(folder: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command in the folder, in this process; return standard output and error."""

    def run(*arguments: str, exits: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        printed = capsys.readouterr()
        assert (stopped.value.code or 0) == exits, printed.err
        return printed.out, printed.err

    return run


@pytest.mark.slow
def test_fit_passes_every_option_on_and_evaluate_prints_the_accuracy(tsformer: Run) -> None:
    printed, _ = tsformer(*FIT)
    assert "tape+erpe on ItalyPowerDemand: 67 series, 2 epochs" in printed
    assert "next: tsformer evaluate model ItalyPowerDemand" in printed
    classifier = load("model")
    assert classifier.encoding == "tape+erpe"
    assert classifier.n_iter_ == 2
    assert classifier.random_state == 3
    assert classifier.n_layers == 1
    assert classifier.stem_params == {"kernel_size": 5}
    accuracy = classifier.score(*load_dataset("ItalyPowerDemand", split="test"))
    printed, _ = tsformer("evaluate", "model", "ItalyPowerDemand")
    assert "1029 test series of ItalyPowerDemand" in printed
    (line,) = [line for line in printed.splitlines() if line.strip().startswith("accuracy")]
    assert float(line.split()[1]) == pytest.approx(accuracy, abs=5e-5)


@pytest.mark.slow
def test_compare_ends_with_table_files_and_address(folder: Path, tsformer: Run) -> None:
    out, err = tsformer(*STUDY)
    for encoding in ("none", "lspe"):
        (line,) = [row for row in out.splitlines() if encoding in row.split()]
        assert "ItalyPowerDemand" in line
        assert f"ItalyPowerDemand  {encoding}  0  accuracy 0." in err
    assert "Downloading" not in err, "bars of MLflow in the middle of ours"
    assert "table   out/results.csv" in out
    assert "figure  out/comparison.png" in out
    assert "report  out/report/report.html" in out
    assert "\ntsformer report out\n" in (folder / "out/report/report.md").read_text()
    assert out.endswith("runs    tsformer ui\n")
    with (folder / "out/results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["encoding"], row["seed"]) for row in rows] == [("none", "0"), ("lspe", "0")]
    assert (folder / "out/comparison.png").read_bytes().startswith(b"\x89PNG")


#: MLflow's telemetry is off where one of these is set.
TESTING = ("PYTEST_CURRENT_TEST", "CI", "GITHUB_ACTIONS", "JENKINS_URL", "DO_NOT_TRACK")


@pytest.mark.slow
def test_pages_are_served_to_this_machine_only_and_send_no_telemetry(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    psutil = pytest.importorskip("psutil")
    with prepare_store(f"sqlite:///{folder / 'mlflow.db'}").start("fit", kind="fit") as run:
        run.params({"encoding": "none"})
    for variable in (*TESTING, "MLFLOW_DISABLE_TELEMETRY"):
        monkeypatch.delenv(variable, raising=False)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*COMMAND, "ui", "--port", str(port)]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        address = next(line for line in server.stdout if "http://" in line).split()[-1]
        assert address.startswith(f"http://127.0.0.1:{port}/")
        pages = address.partition("#")[0]
        with urllib.request.urlopen(pages, timeout=60) as answer:
            assert "MLflow" in answer.read().decode(), "it answers when its address is printed"
        with urllib.request.urlopen(
            f"{pages}ajax-api/3.0/mlflow/ui-telemetry", timeout=60
        ) as answer:
            assert json.load(answer)["disable_ui_telemetry"] is True
        parent = psutil.Process(server.pid)
        processes = [parent, *parent.children(recursive=True)]
        sockets = [s for each in processes for s in each.net_connections(kind="inet")]
        listening = {tuple(s.laddr) for s in sockets if s.status == psutil.CONN_LISTEN}
        assert listening == {("127.0.0.1", port)}
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=60)


@pytest.mark.slow
def test_ctrl_c_stops_a_comparison_with_one_line_and_keeps_what_is_done(
    folder: Path, tsformer: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict, calls = TSTransformerClassifier.predict_proba, []

    def press_in_the_second_fit(self: TSTransformerClassifier, *X: object) -> object:
        calls.append(X)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return predict(self, *X)

    monkeypatch.setattr(TSTransformerClassifier, "predict_proba", press_in_the_second_fit)
    # A program that a shell starts in the background ignores Ctrl-C.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    study = ("compare", "--datasets", "ItalyPowerDemand", "--seeds", "9", "--max-epochs", "1")
    try:
        _, err = tsformer(*study, *SMALL, exits=130)
    finally:
        signal.signal(signal.SIGINT, before)
    first = next(line for line in err.splitlines() if "accuracy" in line)
    assert first.startswith("ItalyPowerDemand  none  0  accuracy")
    assert err.splitlines()[-1] == "tsformer: stopped by Ctrl-C"
    assert "Traceback" not in err
    with (folder / "results/compare/results.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 1


def test_encodings_and_datasets_fit_a_terminal_of_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    encodings, datasets = run("encodings")[0], run("datasets", "--available")[0]
    for name in names():
        assert f"\n{name} " in encodings
    for name in ("BasicMotions", "ItalyPowerDemand", "JapaneseVowels"):
        assert f"\n{name} " in datasets
    assert max(len(line) for line in (encodings + datasets).splitlines()) <= 80
