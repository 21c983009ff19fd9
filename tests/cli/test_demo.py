"""`tsformer demo`: it says what it will do, and ends with where to go."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from tsformer.cli import main

demonstration = pytest.importorskip("tsformer.cli.demonstration", reason='needs the extra "cli"')

SUMMARY = pd.DataFrame(
    [("A", "none", 0.9), ("A", "lspe", 0.7), ("B", "none", 0.5), ("B", "lspe", 1.0)],
    columns=["dataset", "encoding", "accuracy"],
)


@pytest.fixture
def demo(monkeypatch, tmp_path, capsys):
    """Run the command, its study being made up, and return the study and the lines printed."""
    asked = []

    def run(report: Path | None, *options: object) -> list[str]:
        def instead(study, **options):
            asked.append((study, options))
            print("THE STUDY")
            return SimpleNamespace(
                report_path=report, ui_command="tsformer ui", summary=lambda: SUMMARY
            )

        monkeypatch.setattr(demonstration, "run_and_show", instead)
        with pytest.raises(SystemExit) as stopped:
            main(["demo", *map(str, options)])
        assert not stopped.value.code
        return capsys.readouterr().out.splitlines()

    monkeypatch.chdir(tmp_path)
    return run, asked


def test_what_it_will_do_comes_first(demo):
    run, asked = demo
    lines = run(None, "--max-epochs", 40)
    before = " ".join(lines[: lines.index("THE STUDY")])
    ((study, options),) = asked
    assert before.startswith(f"{len(study.trials())} fits of 40 epochs")
    for name in (*study.datasets, *study.encodings):
        assert name in before
    assert "takes up to 8 minutes on one core" in before
    assert study.parameters == {"max_epochs": 40}
    assert options == {"out": Path("results/demo"), "jobs": 1}
    assert "takes up to 1 minute on one core" in " ".join(run(None, "--max-epochs", 2))


def test_it_ends_with_three_lines(demo, monkeypatch, tmp_path):
    run, _ = demo
    monkeypatch.setattr(demonstration.shutil, "which", lambda name: f"/somewhere/{name}")
    best, page, yours = run(tmp_path / "a b" / "report.html")[-3:]
    assert best.startswith(
        "best    lspe: mean test accuracy 0.850 on 3 problems; next is none, 0.7"
    )
    assert page == f"open    file://{tmp_path}/a%20b/report.html or run: tsformer ui"
    assert yours == "yours   tsformer fit my.csv --case id --time t --label y"
    assert run(None)[-2] == "open    tsformer ui"


def test_the_commands_it_names_are_there(demo, monkeypatch, tmp_path):
    """As in a checkout, where `tsformer` is not on the path."""
    run, _ = demo
    monkeypatch.setattr(demonstration.shutil, "which", lambda name: None)
    script = tmp_path / ".venv/bin/tsformer"
    script.parent.mkdir(parents=True)
    monkeypatch.setattr(demonstration.sys, "executable", str(script.with_name("python")))
    assert run(None)[-1].startswith(f"yours   {script.with_name('python')} -m tsformer fit my.csv")
    script.touch()
    assert run(None)[-2:] == [
        "open    .venv/bin/tsformer ui",
        "yours   .venv/bin/tsformer fit my.csv --case id --time t --label y",
    ]
