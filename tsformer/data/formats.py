"""Files to tables: text, Parquet, Feather and JSON lines."""

import csv
import io
import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tsformer._checks import listed
from tsformer._warnings import warn_caller
from tsformer.data.containers import to_arrays
from tsformer.data.parquet import PARQUET, read_arrow, refuse_repeated
from tsformer.data.text import EXACT, MISSING, ending, number_in, open_text

#: Endings of the files that are read as text, and of those with types.
TEXT = (".csv", ".tsv", ".txt")
FRAMES = (*PARQUET, ".feather", ".jsonl", ".ndjson")
#: Characters by which the decimal sign is recognised.
_SNIFFED = 2**16


def read_frame(path: Path, **options: Any) -> tuple[pd.DataFrame, bool]:
    """Read a table without blank rows, numbered as in the file; tell whether columns have names.

    The options are those of `_read_text`.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: No such file")
    kind, header = ending(path), True
    if kind in (".jsonl", ".ndjson"):
        rows = _read_json_lines(path)
    elif kind in FRAMES:
        rows = read_arrow(path)
    else:
        rows, header = _read_text(path, **options)
    full = rows.dropna(how="all")
    if full.empty:
        raise ValueError(f"{path} has no rows")
    if len(blank := rows.index.difference(full.index)):
        warn_caller(f"{len(blank)} blank rows of {path} are skipped, such as row {blank[0]}")
    return full, header


def _has_decimal_commas(text: str, sep: str) -> bool:
    """Whether cells are numbers with a comma that is not between thousands."""
    cells = re.split(f'[{re.escape(sep)}\r\n"]+', text[:_SNIFFED])
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
            warn_caller(
                f"{path} has numbers in its first line, {listed(names[:5])}, which are read as "
                "values; `header=` reads them as names, and `header=False` confirms them"
            )
    names = names if header else list(map(str, range(len(names))))
    refuse_repeated(path, names, "; if its first line has values, pass `header=False`")
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


def holds_cells(table: pd.DataFrame) -> list[Any]:
    """Return the columns with lists in their cells."""
    names = [name for name, dtype in table.dtypes.items() if dtype == "O"]
    firsts = (next(iter(table[name].dropna()), None) for name in names)
    return [n for n, cell in zip(names, firsts, strict=True) if isinstance(cell, list | np.ndarray)]


def read_cells(table: pd.DataFrame) -> list[Any]:
    """Return series from cells with lists; frames if each column is a channel."""
    series = to_arrays(table)
    if not 1 < table.shape[1] == len(series[0]):
        return series
    return [pd.DataFrame(x.T, columns=table.columns) for x in series]


def _read_json_lines(path: Path) -> pd.DataFrame:
    """Read an object of columns from each line."""
    rows: dict[int, dict[str, Any]] = {}
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                pairs = json.loads(line, object_pairs_hook=list)
                rows[number] = dict(pairs)
                if not line.lstrip().startswith("{") or len(rows[number]) < len(pairs):
                    raise ValueError("expected an object with distinct names")
            except (ValueError, TypeError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    # As objects, whole numbers beside missing ones stay whole: they may be labels.
    return pd.DataFrame([*rows.values()], index=[*rows], dtype=object)
