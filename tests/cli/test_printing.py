"""What commands print: a line for each fit, and tables that a file has whole."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

pytest.importorskip("rich", reason='needs the extra "cli"')
typer = pytest.importorskip("typer", reason='needs the extra "cli"')

from tsformer.cli.printing import markdown, study_bar, table  # noqa: E402
from tsformer.cli.studies import finish  # noqa: E402
from tsformer.studies import Progress  # noqa: E402

ERROR = f"ValueError: no such\nvalue of {'a long option ' * 12}"
LINE = " ".join(ERROR.split())


def test_a_fit_that_raises_has_one_line_however_long(capsys: pytest.CaptureFixture[str]) -> None:
    fit: Any = "Coffee  rocket  0"
    with study_bar() as show:
        show(Progress("fit-end", 1, 1, 0, 1, trial=fit, error=ERROR))
    assert capsys.readouterr().err.splitlines() == [f"{fit}  {LINE}"]
    row = {"dataset": "Coffee", "method": "rocket", "seed": 0, "error": ERROR}
    comparison: Any = SimpleNamespace(
        failures=pd.DataFrame([row]), unrecorded=pd.DataFrame(), results=pd.DataFrame()
    )
    with pytest.raises(typer.Exit) as stopped:
        finish(comparison)
    assert stopped.value.exit_code == 2
    assert capsys.readouterr().out.splitlines() == [f"failed: Coffee  rocket  0  {LINE}"]


def test_a_file_has_long_names_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    names = [f"A{'x' * 30}{i}" for i in range(4)]
    table(["a", "b", "c", "d"], [names])
    markdown(f"| a | b | c | d |\n|---|---|---|---|\n| {' | '.join(names)} |")
    printed = capsys.readouterr().out
    assert all(printed.count(name) == 2 for name in names)
    monkeypatch.setenv("COLUMNS", "60")
    table(["a", "b", "c", "d"], [names])
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60, "as the variable says"


def test_json_has_numbers_and_truth_values(capsys: pytest.CaptureFixture[str]) -> None:
    table(["name", " peak MB", "", "random"], [["1nn-dtw", "1,234", "a b", "no"]], as_json=True)
    expected = [{"name": "1nn-dtw", "peak_MB": 1234, "note": "a b", "random": False}]
    assert json.loads(capsys.readouterr().out) == expected
