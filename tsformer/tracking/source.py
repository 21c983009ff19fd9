"""The command line of a run, as MLflow shows it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import PurePath

from tsformer.tracking.credentials import masked

_LONGEST = 2000


def command_line(argv: Sequence[str] | None = None) -> str:
    """Return the command line of a process, without passwords."""
    argv = sys.argv if argv is None else argv
    path = PurePath(argv[0] if argv else "")
    program = path.parent.name if path.name == "__main__.py" else path.name
    if program == "ipykernel_launcher.py":
        return "notebook"
    words = [program or "python", *map(masked, argv[1:])]
    return shlex.join(words)[:_LONGEST]


def source_tags(command: str) -> dict[str, str]:
    """Return the tags of a run's source: the program, and the whole command."""
    program, *arguments = command.split()
    if program == "tsformer" and arguments and not arguments[0].startswith("-"):
        program = f"tsformer {arguments[0]}"
    return {
        "mlflow.source.name": program,
        "mlflow.source.type": "LOCAL",
        "tsformer.command": command,
    }
