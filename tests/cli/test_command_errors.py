"""The command line's help, and what it says when asked for what cannot be."""

import numpy as np
import pytest

from tsformer import EarlyClassifier, RandomConvolutionClassifier
from tsformer.cli import main


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("fti BasicMotions", "'fit'? (see tsformer --help)"),
        ("fit", "'dataset'. (see tsformer fit --help)"),
        ("fit BasicMotions --set n_layers", "'n_layers'"),
        ("fit BasicMotions --out .", "mine.csv"),
        ("fit BasicMotions --resume", "checkpoint_dir"),
        ("predict m x.csv --out nowhere/x.csv", "nowhere"),
        ("report scores.csv --vary stem,d_f", "'d_f'"),
        ("ui", "mlflow.db"),
    ],
)
def test_error_is_one_line_that_says_what_to_do(command, says, run, tmp_path):
    (tmp_path / "mine.csv").touch()  # `fit --out .` would replace an empty folder
    (tmp_path / "scores.csv").write_text("dataset,method,seed,score,stem\nA,x,0,1,conv\n")
    out, err = run(*command.split(), exits=2)
    assert err.startswith("tsformer: ")
    assert says in err
    assert (out, err.count("\n")) == ("", 1)


def test_torchrun_is_for_commands_that_its_processes_share(run, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    _, err = run("compare", "--datasets", "GunPoint", exits=2)
    assert "torchrun would run `compare` in each process" in err


def test_debug_shows_the_traceback(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        main(["ui", "--debug"])


@pytest.mark.parametrize(
    ("reader", "text", "expected"),
    [
        ("seeds", "3", (0, 1, 2)),
        ("seeds", " 4, 9 ", (4, 9)),
        ("seeds", "7,", (7,)),
        ("settings", ["stem=linear", "dropout=.2", "s=None"], {"stem": "linear", "dropout": 0.2}),
        ("settings", ["p.a=1", "p.b=x=y", "q={'base': 10}"], {"p": {"a": 1, "b": "x=y"}}),
        ("varied", ["stem=conv,linear"], {"stem": ["conv", "linear"]}),
        ("varied", ["a={'b': (1, 2)},None"], {"a": [{"b": (1, 2)}, None]}),
    ],
)
def test_values_of_options(reader, text, expected):
    from tsformer.cli import parsing

    values = getattr(parsing, reader)(text)
    assert values == (values | expected if reader == "settings" else expected)


def test_models_that_only_python_uses(run):
    X, y = np.random.default_rng(0).normal(size=(8, 12)), np.arange(8) % 2
    classifier = RandomConvolutionClassifier(168, n_groups=0, scaling="series")
    EarlyClassifier(classifier, points=1).fit(X, y).save("early")
    classifier.fit(X, np.column_stack([y, np.ones(8)])).save("several")
    for model, message in (("early", "an EarlyClassifier"), ("several", "several labels")):
        for command in ("predict", "evaluate", "explain"):
            _, err = run(command, model, "BasicMotions", exits=2)
            assert message in err
            assert "use it from Python" in err
