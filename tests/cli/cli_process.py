"""Run the command line as a user does: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMAND = [sys.executable, "-m", "tsformer"]


def tsformer(*args: object, cwd: Path, exits: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, args)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "80"},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == exits, done.stderr
    return done
