"""Commands as they have to be typed where this program was started."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def as_typed(command: str) -> str:
    """Return a command of tsformer as the user has to type it: it may not be on the path."""
    return command.replace("tsformer", _program(), 1)


def _program() -> str:
    if shutil.which("tsformer"):
        return "tsformer"
    beside = Path(sys.executable).with_name("tsformer")
    return os.path.relpath(beside) if beside.is_file() else f"{sys.executable} -m tsformer"
