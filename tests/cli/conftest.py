"""The command line as it is in an environment that is activated."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[str, str]]:
    """Run a command in this process, for speed; return standard output and error."""
    from tsformer.cli import main

    monkeypatch.chdir(tmp_path)

    def run_here(*args: object, exits: int = 0) -> tuple[str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stopped:
            main([str(arg) for arg in args])
        printed = capsys.readouterr()
        assert (stopped.value.code or 0) == exits, printed.err
        return printed.out, printed.err

    return run_here


@pytest.fixture(scope="session", autouse=True)
def activated() -> Iterator[None]:
    """Put `tsformer` on the path, also of processes that are started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield
