"""Tables in files with types: Parquet, Feather, spreadsheets, JSON lines and ARFF."""

import json
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import shortened
from tsformer.data.containers import as_channels, from_cells
from tsformer.data.parquet import PARQUET, read_arrow
from tsformer.data.text import ending, open_text

#: Endings of the files.
FRAMES = (*PARQUET, ".feather", ".xlsx", ".jsonl", ".ndjson", ".arff")
_ATTRIBUTE = re.compile(
    r"""@attribute\s+('[^']*'|"[^"]*"|[^\s{]+)(?:\s+|(?={))(.*)""", re.IGNORECASE
)
#: A value of ARFF and the comma after it: in quotes, where a backslash escapes, or without.
_VALUE = re.compile(r"""\s*(?:'([^'\\]*(?:\\.[^'\\]*)*)'|"([^"\\]*(?:\\.[^"\\]*)*)"|([^,]*))\s*,""")
_ESCAPED = re.compile(r"\\(.)")


def read_frame(path: Path, *, header: bool = True) -> tuple[pd.DataFrame, str | None]:
    """Read a table, and the name of its class column, if declared."""
    if not path.is_file():
        raise FileNotFoundError(f"{path}: No such file")
    match ending(path):
        case ".jsonl" | ".ndjson":
            return _read_json_lines(path), None
        case ".arff":
            return _read_arff(path)
        case ".xlsx":
            return _read_spreadsheet(path, header), None
        case _:
            return read_arrow(path), None


def holds_cells(table: pd.DataFrame, names: Sequence[str] | None = None) -> list[str]:
    """Return the columns with lists in their cells."""
    chosen = table if names is None else table[list(names)]
    objects = chosen.loc[:, [dtype == "O" for dtype in chosen.dtypes]]
    lists = (list, np.ndarray)
    found = []
    for name, cells in zip(objects.columns, objects.to_numpy().T, strict=True):
        first = next((cell for cell in cells if isinstance(cell, lists) or not pd.isna(cell)), None)
        if isinstance(first, lists):
            found.append(name)
    return found


def read_cells(table: pd.DataFrame, names: Sequence[str]) -> list[Any]:
    """Return series from cells with lists; frames if each column is a channel."""
    series: list[npt.NDArray[np.float64]] = []
    for row, cells in zip(table.index, table[list(names)].itertuples(index=False), strict=True):
        what = f"row {row}"
        values = as_channels(from_cells(cells, names, what), what).astype(np.float64)
        if series and len(values) != len(series[0]):
            raise ValueError(
                f"{what} has {len(values)} channels, and the first series {len(series[0])}"
            )
        if np.isnan(values).all():
            raise ValueError(f"{what} has no value at all; drop it")
        series.append(values)
    if not 1 < len(names) == len(series[0]):
        return series
    return [pd.DataFrame(values.T, columns=list(names)) for values in series]


def _read_spreadsheet(path: Path, header: bool) -> pd.DataFrame:
    """Read the first sheet of a workbook."""
    try:
        table = pd.read_excel(
            path,
            header=0 if header else None,
            dtype=object,
            keep_default_na=False,
            engine="openpyxl",
        )
    except ImportError as error:
        raise ImportError(
            f"{path} needs openpyxl: save the sheet as CSV, or run pip install openpyxl"
        ) from error
    except (ValueError, KeyError, OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read: {error}; save the sheet as CSV") from error
    table.columns = pd.Index([str(name) for name in table.columns])
    first = 2 if header else 1
    table.index = pd.RangeIndex(first, first + len(table))
    return table.astype(object).where(table.notna() & (table != ""), None)


def _read_json_lines(path: Path) -> pd.DataFrame:
    """Read an object of columns from each line."""
    rows, numbers = [], []
    try:
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                row = json.loads(line, object_pairs_hook=_unique, parse_int=_integer)
                if not isinstance(row, dict):
                    raise ValueError(f"expected an object; got {shortened(row, 32)}")
                rows.append(row)
                numbers.append(number)
    except (ValueError, OverflowError, RecursionError) as error:
        if str(error).startswith(str(path)):  # about the encoding or the compression
            raise
        raise ValueError(f"{path}, line {number}: {error}") from error
    if not rows:
        raise ValueError(f"{path} is empty")
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: [row.get(name) for row in rows] for name in names}
    table = pd.DataFrame(columns, index=numbers, dtype=object)
    # Whole numbers beside missing values stay objects: they may be labels.
    whole = table.notna().all().to_numpy()
    inferred = table.loc[:, whole].infer_objects()
    if not whole.all():
        inferred = pd.concat([table.loc[:, ~whole], inferred], axis=1)[names]
    return inferred.copy()  # one block of columns


