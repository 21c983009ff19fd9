"""Text files of series: their ending, compressed or not, their lines, and their first one."""

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
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TextIO

import numpy as np
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
_INTEGER = re.compile(r"[0-9]+")
#: Separators that are recognised, and the lines that are examined.
_SEPARATORS, _LINES = ",;\t|", 50
_SEPARATOR = re.compile(r'"?sep=([^"\w])"?\s*', re.IGNORECASE)


def ending(path: str | os.PathLike[str]) -> str:
    """Return the ending of a file in lower case, of its content if it is compressed."""
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in COMPRESSED:
        return suffix
    name = path.stem
    if suffix == ".zip" and path.is_file():
        with unpacking(path), zipfile.ZipFile(path) as archive:
            name = _member(path, archive)
        return Path(name).suffix.lower() or Path(path.stem).suffix.lower() or ".csv"
    return Path(name).suffix.lower()


@contextmanager
def open_text(
    path: str | os.PathLike[str], *, errors: str = "strict", newline: str | None = None
) -> Iterator[TextIO]:
    """Open a UTF-8 file, compressed or not, with or without a byte order mark."""
    path = Path(path)
    options: dict[str, Any] = {"encoding": "utf-8-sig", "errors": errors, "newline": newline}
    suffix = path.suffix.lower()
    with unpacking(path), ExitStack() as stack:
        if suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            member = stack.enter_context(archive.open(_member(path, archive)))
            file: TextIO = io.TextIOWrapper(member, **options)
        elif suffix in _OPENERS:
            file = stack.enter_context(_OPENERS[suffix](path, "rt", **options))
        else:
            file = stack.enter_context(path.open(**options))
        try:
            yield file
        except UnicodeDecodeError as error:
            raise ValueError(f"{path} is not UTF-8 text; save it in UTF-8") from error


@contextmanager
def unpacking(path: str | os.PathLike[str]) -> Iterator[None]:
    """Name the file in errors about its compression."""
    try:
        yield
    except _DAMAGED as error:
        raise ValueError(
            f"{os.fspath(path)} cannot be unpacked: {error}; it is damaged or cut off"
        ) from error


def csv_options(sep: str) -> dict[str, Any]:
    """Return the options of `pandas.read_csv` for cells as they are written."""
    return {
        "sep": r"\s+" if sep == " " else sep,
        "encoding": "utf-8-sig",
        "skipinitialspace": sep != "\t",
        "keep_default_na": False,
    }


def separator_of(path: Path) -> tuple[str, int]:
    """Return the separator of a file, and the number of lines before the table."""
    with open_text(path) as file:
        lines = list(islice(file, _LINES))
    # Excel reads and writes a first line such as sep=;
    if lines and (stated := _SEPARATOR.fullmatch(lines[0])):
        return stated[1], 1
    usual = "\t" if ending(path) == ".tsv" else ","
    lines = [line for line in lines if line.strip(" \r\n" + _SEPARATORS)]
    others = [sep for sep in _SEPARATORS if sep != usual and any(sep in line for line in lines)]
    if not lines or (not others and any(usual in line for line in lines)):
        return usual, 0
    fits = [sep for sep in (usual, *others) if _separates(lines, sep)]
    counts = {len(line.split()) for line in lines if usual not in line} | {1}
    if not fits and len(counts) == 2 and all(len(line.split()) in counts - {1} for line in lines):
        return " ", 0
    return (fits[0] if len(fits) == 1 else usual), 0


def _separates(lines: Sequence[str], sep: str) -> bool:
    """Whether no cell has another separator but a decimal comma."""
    others = re.compile(f"[{_SEPARATORS.replace(sep, '')}]")
    rows = list(csv.reader(lines, delimiter=sep, skipinitialspace=sep != "\t"))
    return all(len(row) > 1 for row in rows) and all(
        number_in(cell.strip(), ",") is not None
        for row in rows
        for cell in row
        if others.search(cell)
    )


def first_cells(path: Path, sep: str, *, after: int = 0) -> tuple[int, list[str]]:
    """Return the first line with cells, from line `after` on, and the number of lines before it."""
    with open_text(path, newline="") as file:
        for _ in range(after):
            file.readline()
        lines = csv.reader(
            (line.strip(" \r\n") for line in file) if sep == " " else file,
            delimiter=sep,
            skipinitialspace=sep != "\t",
        )
        before = after
        for cells in lines:
            if any(cell.strip() for cell in cells):
                return before, cells
            before = after + lines.line_num
    return before, []


def has_names(
    cells: Sequence[str], *, named: Sequence[str] = (), decimal: str = "."
) -> tuple[bool, bool]:
    """Tell whether a first line has column names, and whether that is certain.

    Numbers that count from 0 or 1 are names; beside text, so are increasing numbers such as years.
    """
    present = [cell.strip() for cell in cells if cell.strip() not in MISSING]
    values = {cell: number_in(cell, decimal) for cell in present}
    texts = [cell for cell in present if values[cell] is None]
    numbers = [number for cell in present if (number := values[cell]) is not None]
    steps = {after - before for before, after in pairwise(numbers)}
    whole = all(_INTEGER.fullmatch(cell) for cell in present if values[cell] is not None)
    counts = steps == {1} and whole and numbers[0] in (0, 1)
    if not texts:
        return (True, False) if counts else (not numbers, True)
    if counts or {*named} & {*texts} or len(numbers) < 2:
        return True, True
    return len(texts) > 2 or min(steps) > 0, False


def number_in(cell: str, decimal: str = ".") -> float | None:
    """Return the number in a cell, or None."""
    try:
        number = float(cell.replace(decimal, ".")) if is_plain(cell) else np.nan
    except ValueError:
        return None
    return number if np.isfinite(number) else None


def is_plain(text: str) -> bool:
    """Whether a text has no digits that only Python accepts."""
    return text.isascii() and "_" not in text


def _member(path: Path, archive: zipfile.ZipFile) -> str:
    """Return the name of the only file in an archive."""
    names = [name for name in archive.namelist() if not name.endswith("/")]
    if len(names) != 1:
        listed = ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")
        raise ValueError(
            f"{path} has {len(names)} files{': ' * bool(names)}{listed}; unpack it and name one"
        )
    return names[0]
