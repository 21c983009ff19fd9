"""Workflows on GitHub: their commands exist, and only uploads may ask for a token."""

import re
import tomllib
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason='comes with the extra "tracking"')

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in GITHUB.glob("workflows/*")}
JOBS = {
    f"{file}-{name}": job
    for file, workflow in WORKFLOWS.items()
    for name, job in workflow["jobs"].items()
}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)) | {
    target
    for line in re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for target in line.split()
}


def commands(job: dict) -> list[str]:
    """Return what a job runs, once for each target of its matrix."""
    runs = [step["run"] for step in job.get("steps", []) if "run" in step]
    targets = job.get("strategy", {}).get("matrix", {}).get("target", [""])
    return [run.replace("${{ matrix.target }}", target) for run in runs for target in targets]


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_commands_exist_and_actions_are_pinned(job):
    for command in commands(job):
        words = command.split()
        assert "${{" not in command  # what others write is never put into a shell
        if words[0] == "make":
            assert words[1] in TARGETS
            assert words[2:] == ["PYTHON=python"]  # that of setup-python, not the system's
        else:
            assert words[0] == "python"
            assert (ROOT / words[1]).is_file()
    used = [step["uses"] for step in job.get("steps", []) if "uses" in step]
    assert used or (ROOT / job["uses"]).is_file()
    assert [action for action in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)] == []


def test_the_versions_are_those_that_the_package_says_it_runs_on():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = [line.rpartition(" ")[2] for line in project["classifiers"] if "Python :: 3." in line]
    matrix = JOBS["tests.yml-tests"]["strategy"]["matrix"]
    assert matrix == {"python": said, "target": ["test", "test-lowest", "test-newest"]}


def test_only_the_upload_may_ask_for_a_token():
    assert [workflow["permissions"] for workflow in WORKFLOWS.values()] == [
        {"contents": "read"}
    ] * 4
    may = {name: job["permissions"] for name, job in JOBS.items() if "permissions" in job}
    assert may == {
        "release.yml-publish": {"id-token": "write"},
        "docs.yml-publish": {"pages": "write", "id-token": "write"},
    }
    publish, pages = JOBS["release.yml-publish"], JOBS["docs.yml-publish"]
    assert publish["environment"] == "pypi"
    assert set(publish["needs"]) == set(WORKFLOWS["release.yml"]["jobs"]) - {"publish"}
    assert pages["if"] == "github.event_name == 'push'"  # that of main, by the triggers
    assert commands(publish) == commands(pages) == []  # no code of ours runs where the token is
