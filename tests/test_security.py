"""docs/security.md: each promise names tests that exist, and two hold that are shown here."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from small_estimators import classifier

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")
PROMISED = PAGE.partition("## Promised")[2].partition("## Not promised")[0]
ROWS = re.findall(r"^\| (?!promise|---)(.*) \| (.*) \|$", PROMISED, re.MULTILINE)
X, Y = np.random.default_rng(0).normal(size=(8, 1, 12)), [0, 1] * 4
#: Events of the interpreter that a file of data has no reason to cause.
LOADS = """
import sys
import tsformer
from tsformer import load
load(sys.argv[1])  # imports what loading needs
seen = []
code = {"compile", "exec", "import", "pickle.find_class", "os.exec", "os.fork", "os.system",
        "subprocess.Popen", "ctypes.dlopen", "socket.connect", "socket.getaddrinfo"}
sys.addaudithook(lambda event, arguments: event in code and seen.append((event, str(arguments))))
load(sys.argv[1])
print(seen)
import colorsys
print(len(seen))
"""


@pytest.mark.parametrize("promise", [promise for promise, _ in ROWS])
def test_each_promise_has_tests(promise: str) -> None:
    tests = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", dict(ROWS)[promise])
    assert tests
    for file, name in tests:
        functions = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        assert name in {getattr(node, "name", "") for node in functions}, f"{file} has no {name}"


def test_there_are_promises() -> None:
    assert len(ROWS) == PROMISED.count("::test_") - PROMISED.count("`, `") > 8


@pytest.mark.slow
def test_loading_a_model_runs_no_code(tmp_path: Path) -> None:
    classifier().fit(X, Y).save(tmp_path / "model")
    command = [sys.executable, "-c", LOADS, str(tmp_path / "model")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    seen, with_an_import = done.stdout.splitlines()
    assert seen == "[]"
    assert int(with_an_import) > 0


class Evil:
    """Runs code when it is unpickled."""

    def __init__(self, file: Path):
        self.file = file

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return exec, (f"open({str(self.file)!r}, 'w').close()",)


def test_resuming_runs_no_code(tmp_path: Path) -> None:
    folder, ran = tmp_path / "state", tmp_path / "ran"
    checked = classifier(checkpoint_dir=folder, resume=True, checkpoint_minutes=0)
    checked.fit(X, Y)
    (file,) = folder.glob("training-*.pt")
    torch.save({"model": Evil(ran)}, file)
    with pytest.raises(ValueError):
        checked.fit(X, Y)
    assert not ran.exists()
    torch.load(file, weights_only=False)
    assert ran.exists(), "it would have run"
