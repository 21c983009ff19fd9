"""Workflows on GitHub: nothing of others reaches a shell, and only uploads may ask for a token."""

import re
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml", reason='comes with the extra "tracking"')

ROOT = Path(__file__).parents[1]
WORKFLOWS = {
    path.name: yaml.safe_load(path.read_text()) for path in ROOT.glob(".github/workflows/*")
}
JOBS = {
    f"{file}-{name}": job
    for file, workflow in WORKFLOWS.items()
    for name, job in workflow["jobs"].items()
}
TARGETS = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
MATRIX = JOBS["tests.yml-tests"]["strategy"]["matrix"]


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_commands_exist_and_actions_are_pinned(job):
    steps = job.get("steps", [])
    for step in [step for step in steps if "run" in step]:
        for target in MATRIX["target"]:
            command = step["run"].replace("${{ matrix.target }}", target)
            program, argument, *options = command.split()
            if program == "make":
                assert argument in " ".join(TARGETS).split()
                assert options == ["PYTHON=python"]  # that of setup-python, not the system's
            else:
                assert program == "python"
                assert (ROOT / argument).is_file()
                assert "${{" not in " ".join(options)  # what others write is no argument
    used = [step["uses"] for step in steps if "uses" in step]
    assert used or (ROOT / job["uses"]).is_file()
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action) for action in used)


def test_only_the_upload_may_ask_for_a_token():
    permissions = [workflow["permissions"] for workflow in WORKFLOWS.values()]
    assert permissions == [{"contents": "read"}] * 4
    may = {name: job["permissions"] for name, job in JOBS.items() if "permissions" in job}
    assert may == {
        "release.yml-publish": {"id-token": "write"},
        "docs.yml-publish": {"pages": "write", "id-token": "write"},
    }
    publish, pages = JOBS["release.yml-publish"], JOBS["docs.yml-publish"]
    assert publish["environment"] == "pypi"
    assert set(publish["needs"]) == set(WORKFLOWS["release.yml"]["jobs"]) - {"publish"}
    assert pages["if"] == "github.event_name == 'push'"  # that of main, by the triggers
    steps = [*publish["steps"], *pages["steps"]]
    assert not [step for step in steps if "run" in step]  # no code of ours where the token is
