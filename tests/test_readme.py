"""README.md: its example runs as it stands, and its links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.mark.slow
def test_the_example_runs(tmp_path):
    pytest.importorskip("sktime", reason='the problem comes with the extra "data"')
    (example,) = EXAMPLES
    (tmp_path / "example.py").write_text(example, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # Far above chance, 0.25 here: the example learns something.
    assert float(re.search(r"accuracy ([\d.]+)", done.stdout)[1]) > 0.8


def test_links_lead_to_files():
    targets = re.findall(r"\]\(([^)]+)\)", README)
    assert targets
    for target in targets:
        assert (ROOT / target.partition("#")[0]).exists(), f"{target} leads nowhere"