def _integer(text: str) -> int:
    """Return an integer; raise OverflowError beyond float64."""
    float(number := int(text))
    return number


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; raise ValueError for a repeated name."""
    for name, count in Counter(name for name, _ in pairs).items():
        if count > 1:
            raise ValueError(f"an object has {count} entries called {name!r}")
    return dict(pairs)


def _read_arff(path: Path) -> tuple[pd.DataFrame, str | None]:
    """Read attributes as columns, relational attributes as lists of lists."""
    names: list[str] = []
    kinds: list[str] = []
    lines: list[str] = []
    numbers: list[int] = []
    within, in_data = "", False
    with open_text(path) as file:
        for number, raw in enumerate(file, 1):
            line = raw.strip()
            if not line or line.startswith("%"):
                continue
            if in_data:
                lines.append(line)
                numbers.append(number)
            elif match := _ATTRIBUTE.match(line):
                if not within:
                    names.append(match[1].strip("'\""))
                    kinds.append(match[2].strip())
                    within = names[-1] if _is_relational(kinds[-1]) else ""
            elif line.lower().startswith("@end"):
                within = ""
            elif line.lower().startswith("@data"):
                in_data = True
            elif not line.lower().startswith("@relation"):
                raise ValueError(
                    f"{path}, line {number}: expected @attribute or @data; "
                    f"got {shortened(line, 32)}"
                )
    if not lines:
        raise ValueError(f"{path} has no rows after @data")
    cells = []
    for number, row in zip(numbers, map(_values, lines), strict=True):
        if row[0].startswith("{"):
            raise ValueError(f"{path}, line {number}: sparse rows are not supported; write all")
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {number}: {len(row)} values, expected {len(names)}, a value for "
                "each @attribute"
            )
        cells.append([None if cell == "?" else cell for cell in row])
    table = pd.DataFrame(cells, index=numbers, columns=names, dtype=object)
    for position, kind in enumerate(kinds):
        if kind.startswith("{"):
            _check_declared(path, table.iloc[:, position], kind)
        elif _is_relational(kind):
            column = []
            for number, cell in zip(numbers, table.iloc[:, position], strict=True):
                rows = None if cell is None else cell.replace("?", "nan").split("\n")
                try:  # each row is a channel
                    column.append(rows and [list(map(float, row.split(","))) for row in rows])
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}") from error
            table.isetitem(position, pd.array(column, dtype=object))
    return table, names[-1] if kinds[-1].startswith("{") else None


def _is_relational(kind: str) -> bool:
    return kind.lower().startswith("relational")


def _check_declared(path: Path, column: pd.Series, kind: str) -> None:
    """Raise ValueError for a value that its attribute does not declare."""
    known = _values(kind.strip("{}"))
    wrong = column.notna() & ~column.isin(known)
    if wrong.any():
        number, value = column.index[wrong][0], column[wrong].iloc[0]
        raise ValueError(
            f"{path}, line {number}: {shortened(value, 32)} is not a value that @attribute "
            f"{column.name} declares: {shortened(known, 60)}"
        )


def _values(line: str) -> list[str]:
    values = map("".join, _VALUE.findall(f"{line},"))
    return [
        _ESCAPED.sub(lambda sign: "\n" if sign[1] == "n" else sign[1], value).strip()
        for value in values
    ]
