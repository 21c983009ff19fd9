"""tools/mutants.py: mutants are sampled, found again and tried without a change of any file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tools import mutants

FILE = "tsformer/data/clock.py"
CLOCK = """class Clock:
    hours: int = 12

    def late(self, hour):
        if hour > 9:
            return True
        return hour < 5
"""
TEST = "from tsformer.data.clock import Clock\n\ndef test_late():\n    assert Clock().late(10)\n"
TEST += "    assert Clock.__annotations__ == {'hours': int}\n"
RUN = "from tools import mutants as m; m.LIBRARIES = ''; raise SystemExit(m.main(['list.csv']))"


@pytest.fixture
def tree(tmp_path, monkeypatch):
    for name, text in {FILE: CLOCK, "tests/data/test_clock.py": TEST}.items():
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "tsformer/__init__.py").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_a_list_is_tried(tree):
    paths = f"{tree}{os.pathsep}{Path(mutants.__file__).parents[1]}"
    environment = os.environ | {"PYTHONPATH": paths}
    done = subprocess.run([sys.executable, "-c", RUN], env=environment, capture_output=True)
    rows = mutants.read(tree / "list.csv")
    caught = {row["before"] for row in rows if row["result"] == "caught"}
    survived = {row["before"] for row in rows if row["result"] == "survived"}
    assert caught == {"if hour > 9:", "return True"}
    assert survived == {"hours: int = 12", "return hour < 5"}
    assert b"2 of 4 caught" in done.stdout
    assert done.returncode == 1
    assert (tree / FILE).read_text() == CLOCK
