"""The command line's help, and what it says when asked for what cannot be."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from cli_process import tsformer

from tsformer.cli import main

for library in ("typer", "rich", "sktime", "mlflow", "matplotlib"):
    pytest.importorskip(library, reason='needs the extra "all"')


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


@pytest.mark.slow
def test_help_has_examples_and_is_quick(tmp_path):
    assert " plot-encoding " in tsformer(cwd=tmp_path).stdout
    _, _, shown = tsformer("fit", "--help", cwd=tmp_path).stdout.partition("Example")
    assert " tsformer fit" in shown
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


def test_every_command_has_an_example() -> None:
    from tsformer.cli.app import app

    for command in app.registered_commands:
        name = command.name or command.callback.__name__.replace("_", "-")
        _, _, example = command.help.partition("[bold]Example")
        assert f"  tsformer {name}" in example, name


@pytest.mark.parametrize("columns", [50, 200])
def test_help_fills_the_width_of_the_terminal(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", columns)
    with pytest.raises(SystemExit):
        main(["convert", "--help"])
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    text = lines[lines.index(next(line for line in lines if line.startswith("data/NAME"))) :]
    paragraph = text[: text.index("")]
    assert all(len(line) <= columns for line in paragraph)
    words = " ".join(paragraph).split()
    assert words[-1] == "times."
    for line, after in itertools.pairwise(paragraph):
        assert len(line) + 1 + len(after.split()[0]) > columns - 4, "broken only where it is full"


def test_version(tmp_path):
    import tsformer as package

    assert tsformer("--version", cwd=tmp_path).stdout == f"tsformer {package.__version__}\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("fti BasicMotions", "No such command 'fti'. Did you mean 'fit'? (see tsformer --help)"),
        ("fit", "Missing argument 'dataset'. (see tsformer fit --help)"),
        ("fit BasicMotions --encodng lspe", "No such option: --encodng"),
        ("fit BasicMotions --encoding lpse", "unknown encoding 'lpse': did you mean 'lspe'?"),
        ("fit BasicMotions --set n_layer=2", "did you mean 'n_layers'"),
        ("fit BasicMotions --set n_layers", "--set takes name=value"),
        ("fit BasicMotions --out file.txt", "file.txt exists and is not a saved estimator"),
        ("fit BasicMotions --out .", ". exists and is not a saved estimator; choose another path"),
        ("compare --datasets BasicMotions --seeds two", "--seeds takes a number of seeds"),
        ("predict nothing new.ts", "there is no saved estimator at nothing"),
        ("plot-encoding lpse", "unknown encoding 'lpse': did you mean 'lspe'?"),
        ("plot-encoding fixed --set d_model=32", "set d_model with --d-model 32"),
        ("plot-encoding fixed --length 0", "'--length'"),
        ("plot-encoding fixed --out nowhere/x.png", "there is no folder nowhere for nowhere/x.png"),
        ("fit BasicMotions --out m --checkpoint m/state", "m/state is in --out m, which"),
        ("predict m x.csv --out nowhere/x.csv", "there is no folder nowhere for nowhere/x.csv"),
        ("plot-encoding fixed --out .", ". is a folder; name a file"),
        ("ui", "mlflow.db; go to the folder where `tsformer compare` ran"),
    ],
)
def test_error_is_one_line_that_says_what_to_do(command, says, error, tmp_path):
    (tmp_path / "file.txt").touch()
    assert says in error(*command.split())


@pytest.mark.slow
def test_debug_shows_the_traceback(tmp_path):
    done = tsformer("ui", "--debug", cwd=tmp_path, exits=1)
    assert done.stderr.startswith("Traceback")
    assert "FileNotFoundError" in done.stderr


@pytest.mark.slow
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
    assert capsys.readouterr().out == "rope+t5 drawn to new.png\n"


@pytest.mark.slow
def test_a_model_that_cannot_be_saved_where_asked_is_saved_elsewhere(error, monkeypatch, tmp_path):
    """The folder is looked at before training, and somebody may take it meanwhile."""
    import tsformer
    from tsformer.data import sources

    read = sources.load_dataset

    def meanwhile(*args):
        (tmp_path / "model").rmdir()
        (tmp_path / "model").write_text("mine")
        return read(*args)

    monkeypatch.setattr(sources, "load_dataset", meanwhile)
    small = ("--max-epochs", 1, "--set", "d_model=8", "--set", "n_layers=0", "--set", "verbose=0")
    message = error("fit", "--no-track", "ItalyPowerDemand", *small)
    (rescued,) = tmp_path.glob("model-*")
    assert message.startswith("the model could not be saved in model (model exists and is not")
    assert message.endswith(f"it is saved in {rescued}"), message
    assert tsformer.load(rescued).encoding == "lspe"
    assert (tmp_path / "model").read_text() == "mine"
