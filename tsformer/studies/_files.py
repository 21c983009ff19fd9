"""Files written in one step, and the CSV text that is the same on every system."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from pandas.api.types import is_object_dtype

from tsformer._files import replacing

__all__ = ["to_csv", "write_atomically"]


def to_csv(results: pd.DataFrame) -> str:
    """Return the rows as CSV. None is written as a word, a missing value as an empty field."""
    for name in filter(lambda name: is_object_dtype(results[name]), results.columns):
        words = ["None" if value is None else value for value in results[name]]
        results = results.assign(**{name: words})
    return results.to_csv(index=False, lineterminator="\n")


def write_atomically(content: str | bytes, path: Path) -> None:
    """Write a file in one step: a reader sees the old content or the new, never a part."""
    with replacing(path) as file:
        file.write(content.encode() if isinstance(content, str) else content)
