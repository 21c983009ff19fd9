"""Files to tables: text, Parquet, Feather, spreadsheets, JSON lines and ARFF."""

import csv
import io
import json
import re
import warnings
import zipfile
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known, shortened
from tsformer._warnings import warn_caller
from tsformer.data.containers import as_channels, from_cells
from tsformer.data.parquet import PARQUET, read_arrow, refuse_repeated
from tsformer.data.text import (
    EXACT,
    MISSING,
    csv_rows,
    ending,
    has_names,
    open_text,
    separator_of,
)

#: Endings of the files that are read as text, and of those with types.
TEXT = (".csv", ".tsv", ".txt")
FRAMES = (*PARQUET, ".feather", ".xlsx", ".jsonl", ".ndjson", ".arff")
#: Lines that are examined for the separator.
_LINES = 50
_ATTRIBUTE = re.compile(
    r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{]+)(?:\s+|(?={))(.*)""", re.IGNORECASE
)
#: A value of ARFF and the comma after it: in quotes, where a backslash escapes, or without.
_VALUE = re.compile(r"""\s*(?:'([^'\\]*(?:\\.[^'\\]*)*)'|"([^"\\]*(?:\\.[^"\\]*)*)"|([^,]*))\s*,""")
_ESCAPED = re.compile(r"\\(.)")


class Frame(NamedTuple):
    """A table as in its file; the index has the numbers of the rows or lines."""

    rows: pd.DataFrame
    #: The class column, if the file declares one.
    label: str | None = None
    #: Whether the columns have names.
    header: bool = True


def read_frame(
    path: Path,
    *,
    texts: Sequence[str] | None = (),
    named: Sequence[str] = (),
    header: bool | None = None,
    sep: str | None = None,
    decimal: str | None = None,
) -> Frame:
    """Read a table; in a text file the columns `texts`, None for all, are text.

    `named` columns that its first line has make it a header.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: No such file")
    match ending(path):
        case ".jsonl" | ".ndjson":
            frame = Frame(_read_json_lines(path))
        case ".arff":
            frame = _read_arff(path)
        case ".xlsx":
            frame = Frame(_read_spreadsheet(path, header is not False))
        case kind if kind in FRAMES:
            frame = Frame(read_arrow(path))
        case _:
            frame = _read_text(path, texts, named, header, sep, decimal)
    empty = frame.rows.isna().all(axis=1)
    if empty.all():
        raise ValueError(f"{path} has the names of columns, but no rows")
    if not empty.any():
        return frame
    warn_caller(
        f"{int(empty.sum())} blank rows of {path} are skipped, such as row "
        f"{frame.rows.index[empty][0]}"
    )
    return frame._replace(rows=frame.rows[~empty].copy())


def _read_text(
    path: Path,
    texts: Sequence[str] | None,
    named: Sequence[str],
    header: bool | None,
    sep: str | None,
    decimal: str | None,
) -> Frame:
    with open_text(path) as file:
        text = file.read()
    if "\0" in text:  # pandas cuts text there
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(f"{path} is not UTF-8 text: line {line} has a NUL character")
    usual = "\t" if ending(path) == ".tsv" else ","
    found, stated = separator_of(list(islice(io.StringIO(text, newline=""), _LINES)), usual)
    guessed = sep is None and not stated and found != usual
    sep = sep or found
    try:
        lines = io.StringIO(text, newline="")
        if stated:
            lines.readline()
        before, rows = int(stated), csv_rows(lines, sep)
        for names in rows:
            if any(map(str.strip, names)):
                break
            before = stated + rows.line_num
        else:
            raise ValueError(f"{path} is empty")
        sign = decimal or ("," if sep == ";" else ".")
        if header is None:
            header, certain = has_names(names, named=named, decimal=sign)
            if not header or not certain:
                read_as = "column names, but has numbers" if header else "values"
                warn_caller(
                    f"{path} {'may have' if header else 'seems to have'} no header: its first "
                    f"line, {listed(names, 5)}, is read as {read_as}. Pass `header=True` or "
                    "`header=False`"
                )
        names = names if header else list(map(str, range(len(names))))
        refuse_repeated(path, names)
        if guessed:
            warn_caller(f"columns of {path} are separated by {sep!r}; `sep=` changes it")
        as_text = names if texts is None else [name for name in names if name in texts]
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                io.StringIO(text, newline=""),
                sep=r"\s+" if sep == " " else sep,
                header=0 if header else None,
                names=None if header else names,
                skiprows=before,
                skipinitialspace=sep != "\t",
                keep_default_na=False,
                na_values=MISSING,
                converters=dict.fromkeys(as_text, str.strip),  # missing values are words there
                index_col=False,  # else the first column is one, where rows have too many fields
                decimal=decimal or ".",
                low_memory=False,
                **EXACT,
            ).copy()  # one block: reading many columns is fast
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        if isinstance(error, pd.errors.ParserWarning):
            reason = "rows have more fields than the first line"
        raise ValueError(
            f"{path} cannot be read as a table: {reason}. `sep=` changes its separator, {sep!r}"
        ) from error
    first = before + (2 if header else 1)
    table.index = pd.RangeIndex(first, first + len(table))
    table.columns = pd.Index(names)  # without the names that pandas gives
    for name in as_text:
        table[name] = table[name].astype(object).where(table[name] != "", None)
    return Frame(table, header=header)


def listed(names: Any, most: int = 20) -> str:
    """Return names for a message."""
    names = list(names)
    shown = ", ".join(shortened(name, 60) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names):,} columns)"


