"""Text files: compressed or not, and the separator and the first line of a table."""

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
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
#: Separators that are recognised, and the first line by which Excel states one.
_SEPARATORS = ",;\t|"
_STATED = re.compile(r'"?sep=([^"\w])"?\s*', re.IGNORECASE)


def ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file in lower case, of its content if it is compressed."""
    path = Path(path)
    if path.suffix.lower() not in COMPRESSED:
        return path.suffix.lower()
    inner = Path(path.stem).suffix.lower()
    if path.suffix.lower() == ".zip" and path.is_file():
        with _unpacking(path), zipfile.ZipFile(path) as archive:
            return Path(_member(path, archive)).suffix.lower() or inner or ".csv"
    return inner


@contextmanager
def open_text(path: str | os.PathLike[str], errors: str = "strict") -> Iterator[TextIO]:
    """Open a UTF-8 file, compressed or not, with or without a byte order mark; lines end as is."""
    path = Path(path)
    with _unpacking(path), ExitStack() as stack:
        if path.suffix.lower() == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            binary: Any = archive.open(_member(path, archive))
        else:
            binary = _OPENERS.get(path.suffix.lower(), open)(path, "rb")
        yield stack.enter_context(io.TextIOWrapper(binary, "utf-8-sig", errors, newline=""))


@contextmanager
def _unpacking(path: Path) -> Iterator[None]:
    """Name the file in errors about its compression or encoding."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text; save it in UTF-8") from error
    except _DAMAGED as error:
        raise ValueError(f"{path} cannot be unpacked: {error}; it is damaged or cut off") from error


def _member(path: Path, archive: zipfile.ZipFile) -> str:
    """Return the name of the only file in an archive."""
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        raise ValueError(
            f"{path} has {len(names)} files{': ' * bool(names)}{', '.join(names[:10])}; unpack it "
            "and name one"
        )
    return names[0]


def csv_rows(lines: Any, sep: str) -> Any:
    """Split lines into cells."""
    lines = (line.strip(" \r\n") for line in lines) if sep == " " else lines
    return csv.reader(lines, delimiter=sep, skipinitialspace=sep != "\t")


def separator_of(lines: Sequence[str], usual: str) -> tuple[str, bool]:
    """Return the separator of a table, and whether its first line states it."""
    if lines and (stated := _STATED.fullmatch(lines[0])):
        return stated[1], True
    lines = [line for line in lines if line.strip(" \r\n" + _SEPARATORS)]
    others = [sep for sep in _SEPARATORS if sep != usual and any(sep in line for line in lines)]
    fits = [sep for sep in (usual, *others) if _separates(lines, sep)]
    if not fits and not any(usual in line for line in lines):
        widths = {len(line.split()) for line in lines}
        return " " if len(widths) == 1 and widths != {1} else usual, False
    return (fits[0] if others and len(fits) == 1 else usual), False


def _separates(lines: Sequence[str], sep: str) -> bool:
    """Whether no cell has another separator but a decimal comma."""
    others = {*_SEPARATORS} - {sep}
    return all(
        len(row) > 1 and all(number_in(c.strip(), ",") is not None for c in row if others & {*c})
        for row in csv_rows(lines, sep)
    )


def has_names(
    cells: Sequence[str], *, named: Sequence[str] = (), decimal: str = "."
) -> tuple[bool, bool]:
    """Tell whether a first line has column names, and whether that is certain.

    Numbers that count from 0 or 1 are names; beside text, so are increasing numbers such as years.
    """
    present = [cell.strip() for cell in cells if cell.strip() not in MISSING]
    values = [number_in(cell, decimal) for cell in present]
    texts = {cell for cell, value in zip(present, values, strict=True) if value is None}
    numbers = [value for value in values if value is not None]
    steps = {after - before for before, after in pairwise(numbers)}
    whole = all(map(str.isdecimal, {*present} - texts))
    counts = steps == {1} and whole and numbers[0] in (0, 1)
    if not texts:
        return (True, False) if counts else (not numbers, True)
    if counts or texts & {*named} or len(numbers) < 2:
        return True, True
    return len(texts) > 2 or min(steps) > 0, False


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
