"""No script changes the committed results unless it is told to."""

import subprocess
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "experiments/results"


def scripts() -> list[str]:
    """Return the modules in experiments/ and tools/ that are run as scripts and write results."""
    files = [file for room in ("experiments", "tools") for file in (ROOT / room).rglob("*.py")]
    names = []
    for file in sorted(files):
        text = file.read_text(encoding="utf-8")
        if 'if __name__ == "__main__"' in text:
            names.append(".".join(file.relative_to(ROOT).with_suffix("").parts))
    return [name for name in names if name not in WRITE_NO_RESULTS]


#: Scripts that print, or fill in tables of the docs.
WRITE_NO_RESULTS = {
    "experiments.same_predictions",
    "tools.browser",
    "tools.functions_entered",
    "tools.mutants",
    "tools.write_docs",
}


def test_trial_runs_write_where_git_ignores_them_and_do_not_meet():
    folders = [import_module(name).arguments([]).out for name in scripts()]
    assert len(set(folders)) == len(folders) > 5
    for out in folders:
        assert out.is_relative_to(ROOT / "results")
        ignored = subprocess.run(["git", "check-ignore", "--quiet", out / "a.csv"], cwd=ROOT)
        assert ignored.returncode == 0 or not (ROOT / ".git").exists()


@pytest.mark.parametrize("name", scripts())
def test_only_commit_chooses_the_committed_results(name, capsys):
    arguments = import_module(name).arguments
    assert arguments(["--commit"]).out == COMMITTED
    assert arguments(["--out", "elsewhere"]).out == Path.cwd() / "elsewhere"
    for folder in (COMMITTED, COMMITTED / "which_encoding", "experiments/../experiments/results"):
        with pytest.raises(SystemExit):
            arguments(["--out", str(folder)])
        assert "pass --commit in place of --out" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        arguments(["--commit", "--out", "elsewhere"])