def holds_cells(table: pd.DataFrame, names: Sequence[str] | None = None) -> list[str]:
    """Return the columns with lists in their cells."""
    chosen = table if names is None else table[list(names)]
    objects = chosen.loc[:, [dtype == "O" for dtype in chosen.dtypes]]
    lists = (list, np.ndarray)
    found = []
    for name, cells in zip(objects.columns, objects.to_numpy().T, strict=True):
        known = (cell for cell in cells if isinstance(cell, lists) or not pd.isna(cell))
        found += [name] if isinstance(next(known, 0), lists) else []
    return found


def read_cells(table: pd.DataFrame, names: Sequence[str]) -> list[Any]:
    """Return series from cells with lists; frames if each column is a channel."""
    series: list[npt.NDArray[np.float64]] = []
    for row, cells in zip(table.index, table[list(names)].itertuples(index=False), strict=True):
        values = as_channels(from_cells(cells, names, f"row {row}"), f"row {row}").astype(float)
        if len(values) != len((series or [values])[0]):
            raise ValueError(
                f"row {row} has {len(values)} channels, and the first series {len(series[0])}"
            )
        if np.isnan(values).all():
            raise ValueError(f"row {row} has no value at all; drop it")
        series.append(values)
    if not 1 < len(names) == len(series[0]):
        return series
    return [pd.DataFrame(values.T, columns=list(names)) for values in series]


def _read_spreadsheet(path: Path, header: bool) -> pd.DataFrame:
    """Read the first sheet of a workbook."""
    try:
        options: Any = {"dtype": object, "keep_default_na": False, "engine": "openpyxl"}
        table = pd.read_excel(path, header=None, **options)
    except ImportError as error:
        raise ImportError(
            f"{path} needs openpyxl: save the sheet as CSV, or run pip install openpyxl"
        ) from error
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {error}; save the sheet as CSV") from error
    table.index += 1
    table = table.where(table.notna() & (table != ""), None)
    if header and len(table):
        table, names = table[1:], ["" if name is None else str(name) for name in table.iloc[0]]
        refuse_repeated(path, names)
        return table.set_axis(names, axis=1).copy()
    return table.rename(columns=str)


def _read_json_lines(path: Path) -> pd.DataFrame:
    """Read an object of columns from each line."""
    rows: dict[int, dict[str, Any]] = {}
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                rows[number] = json.loads(line, object_pairs_hook=_object)
                if not isinstance(rows[number], dict):
                    raise ValueError(f"expected an object; got {shortened(rows[number], 32)}")
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    if not rows:
        raise ValueError(f"{path} is empty")
    # As objects, whole numbers beside missing ones stay whole: they may be labels.
    return pd.DataFrame([*rows.values()], index=[*rows], dtype=object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON; raise ValueError for a repeated name."""
    if len(row := dict(pairs)) < len(pairs):
        raise ValueError(f"an object has a name twice, of {shortened([*row], 60)}")
    return row


def _read_arff(path: Path) -> Frame:
    """Read attributes as columns, relational attributes as lists of channels."""
    kinds: dict[str, Any] = {}  # the declared values, or "numeric" and the like
    rows: dict[int, list[Any]] = {}
    nested, in_data = False, False
    with open_text(path) as file:
        for number, raw in enumerate(file, 1):
            line = raw.strip()
            if not line or line.startswith("%"):
                continue
            problem = ""
            if in_data:
                cells = rows[number] = _values(line)
                if line.startswith("{"):
                    problem = "sparse rows are not supported; write all"
                elif len(cells) != len(kinds):
                    problem = f"{len(cells)} values, expected {len(kinds)}, one per @attribute"
                for i, (name, kind) in enumerate(kinds.items() if not problem else ()):
                    try:
                        cells[i] = _arff_value(cells[i], kind)
                    except ValueError as error:
                        problem = f"{name}: {error}"
            elif match := _ATTRIBUTE.match(line):
                name = match[1].strip("'\"")
                if not nested:
                    refuse_repeated(path, [name] * (1 + (name in kinds)))
                    kind = match[2].strip()
                    kinds[name] = _values(kind.strip("{}")) if kind[:1] == "{" else kind.lower()
                    nested = kind.lower().startswith("relational")
            elif line.lower().startswith("@end"):
                nested = False
            elif line.lower().startswith("@data"):
                in_data = True
            elif not line.lower().startswith("@relation"):
                problem = f"expected @attribute or @data; got {shortened(line, 32)}"
            if problem:
                raise ValueError(f"{path}, line {number}: {problem}")
    if not rows:
        raise ValueError(f"{path} has no rows after @data")
    table = pd.DataFrame([*rows.values()], index=[*rows], columns=[*kinds], dtype=object)
    *_, (last, kind) = kinds.items()
    return Frame(table, label=last if isinstance(kind, list) else None)


def _arff_value(text: str, kind: Any) -> Any:
    """Check a value of an attribute; make channels of a relational one."""
    if text == "?":
        return None
    if isinstance(kind, list):
        check_known("value", text, kind)
    elif kind.startswith("relational"):
        rows = text.replace("?", "nan").split("\n")
        return [list(map(float, row.split(","))) for row in rows]
    return text


def _values(line: str) -> list[Any]:
    values = map("".join, _VALUE.findall(f"{line},"))
    return [_ESCAPED.sub(lambda m: "\n" if m[1] == "n" else m[1], v).strip() for v in values]
