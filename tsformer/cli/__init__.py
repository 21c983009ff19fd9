"""The command line: parses and prints, decides nothing."""

import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import NoReturn

from tsformer._optional import require

__all__ = ["main"]

#: An argument of a table in a message.
_ARGUMENT = re.compile(
    "`(case|time|value|drop|channel|labels?|group|grid|header|sep|decimal|time_format|window"
    "|stride)=([^`]*)`"
)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run a command and exit with code 0, 2 after an error, or 130 after Ctrl-C.

    An error is printed as one line on standard error; ``--debug``, at any position, shows the
    traceback.
    """
    args = list(sys.argv[1:] if args is None else args)
    debug = "--debug" in args
    args = [arg for arg in args if arg != "--debug"]
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # a terminal may lack characters of a table
            stream.reconfigure(errors="replace")
    sys.exit(_run(args or ["--help"], debug=debug))


def _run(args: list[str], *, debug: bool) -> int:
    if not debug:
        warnings.showwarning = lambda message, *_, **__: _say(f"warning: {message}")
    try:
        for library in ("typer", "rich"):
            require(library, extra="cli", purpose="the command line")
        from tsformer.cli.app import app

        alone = args[0] in ("compare", "demo", "evaluate", "explain")
        if alone and int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ValueError(f"torchrun would run `{args[0]}` in each process; use it for fit")
        # Not standalone, or Typer would print a usage error as a box of six lines.
        code: int | None = app(args, prog_name="tsformer", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if debug:
            raise
        _say(_message(error))
        return 2
    if code == 130:
        _say("stopped by Ctrl-C")
    return code or 0


def _message(error: Exception) -> str:
    if hasattr(error, "format_message"):  # Typer's own: a wrong option, a missing argument
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "tsformer"
        return f"{error.format_message()} (see {command} --help)"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, (ValueError, TypeError, ImportError, OSError)):  # of the user
        return str(error)
    return f"{type(error).__name__}: {error} (--debug shows the traceback)"


def _say(message: str) -> None:
    print("tsformer:", " ".join(in_flags(message).split()), file=sys.stderr)


def in_flags(message: str) -> str:
    r"""Show arguments in a message, ``\`time=\```, as options of the command line."""

    def flag(argument: re.Match[str]) -> str:
        value = argument[2].strip("'\"")
        return f"--{argument[1].replace('_', '-')} {shlex.quote(value) if value else ''}".strip()

    return _ARGUMENT.sub(flag, message.replace("`header=False`", "--no-header"))
