"""What commands print: a line for each fit, and tables that a file has whole."""

import importlib.util
import io
import json
import sys
from types import SimpleNamespace

from tsformer.baselines import BASELINES
from tsformer.cli.printing import print_markdown, table
from tsformer.cli.tracking import say_where


def test_methods_are_listed_with_what_is_missing(run, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *_: None if name == "numba" else find_spec(name)
    )
    lines = run("methods")[0].splitlines()
    rows = {words[0]: words for line in lines if (words := line.split())}
    assert set(rows) >= set(BASELINES)
    assert (rows["arsenal"][-1], rows["majority"][-1]) == ("no", "yes")
    assert lines[-1].startswith("numba: not installed; pip install")


def test_a_terminal_may_lack_characters(run, monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    monkeypatch.setitem(BASELINES, "naïve", BASELINES["majority"])
    run("methods")
    sys.stdout.flush()
    assert b"na?ve" in sys.stdout.buffer.getvalue()


def test_the_address_of_a_run_is_on_standard_output(capsys):
    say_where(SimpleNamespace(address="http://a", store=SimpleNamespace(ui_command=lambda: "ui")))
    assert capsys.readouterr().out == "run     http://a\nsee it  ui\n"


def test_a_file_has_long_names_whole_and_json_has_numbers(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    names = [f"A{'x' * 30}{i}" for i in range(4)]
    table(["a", "b", "c", "d"], [names])
    print_markdown(f"| a | b | c | d |\n|---|---|---|---|\n| {' | '.join(names)} |")
    printed = capsys.readouterr().out
    assert all(printed.count(name) == 2 for name in names)
    row = ["007", 1234, "a b", False]
    table(["name", " peak MB", "", "random"], [row], as_json=True)
    expected = [{"name": "007", "peak_MB": 1234, "note": "a b", "random": False}]
    assert json.loads(capsys.readouterr().out) == expected
