"""Warnings that point at the user's own line of code."""

import inspect
import os
import warnings
from pathlib import Path

#: Skipped frames: this package, and the decorators of Python, torch and scikit-learn.
_PACKAGE = str(Path(__file__).parent)
_DECORATORS = tuple(f"{os.sep}{file}.py" for file in ("contextlib", "_contextlib", "_set_output"))


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the first caller outside this package."""
    level, frame = 1, inspect.currentframe()
    while frame and frame.f_back:
        file = frame.f_code.co_filename
        if not (file.startswith(_PACKAGE) or file.endswith(_DECORATORS)):
            break
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
