"""Warnings that point at the user's own line of code."""

from __future__ import annotations

import contextlib
import sys
import warnings
from pathlib import Path

#: Skipped frames: this package and `contextlib`, which runs its context managers.
_SKIPPED = (str(Path(__file__).parent), contextlib.__file__)


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning at the first caller outside this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
