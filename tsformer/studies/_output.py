"""Files written in one step, and the CSV text that is the same on every system."""

from collections.abc import Iterable
from pathlib import Path

import pandas as pd
from pandas.api.types import is_object_dtype

from tsformer._files import replacing


def check_folder(folder: Path, names: Iterable[str], *, sign: str, text: str) -> None:
    """Raise FileExistsError if a file of another program would be overwritten."""
    ours = (folder / sign).is_file() and text.encode() in (folder / sign).read_bytes()
    for path in (folder / name for name in names if (folder / name).exists() and not ours):
        raise FileExistsError(
            f"{path} was not written by tsformer and would be overwritten: choose another folder "
            "with --out, or move the file"
        )


def to_csv(results: pd.DataFrame) -> str:
    """Return the rows as CSV. None is written as a word, a missing value as an empty field."""
    for name in filter(lambda name: is_object_dtype(results[name]), results.columns):
        words = ["None" if value is None else value for value in results[name]]
        results = results.assign(**{name: words})
    return results.to_csv(index=False, lineterminator="\n")


def write_atomically(content: str | bytes, path: Path) -> None:
    """Write a file in one step: a reader sees the old content or the new, never a part."""
    with replacing(path) as file:
        if isinstance(content, str):  # a page has a command, whose file names may be no UTF-8
            content = content.encode(errors="replace")
        file.write(content)
