"""Text files, compressed or not, and numbers in text."""

import bz2
import gzip
import io
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

#: How a missing value is written. Labels and names are missing only where a cell is empty.
MISSING = ["", "?", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "NULL", "null", "None", "<NA>"]
#: Options of `pandas.read_csv` for exact numbers; from pandas 3.1 on they are exact without.
EXACT: dict[str, Any] = {"float_precision": "round_trip"}
if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1):
    EXACT = {}

_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
#: Endings of compressed files.
COMPRESSED = (*_OPENERS, ".zip")
_DAMAGED = (EOFError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file in lower case, before the ending of its compression."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in COMPRESSED:
        return suffix
    return Path(path.stem).suffix.lower() or (".csv" if suffix == ".zip" else "")


@contextmanager
def open_text(path: str | os.PathLike[str], errors: str = "strict") -> Iterator[TextIO]:
    """Open a UTF-8 file, compressed or not; its lines end as they are."""
    path = Path(path)
    try:
        with ExitStack() as stack:
            if path.suffix.lower() == ".zip":
                archive = stack.enter_context(zipfile.ZipFile(path))
                if len(names := archive.namelist()) != 1:
                    raise ValueError(f"{path} has {len(names)} files: {names[:9]}; unpack it")
                binary: Any = archive.open(names[0])
            else:
                binary = _OPENERS.get(path.suffix.lower(), open)(path, "rb")
            yield stack.enter_context(io.TextIOWrapper(binary, "utf-8-sig", errors, newline=""))
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text; save it in UTF-8") from error
    except _DAMAGED as error:
        raise ValueError(f"{path} cannot be unpacked: {error}; it is damaged or cut off") from error


def number_in(cell: str, decimal: str = ".") -> float | None:
    """Return the finite number in a cell, or None."""
    try:
        number = float(cell.replace(decimal, ".")) if is_plain(cell) else None
    except ValueError:
        return None
    return number if number is not None and abs(number) < float("inf") else None


def is_plain(text: str) -> bool:
    """Whether a text has no digits that only Python accepts."""
    return text.isascii() and "_" not in text
