"""The command line that a run is of, as MLflow's pages show it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import PurePath

from tsformer.tracking.credentials import masked

__all__ = ["command_line", "source_tags"]

_LONGEST = 2000


def command_line(argv: Sequence[str] | None = None) -> str:
    """Return the command line of a process, without folders of the program and without passwords.

    Examples
    --------
    >>> command_line(["/venv/bin/tsformer", "compare", "--study", "a study.toml"])
    "tsformer compare --study 'a study.toml'"
    >>> command_line(["train.py", "http://me:secret@host:5000"])
    'train.py http://host:5000'
    """
    argv = sys.argv if argv is None else argv
    path = PurePath(argv[0] if argv else "")
    program = path.parent.name if path.name == "__main__.py" else path.name
    if program == "ipykernel_launcher.py":  # its arguments are of no use to anyone
        return "notebook"
    words = [program or "python", *map(masked, argv[1:])]  # everybody who sees runs sees them
    return shlex.join(words)[:_LONGEST]


def source_tags(command: str) -> dict[str, str]:
    """Return the tags of a run that say where it came from.

    MLflow's pages show what follows the last slash of a source: the program, therefore, and the
    subcommand of `tsformer`; the whole command is a tag of its own, and in the description.

    Examples
    --------
    >>> source_tags("tsformer fit data/mine.ts")["mlflow.source.name"]
    'tsformer fit'
    """
    program, *arguments = command.split()
    if program == "tsformer" and arguments and not arguments[0].startswith("-"):
        program = f"tsformer {arguments[0]}"
    return {
        "mlflow.source.name": program,
        "mlflow.source.type": "LOCAL",
        "tsformer.command": command,
    }
