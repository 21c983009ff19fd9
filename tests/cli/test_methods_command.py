"""`tsformer methods`: the classifiers that a comparison knows by name."""

from __future__ import annotations

import importlib.util

import pytest

from tsformer.baselines import BASELINES
from tsformer.cli import main

for library in ("typer", "rich"):
    pytest.importorskip(library, reason='needs the extra "cli"')


@pytest.fixture
def printed(monkeypatch, capsys) -> str:
    """What the command prints where numba is missing."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *_: None if name == "numba" else found(name)
    )
    with pytest.raises(SystemExit) as stopped:
        main(["methods"])
    assert not stopped.value.code
    return capsys.readouterr().out


def test_each_name_has_a_row(printed):
    rows = [line.split() for line in printed.splitlines()]
    assert {row[0] for row in rows if row} >= set(BASELINES)


def test_what_is_missing_is_named_once_with_the_command_that_installs_it(printed):
    (line,) = [line for line in printed.splitlines() if ": needs numba: " in line]
    names, _, command = line.partition(": needs numba: ")
    assert "arsenal" in names.split(", ")
    assert "pip install" in command
    (row,) = [line for line in printed.splitlines() if line.startswith("arsenal")]
    assert row.split()[-1] == "no"
    (row,) = [line for line in printed.splitlines() if line.startswith("majority")]
    assert row.split()[-1] == "yes"
