"""`tsformer demo`: it says what it will do, and ends with where to go."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from tsformer.cli import main

demonstration = pytest.importorskip("tsformer.cli.demonstration", reason='needs the extra "cli"')
invocation = pytest.importorskip("tsformer.cli.invocation")

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


def test_it_ends_with_three_lines(demo, tmp_path):
    run, _ = demo
    best, page, yours = run(tmp_path / "a b" / "report.html")[-3:]
    assert best.startswith(
        "best    lspe: mean test accuracy 0.850 on 3 problems; next is none, 0.7"
    )
    assert page == f"open    file://{tmp_path}/a%20b/report.html or run: tsformer ui"
    assert yours == "yours   tsformer fit my.csv --case id --time t --label y"
    assert run(None)[-2] == "open    tsformer ui"


def test_the_commands_it_names_are_there(demo, monkeypatch, tmp_path):
    run, _ = demo
    not_on_the_path(monkeypatch, tmp_path)
    assert run(None)[-2:] == [
        "open    .venv/bin/tsformer ui",
        "yours   .venv/bin/tsformer fit my.csv --case id --time t --label y",
    ]


def test_a_command_is_named_as_it_can_be_typed(monkeypatch, tmp_path):
    asked = "tsformer compare --name tsformer"
    assert invocation.as_typed(asked) == asked  # as in an environment that is activated
    script = not_on_the_path(monkeypatch, tmp_path)
    assert invocation.as_typed(asked) == ".venv/bin/tsformer compare --name tsformer"
    script.unlink()
    python = script.with_name("python")
    assert invocation.as_typed(asked) == f"{python} -m tsformer compare --name tsformer"


def test_after_ctrl_c_the_command_to_go_on_can_be_typed(monkeypatch, tmp_path, capsys):
    def stopped(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tsformer.studies.compare", stopped)
    not_on_the_path(monkeypatch, tmp_path)
    command = ["demo", "--max-epochs", "2"]
    monkeypatch.setattr(sys, "argv", ["tsformer", *command])
    with pytest.raises(SystemExit) as ended:
        main(command)
    assert ended.value.code == 130
    assert "to resume:\n  .venv/bin/tsformer demo --max-epochs 2\n" in capsys.readouterr().err


def not_on_the_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    """Have `tsformer` only beside Python, as `make demo` has; return its path."""
    script = folder / ".venv/bin/tsformer"
    script.parent.mkdir(parents=True)
    script.touch()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(invocation.shutil, "which", lambda name: None)
    monkeypatch.setattr(invocation.sys, "executable", str(script.with_name("python")))
    return script
