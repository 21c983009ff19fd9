"""Files to tables: text, compressed or not, and Parquet."""

import bz2
import csv
import gzip
import io
import lzma
import os
import re
import warnings
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from tsformer._checks import listed
from tsformer._optional import require
from tsformer._warnings import warn_caller

#: Endings of tables, in text or not, and of compressed files.
PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv", ".txt", *PARQUET)
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
COMPRESSED = (*_OPENERS, ".zip")
_DAMAGED = (EOFError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError)
#: How a missing value is written. Labels and names are missing only where a cell is empty.
MISSING = ["", "?", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "NULL", "null", "None", "<NA>"]
#: Options of `pandas.read_csv` for exact numbers; from pandas 3.1 on they are exact without.
EXACT: dict[str, Any] = {"float_precision": "round_trip"}
if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1):
    EXACT = {}


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


def read_frame(path: Path, **options: Any) -> tuple[pd.DataFrame, bool]:
    """Read a table without blank rows, numbered as in the file, and whether columns have names."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: No such file")
    if ending(path) not in TABLES:
        raise ValueError(f"{path} is no table of {', '.join(TABLES)}; save as CSV")
    parquet = ending(path) in PARQUET
    rows, header = (read_parquet(path), True) if parquet else _read_text(path, **options)
    full = rows.dropna(how="all")
    if full.empty:
        raise ValueError(f"{path} has no rows")
    if len(blank := rows.index.difference(full.index)):
        warn_caller(f"{len(blank)} blank rows of {path} are skipped, such as row {blank[0]}")
    return full, header


def _has_decimal_commas(text: str, sep: str) -> bool:
    """Whether cells are numbers with a comma that is not between thousands."""
    cells = re.split(f'[{re.escape(sep)}\r\n"]+', text[: 2**16])
    commas = [cell for cell in map(str.strip, cells) if re.fullmatch(r"[-+]?\d+,\d+", cell)]
    points = any(re.fullmatch(r"\s*[-+]?\d+\.\d+\s*", cell) for cell in cells)
    return not points and any(not re.fullmatch(r"[-+]?\d{1,3},\d{3}", cell) for cell in commas)


def _read_text(
    path: Path,
    *,
    texts: Sequence[str] | None,
    header: bool | None = None,
    sep: str | None = None,
    decimal: str | None = None,
) -> tuple[pd.DataFrame, bool]:
    """Read text; the columns `texts`, None for all, stay text."""
    with open_text(path) as file:
        text = file.read()
    if "\0" in text:  # pandas cuts text there
        raise ValueError(f"{path} is not UTF-8 text: it has a NUL character")
    blank = text[: len(text) - len(text.lstrip("\r\n"))]
    first = re.split("[\r\n]", text.removeprefix(blank), maxsplit=1)[0]
    if sep is None:
        sep = separator_of(first)
        if sep != ("\t" if ending(path) == ".tsv" else ","):
            warn_caller(f"columns of {path} are separated by {sep!r}; `sep=` changes it")
    if decimal is None and sep != "," and _has_decimal_commas(text, sep):
        decimal = ","
        warn_caller(f"numbers in {path} are read with decimal commas; `decimal=.` changes it")
    lines: Any = [first.strip(" \r")]
    if sep != " ":  # names in quotes may have line breaks
        lines = io.StringIO(text, newline="")
        lines.seek(len(blank))
    try:
        names = next(csv.reader(lines, delimiter=sep, skipinitialspace=sep != "\t"), [])
    except csv.Error as error:
        raise ValueError(f"{path} has no first line of a table: {error}") from error
    if not names:
        raise ValueError(f"{path} is empty")
    if header is None:
        sign = decimal or ("," if sep == ";" else ".")
        cells = [cell.strip() for cell in names]
        counted = [[str(i + start) for i in range(len(cells))] for start in (0, 1)]
        numbers = (number_in(cell, sign) for cell in cells if cell not in MISSING)
        header = None in numbers or (len(cells) > 2 and cells in counted)  # as pandas names columns
        if not header:
            values = f"numbers in its first line, {listed(names[:5])}, which are read as values"
            warn_caller(f"{path} has {values}; `header=` reads them as names or confirms them")
    names = names if header else list(map(str, range(len(names))))
    check_distinct(f"{path}: columns", filter(None, names))
    as_text = names if texts is None else [name for name in names if name in texts]
    try:
        with warnings.catch_warnings(action="error", category=pd.errors.ParserWarning):
            table = pd.read_csv(
                io.StringIO(text, newline=""),
                sep=r"\s+" if sep == " " else sep,
                header=0 if header else None,
                names=None if header else names,
                skipinitialspace=sep != "\t",
                keep_default_na=False,
                na_values=MISSING,
                converters=dict.fromkeys(as_text, str.strip),  # missing values are words there
                index_col=False,  # else the first column is one, where rows have too many fields
                decimal=decimal or ".",
                low_memory=False,
                **EXACT,
            ).copy()  # one block: reading many columns is fast
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        problem = f"{str(error).strip()}; `sep=` changes its separator, {sep!r}"
        raise ValueError(f"{path} cannot be read as a table: {problem}") from error
    start = blank.count("\n") + (2 if header else 1)
    table.index = pd.RangeIndex(start, start + len(table))
    table.columns = pd.Index(names)  # without the names that pandas gives
    for name in as_text:
        table[name] = table[name].astype(object).where(table[name] != "", None)
    return table, header


def separator_of(line: str) -> str:
    """Return the most frequent separator outside quotes; without any, a blank."""
    line = re.sub('"[^"]*"', "", line)
    sep = max(",;\t|", key=line.count)
    return sep if sep in line or not line.strip().count(" ") else " "


def parquet_files(path: str | os.PathLike[str]) -> list[Path]:
    """Return a Parquet file, or all in a folder by name, except for ``.*`` and ``_*``."""
    path = Path(path)
    files = [f for f in path.iterdir() if f.name[0] not in "._"] if path.is_dir() else [path]
    return sorted(file for file in files if file.suffix.lower() in PARQUET)


def read_parquet(path: Path) -> pd.DataFrame:
    """Read a table without the metadata of pandas, whose own types are slow in wide tables."""
    pa = require("pyarrow", extra="parquet", purpose="reading Parquet")
    library = require("pyarrow.parquet", extra="parquet", purpose="reading Parquet")
    try:
        with library.ParquetFile(path) as file:
            arrow = file.read()
    except MemoryError:  # of Arrow it is one of the following too
        raise
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error
    check_distinct(f"{path}: columns", arrow.column_names)
    # As objects, integers beside missing values stay integers: they may be labels.
    table: pd.DataFrame = arrow.to_pandas(ignore_metadata=True, integer_object_nulls=True)
    table.index = pd.RangeIndex(2, 2 + len(table))
    unnamed = [name for name in table if re.fullmatch(r"__index_level_\d+__", str(name))]
    return table.drop(columns=unnamed)  # of an index of pandas without a name


def check_distinct(kind: str, names: Iterable[Any]) -> None:
    """Raise ValueError if a name occurs twice."""
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"{kind} must be distinct; {name!r} occurs {count} times")
