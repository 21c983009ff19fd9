"""The command line, as a user meets it: a process, its output, its exit code."""

from __future__ import annotations

import csv
import signal
import socket
import subprocess
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_process import COMMAND, tsformer

from tsformer import load, load_dataset
from tsformer.encodings import names

for library in ("typer", "rich", "sktime", "mlflow", "matplotlib"):
    pytest.importorskip(library, reason='needs the extra "all"')


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, empty_store: Callable[[Path], str]) -> Path:
    """A working folder that holds a model, fitted by the command line."""
    folder = tmp_path_factory.mktemp("cli")
    empty_store(folder / "mlflow.db")
    done = tsformer(
        "fit", "ItalyPowerDemand", "--encoding", "tape+erpe", "--out", "model",
        "--max-epochs", 2, "--seed", 3, "--set", "n_layers=1", "--set", "stem_params.kernel_size=5",
        cwd=folder,
    )  # fmt: skip
    assert "tape+erpe on ItalyPowerDemand: 67 series, 2 epochs" in done.stdout
    assert "next: tsformer evaluate model ItalyPowerDemand" in done.stdout
    return folder


@pytest.mark.slow
def test_fit_passes_every_option_on_and_evaluate_prints_the_accuracy(folder):
    classifier = load(folder / "model")
    assert classifier.encoding == "tape+erpe"
    assert classifier.n_iter_ == 2
    assert classifier.random_state == 3
    assert classifier.n_layers == 1
    assert classifier.stem_params == {"kernel_size": 5}
    accuracy = classifier.score(*load_dataset("ItalyPowerDemand", split="test"))
    printed = tsformer("evaluate", "model", "ItalyPowerDemand", cwd=folder).stdout
    assert "1029 test series of ItalyPowerDemand" in printed
    (line,) = [line for line in printed.splitlines() if line.strip().startswith("accuracy")]
    assert float(line.split()[1]) == pytest.approx(accuracy, abs=5e-5)


STUDY = (
    "compare", "--datasets", "ItalyPowerDemand", "--encodings", "none,lspe", "--seeds", "1",
    "--max-epochs", 2, "--out", "out", "--set", "n_layers=1",
)  # fmt: skip


@pytest.mark.slow
def test_compare_ends_with_table_files_and_address_and_goes_on_where_it_was(folder):
    done = tsformer(*STUDY, cwd=folder)
    for encoding in ("none", "lspe"):
        (line,) = [row for row in done.stdout.splitlines() if encoding in row.split()]
        assert "ItalyPowerDemand" in line
        assert f"ItalyPowerDemand  {encoding}  0  accuracy 0." in done.stderr
    assert "Downloading" not in done.stderr, "bars of MLflow in the middle of ours"
    assert "table   out/results.csv" in done.stdout
    assert "figure  out/comparison.png" in done.stdout
    assert "report  out/report/report.html" in done.stdout
    assert "\ntsformer report out\n" in (folder / "out/report/report.md").read_text()
    assert done.stdout.endswith("runs    tsformer ui\n")
    with (folder / "out/results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["encoding"], row["seed"]) for row in rows] == [("none", "0"), ("lspe", "0")]
    assert (folder / "out/comparison.png").read_bytes().startswith(b"\x89PNG")

    again = tsformer(*STUDY, "--seeds", "0,4", cwd=folder)
    assert "none  0  accuracy" not in again.stderr  # done before
    assert "none  4  accuracy" in again.stderr

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*COMMAND, "ui", "--port", str(port)]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        address = next(line for line in server.stdout if "http://" in line).split()[-1]
        assert address.startswith(f"http://127.0.0.1:{port}/")
        with urllib.request.urlopen(address.partition("#")[0], timeout=20) as answer:
            assert "MLflow" in answer.read().decode(), "it answers when its address is printed"
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)


@pytest.mark.slow
def test_ctrl_c_stops_a_comparison_with_one_line_and_keeps_what_is_done(folder):
    study = ["compare", "--datasets", "ItalyPowerDemand", "--seeds", "9", "--max-epochs", "9"]
    # In the folder, and store, of the test above: to make another store takes seconds.
    process = subprocess.Popen([*COMMAND, *study], cwd=folder, stderr=subprocess.PIPE, text=True)
    first = next(line for line in process.stderr if "accuracy" in line)
    assert first.startswith("ItalyPowerDemand  none  0  accuracy")
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=60)
    assert process.returncode == 130
    assert rest.splitlines()[-1] == "tsformer: stopped by Ctrl-C"
    assert "Traceback" not in rest
    with (folder / "results/compare/results.csv").open(encoding="utf-8") as file:
        n_done = len(list(csv.DictReader(file)))
    assert 1 <= n_done < 36


def test_encodings_and_datasets_fit_a_terminal_of_80_columns(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    encodings, datasets = run("encodings")[0], run("datasets", "--available")[0]
    for name in names():
        assert f"\n{name} " in encodings
    for name in ("BasicMotions", "ItalyPowerDemand", "JapaneseVowels"):
        assert f"\n{name} " in datasets
    assert max(len(line) for line in (encodings + datasets).splitlines()) <= 80
