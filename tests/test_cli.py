"""The command line, as a user meets it: a process, its output, its exit code."""

from __future__ import annotations

import csv
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from tsformer.cli import main

for library in ("typer", "rich", "sktime", "mlflow", "matplotlib"):
    pytest.importorskip(library, reason='needs the extra "all"')

COMMAND = [sys.executable, "-m", "tsformer"]
TOY = """@problemName Toy
@timeStamps false
@univariate true
@equalLength true
@seriesLength 24
@classLabel true 1 2
@data
"""


def tsformer(*args: object, cwd: Path, exits: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == exits, done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A working folder that holds a model, fitted by the command line."""
    folder = tmp_path_factory.mktemp("cli")
    done = tsformer(
        "fit", "ItalyPowerDemand", "--encoding", "tape+erpe", "--out", "model",
        "--max-epochs", 2, "--seed", 3, "--set", "n_layers=1", "--set", "stem_params.kernel_size=5",
        cwd=folder,
    )  # fmt: skip
    assert "tape+erpe on ItalyPowerDemand: 67 series, 2 epochs" in done.stdout
    assert "next: tsformer evaluate model ItalyPowerDemand" in done.stdout
    return folder


@pytest.fixture
def error(capsys, monkeypatch, tmp_path):
    """Run a command that must fail, in this process for speed, and return its one line."""
    monkeypatch.chdir(tmp_path)

    def run(*args: object) -> str:
        with pytest.raises(SystemExit) as stopped:
            main([str(arg) for arg in args])
        assert stopped.value.code == 2
        line, end, rest = capsys.readouterr().err.partition("\n")
        assert (end, rest) == ("\n", "")
        assert line.startswith("tsformer: ")
        return line.removeprefix("tsformer: ")

    return run


# --- one model ---------------------------------------------------------------------------------


def test_fit_passes_every_option_on(folder):
    from tsformer import load

    classifier = load(folder / "model")
    assert classifier.encoding == "tape+erpe"
    assert classifier.n_iter_ == 2
    assert classifier.random_state == 3
    assert classifier.n_layers == 1
    assert classifier.stem_params == {"kernel_size": 5}


def test_predict_writes_what_the_model_predicts(folder):
    from tsformer import load, load_dataset

    X, y = load_dataset("ItalyPowerDemand", split="test")
    X, y = X[:5], y[:5]
    lines = [
        ",".join(map(repr, x[0].tolist())) + f":{label}" for x, label in zip(X, y, strict=True)
    ]
    (folder / "new.ts").write_text(TOY + "\n".join(lines) + "\n", encoding="utf-8")
    classifier = load(folder / "model")

    printed = tsformer("predict", "model", "new.ts", cwd=folder).stdout
    rows = list(csv.DictReader(printed.splitlines()))
    assert [row["label"] for row in rows] == list(classifier.predict(X))
    assert [row["series"] for row in rows] == ["0", "1", "2", "3", "4"]

    done = tsformer("predict", "model", "new.ts", "--proba", "--out", "p.csv", cwd=folder)
    assert done.stdout == "5 predictions written to p.csv\n"
    with (folder / "p.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for row, expected in zip(rows, classifier.predict_proba(X), strict=True):
        assert [float(row["p(1)"]), float(row["p(2)"])] == pytest.approx(expected, abs=1e-5)


def test_evaluate_prints_the_accuracy_on_the_test_split(folder):
    from tsformer import load, load_dataset

    accuracy = load(folder / "model").score(*load_dataset("ItalyPowerDemand", split="test"))
    printed = tsformer("evaluate", "model", "ItalyPowerDemand", cwd=folder).stdout
    assert "1029 test series of ItalyPowerDemand" in printed
    (line,) = [line for line in printed.splitlines() if line.strip().startswith("accuracy")]
    assert float(line.split()[1]) == pytest.approx(accuracy, abs=5e-5)


# --- many models -------------------------------------------------------------------------------

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
    assert "table   out/results.csv" in done.stdout
    assert "figure  out/comparison.png" in done.stdout
    assert f"--backend-store-uri sqlite:///{folder}/mlflow.db" in done.stdout
    with (folder / "out/results.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["encoding"], row["seed"]) for row in rows] == [("none", "0"), ("lspe", "0")]
    assert (folder / "out/comparison.png").read_bytes().startswith(b"\x89PNG")

    again = tsformer(*STUDY, "--seeds", "0,4", cwd=folder)
    assert "none  0  accuracy" not in again.stderr  # done before
    assert "none  4  accuracy" in again.stderr

    port = free_port()
    server = subprocess.Popen([*COMMAND, "ui", "--port", str(port)], cwd=folder)
    try:
        assert "MLflow" in page(f"http://127.0.0.1:{port}", server)
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


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def page(address: str, server: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                return answer.read().decode()
        except OSError:  # not up yet
            time.sleep(0.5)
    raise AssertionError(f"no page at {address}; the server's exit code is {server.poll()}")


# --- what there is -----------------------------------------------------------------------------


def test_encodings_and_datasets_fit_a_terminal_of_80_columns(tmp_path):
    from tsformer.encodings import names

    encodings = tsformer("encodings", cwd=tmp_path).stdout
    for name in names():
        assert f"\n{name} " in encodings
    datasets = tsformer("datasets", "--available", cwd=tmp_path).stdout
    for name in ("BasicMotions", "ItalyPowerDemand", "JapaneseVowels"):
        assert f"\n{name} " in datasets
    assert max(len(line) for line in (encodings + datasets).splitlines()) <= 80


def test_plot_encoding_draws_it(tmp_path):
    done = tsformer("plot-encoding", "fixed", "--length", 16, "--set", "base=10", cwd=tmp_path)
    assert done.stdout == "fixed drawn in encoding_fixed.png\n"
    assert (tmp_path / "encoding_fixed.png").read_bytes().startswith(b"\x89PNG")


# --- help, errors, interruption ----------------------------------------------------------------


def test_help_has_examples_and_is_quick(tmp_path):
    commands = [
        "fit", "predict", "evaluate", "compare", "ui", "encodings", "plot-encoding", "datasets"
    ]  # fmt: skip
    overview = tsformer(cwd=tmp_path).stdout
    for command in commands:
        assert f" {command} " in overview
        _, examples, shown = tsformer(command, "--help", cwd=tmp_path).stdout.partition("Example")
        assert f" tsformer {command}" in examples + shown
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "tsformer", "--help"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert "typer" in loaded
    for library in ("torch", "pandas", "mlflow", "sktime"):
        assert f" {library}\n" not in loaded


def test_version(tmp_path):
    import tsformer as package

    assert tsformer("--version", cwd=tmp_path).stdout == f"tsformer {package.__version__}\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("fti BasicMotions", "No such command 'fti'. Did you mean 'fit'? (see tsformer --help)"),
        ("fit", "Missing argument 'dataset'. (see tsformer fit --help)"),
        ("fit BasicMotions --encodng lspe", "No such option: --encodng"),
        ("fit BasicMotion", "did you mean 'BasicMotions'?"),
        ("fit ../BasicMotions", "'../BasicMotions'"),
        ("fit BasicMotions --encoding lpse", "unknown encoding 'lpse': did you mean 'lspe'?"),
        (
            "fit BasicMotions --set n_layer=2",
            "unknown parameter 'n_layer': did you mean 'n_layers'",
        ),
        ("fit BasicMotions --set n_layers", "--set takes name=value"),
        ("fit BasicMotions --set n_layers=two", "n_layers must be an int >= 0; got 'two'"),
        ("fit BasicMotions --max-epochs 0", "max_epochs must be an int >= 1, or 'auto'; got 0"),
        ("fit BasicMotions --out file.txt", "file.txt exists and is not a saved estimator"),
        ("fit BasicMotions --out .", ". exists and is not a saved estimator; choose another path"),
        ("compare --datasets BasicMotions --encodings none,lpse", "did you mean 'lspe'?"),
        ("compare --datasets BasicMotions --seeds two", "--seeds takes a number of seeds"),
        ("compare --datasets BasicMotions --set stm=conv", "did you mean 'stem'?"),
        ("compare --datasets Nothing,BasicMotions", "'Nothing'"),
        ("predict nothing new.ts", "there is no saved estimator at nothing"),
        ("evaluate nothing BasicMotions", "there is no saved estimator at nothing"),
        ("plot-encoding lpse", "unknown encoding 'lpse': did you mean 'lspe'?"),
        ("plot-encoding fixed --set bas=2", "did you mean 'base'?"),
        ("plot-encoding fixed --set d_model=32", "set d_model by --d-model 32"),
        ("plot-encoding fixed --heads 3", "heads must divide d_model; got 3 heads, d_model=64"),
        ("plot-encoding fixed --length 0", "'--length'"),
        ("plot-encoding fixed --out x.tiiff", "Format 'tiiff' is not supported"),
        ("plot-encoding fixed --out nowhere/x.png", "nowhere/x.png: No such file or directory"),
        ("plot-encoding fixed --out .", ". is a folder; name the picture"),
        ("ui", "mlflow.db; go to the folder where `tsformer compare` ran"),
    ],
)
def test_error_is_one_line_that_says_what_to_do(command, says, error, tmp_path):
    (tmp_path / "file.txt").touch()
    assert says in error(*command.split())


def test_error_names_the_broken_line_of_a_file(error, folder, tmp_path):
    model = folder / "model"
    assert error("predict", model, "new.ts") == "new.ts: No such file or directory"
    values = ",".join(["0.5"] * 24)
    (tmp_path / "new.ts").write_text(f"{TOY}{values}:1\n{values[:-9]}x:1\n", encoding="utf-8")
    message = error("predict", model, "new.ts")
    assert "new.ts" in message
    assert "line 9" in message


@pytest.mark.parametrize("arguments", [["--debug", "ui"], ["ui", "--debug"]])
def test_debug_shows_the_traceback(arguments, tmp_path):
    done = tsformer(*arguments, cwd=tmp_path, exits=1)
    assert done.stderr.startswith("Traceback")
    assert "FileNotFoundError" in done.stderr


def test_a_reader_that_leaves_early_is_no_error(tmp_path):
    done = subprocess.run(
        f"{sys.executable} -m tsformer datasets | head -n 1",
        shell=True,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("text", "expected"), [("3", (0, 1, 2)), ("0,1,2", (0, 1, 2)), ("7,", (7,)), (" 4, 9 ", (4, 9))]
)
def test_seeds(text, expected):
    from tsformer.cli.parsing import seeds

    assert seeds(text) == expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        (["stem=linear"], {"stem": "linear"}),
        (["scaling=None", "dropout=.2"], {"scaling": None, "dropout": 0.2}),
        (["encoding_params={'base': 10}"], {"encoding_params": {"base": 10}}),
        (["p.a=1", "p.b=x=y"], {"p": {"a": 1, "b": "x=y"}}),
    ],
)
def test_settings(pairs, expected):
    from tsformer.cli.parsing import settings

    assert settings(pairs) == expected


def test_plot_encoding_passes_every_option_on(monkeypatch, capsys, tmp_path):
    import tsformer.plots

    calls = []

    class Figure:
        def savefig(self, path):
            calls.append(path)

    def plot_encoding(*args, **options):
        calls.append((args, options))
        return Figure()

    monkeypatch.setattr(tsformer.plots, "plot_encoding", plot_encoding)
    monkeypatch.chdir(tmp_path)
    words = (
        "plot-encoding rope+t5 --length 9 --d-model 8 --heads 2 --out new --set t5={'init_std':1}"
    )
    with pytest.raises(SystemExit) as stopped:
        main(words.split())
    assert stopped.value.code == 0
    options = {"d_model": 8, "n_heads": 2, "t5": {"init_std": 1}}
    assert calls == [(("rope+t5", 9), options), Path("new.png")]
    assert capsys.readouterr().out == "rope+t5 drawn in new.png\n"
