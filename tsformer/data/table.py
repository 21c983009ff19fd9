"""Tables in files: which column holds what, and the series in them.

A long table has one row per observation, a wide one has one series per row. Labels and names of
series are text, spelled as in the file without blanks around them, so that ``007`` is not ``7``;
an empty cell is a missing one. The messages of this module name the options of the command line,
which it serves.
"""

from __future__ import annotations

import csv
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known, nearest, shortened
from tsformer._optional import require
from tsformer._warnings import warn_caller
from tsformer.data.formats import FRAMES, holds_cells, read_cells, read_frame
from tsformer.data.layout import (
    id_columns,
    is_named_like_time,
    is_out_of_order,
    refuse_nul,
)
from tsformer.data.long import from_long
from tsformer.data.parquet import PARQUET, refuse_repeated
from tsformer.data.text import (
    EXACT,
    MISSING,
    ending,
    first_cells,
    has_names,
    number_in,
    open_text,
    stated_separator,
    unpacking,
)
from tsformer.data.times import ordered_times, utc_offset

#: Endings of the files that are read as text.
TEXT = (".csv", ".tsv", ".txt")
#: A wide table with fewer columns of values is probably a long table.
_FEW_STEPS = 10


@dataclass(frozen=True)
class TableSchema:
    """The roles of the columns of a table, and how its text is written."""

    case: str | None = None
    time: str | None = None
    value: tuple[str, ...] | None = None
    channel: str | None = None
    label: str | None = None
    group: str | None = None
    header: bool | None = None
    sep: str | None = None
    decimal: str | None = None
    time_format: str | None = None

    def __post_init__(self) -> None:
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise ValueError(
                f"--sep takes a single character, 'tab' or 'space'; got {shortened(self.sep, 32)}"
            )
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"--decimal takes '.' or ','; got {shortened(self.decimal, 32)}")

    def check(self) -> None:
        """Raise ValueError if the roles of the columns do not fit together."""
        for name, count in Counter(self.columns).items():
            if count > 1:
                raise ValueError(f"column {name!r} is named {count} times; each has one role")
        if self.time is not None and self.case is None:
            raise ValueError("--time needs --case, the column that identifies a series")
        for flag in ("channel", "time_format"):
            if getattr(self, flag) is not None and self.time is None:
                raise ValueError(
                    f"--{flag.replace('_', '-')} is for long tables; name the column of times with "
                    "--time"
                )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are named, in any role."""
        named = (self.case, self.time, self.channel, *(self.value or ()), self.label, self.group)
        return tuple(name for name in named if name is not None)

    def __bool__(self) -> bool:
        return self != TableSchema()

    def updated(self, other: TableSchema) -> TableSchema:
        """Return this schema, overridden by the fields of `other`."""
        said = {f.name: getattr(other, f.name) for f in fields(other)}
        return replace(self, **{name: value for name, value in said.items() if value is not None})

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that are set, ready for JSON."""
        said = {name: value for name, value in asdict(self).items() if value is not None}
        return said | ({} if self.value is None else {"value": list(self.value)})

    @classmethod
    def from_dict(cls, described: Any) -> TableSchema:
        """Restore a schema from `as_dict`."""
        if not isinstance(described, dict):
            raise ValueError(f"must be an object; got {shortened(described)}")
        known = [field.name for field in fields(cls)]
        for name, said in described.items():
            check_known("entry", name, known)
            if name == "header":
                if not isinstance(said, bool):
                    raise ValueError(f"{name} is not true or false: {shortened(said)}")
                continue
            texts = said if name == "value" else [said]
            if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{name} is not text: {shortened(said)}")
        value = {"value": tuple(described["value"])} if "value" in described else {}
        return cls(**described | value)


class Source(NamedTuple):
    """Series with labels, names, schema and groups, as far as known."""

    X: Any
    #: Text, or objects if some labels are None.
    y: npt.NDArray[Any] | None
    cases: list[str] | None = None
    schema: TableSchema | None = None
    groups: npt.NDArray[np.str_] | None = None


def read_table(
    path: Path,
    schema: TableSchema,
    *,
    labelled: bool | None,
    by_model: bool = False,
) -> Source:
    """Read the series of a file."""
    schema.check()
    table = None
    if ending(path) in FRAMES:
        table, label = read_frame(path)
        cells = holds_cells(table) if schema.time is None and schema.value is None else []
        schema = replace(schema, label=schema.label or label, value=tuple(cells) or schema.value)
    labelled = schema.label is not None if labelled is None else labelled
    if table is None:
        schema, table = _read_text(path, schema, labelled, by_model)
    else:
        schema = _complete(schema, list(table.columns), path, labelled, by_model)
    if table.empty:
        raise ValueError(f"{path} has the names of columns, but no rows")
    for name in (schema.case, schema.channel, schema.label if labelled else None, schema.group):
        if name is not None:
            stripped = table[name].astype(str).astype(object).str.strip()
            table[name] = stripped.where(table[name].notna() & (stripped != ""), None)
            refuse_nul(table[name], f"{path}: column {name!r}")
    cells = holds_cells(table, schema.value) if schema.time is None else []
    if len(cells) > 1 and (times := list(filter(is_named_like_time, cells))):
        warn_caller(
            f"the lists in {_listed(times)} of {path} are read as channels, but are named like "
            "times; --value names the channels"
        )
    if not cells:
        table = _numbers(table, schema, path)
    if labelled and table[schema.label].isna().any():
        row = table.index[table[schema.label].isna()][0]
        of = "" if schema.case is None else f" of series {table[schema.case][row]!r}"
        raise ValueError(
            f"{path}, row {row}: no label{of} in column {schema.label!r}; drop the series, or "
            "pretrain on it with `tsformer pretrain`"
        )
    try:
        X, y, cases = (_wide if schema.time is None else _long)(table, schema, labelled)
        groups = _groups(table, schema)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if y is None:
        return Source(X, None, cases, schema, groups)
    texts = [None if pd.isna(label) else label for label in y]
    labels = np.array(texts, dtype=object if None in texts else None)
    return Source(X, labels, cases, schema, groups)


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table to a text file or to Parquet."""
    if ending(path) in PARQUET:
        require("pyarrow", extra="parquet", purpose=f"writing {path}")
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if ending(path) == ".tsv" else ",")


def _long(
    table: pd.DataFrame, schema: TableSchema, labelled: bool
) -> tuple[list[pd.DataFrame], pd.Series | None, list[str]]:
    assert schema.case is not None
    assert schema.time is not None
    assert schema.value is not None
    table = table.assign(**{schema.time: _times(table[schema.time], schema.time_format)})
    found = from_long(
        table,
        case=schema.case,
        time=schema.time,
        value=schema.value if schema.channel is None else schema.value[0],
        channel=schema.channel,
        label=schema.label if labelled else None,
    )
    X, y = found if isinstance(found, tuple) else (found, None)
    cases = table[schema.case].unique().tolist()
    for case, x in zip(cases, X, strict=True):
        if x.isna().all(axis=None):
            raise ValueError(f"series {case!r} has no value at all; drop it")
    return X, y, cases


def _wide(
    table: pd.DataFrame, schema: TableSchema, labelled: bool
) -> tuple[
    list[npt.NDArray[np.float64]] | npt.NDArray[np.float64], pd.Series | None, list[str] | None
]:
    X: list[npt.NDArray[np.float64]] | npt.NDArray[np.float64]
    if holds_cells(table, schema.value):
        X = read_cells(table, schema.value or ())
    else:
        values = table[list(schema.value or ())].to_numpy(dtype=np.float64, na_value=np.nan)
        without = np.isnan(values).all(axis=1)
        if without.any():
            raise ValueError(f"row {table.index[without][0]} has no value at all; drop it")
        X = values[:, None]
    y = table[schema.label] if labelled else None
    if schema.case is None:
        return X, y, None
    names = table[schema.case]
    if names.isna().any():
        raise ValueError(f"no name in column {schema.case!r} of row {names.index[names.isna()][0]}")
    if names.duplicated().any():
        twice = names[names.duplicated()].iloc[0]
        raise ValueError(
            f"several rows for {twice!r}. In a wide table each row is a series; for a long one, "
            "name the column of times with --time"
        )
    return X, y, names.tolist()


def _groups(table: pd.DataFrame, schema: TableSchema) -> npt.NDArray[np.str_] | None:
    """Return the group of each series, in the order of the series."""
    if schema.group is None:
        return None
    column = table[schema.group]
    if column.isna().any():
        raise ValueError(f"row {column.index[column.isna()][0]}: no group in {schema.group!r}")
    if schema.time is None:
        return np.array(column.tolist())
    by_case = column.groupby(table[schema.case], sort=False)
    several = by_case.nunique() > 1
    if several.any():
        case = several.index[several][0]
        named = ", ".join(map(repr, column[table[schema.case] == case].unique()[:5]))
        raise ValueError(
            f"series {case!r} is in several groups: {named}; column {schema.group!r} must have one "
            "group per series"
        )
    return np.array(by_case.first().tolist())


def _complete(
    schema: TableSchema, names: list[str], path: Path, labelled: bool, by_model: bool
) -> TableSchema:
    """Return the schema with columns of values; refuse missing columns."""
    if labelled and schema.label is None:
        long = (
            ""
            if schema.time
            else "; for a table with one row per observation, --case and --time too"
        )
        raise ValueError(
            f"name the column of {path} that has the labels, with --label{long}. "
            f"It has {_listed(names)}"
        )
    refuse_repeated(path, names)
    named, known = set(schema.columns), {*names, *(() if labelled else (schema.label,))}
    missing = [name for name in schema.columns if name not in known]
    if missing and by_model and schema.header is False and len(names) == len(known | named) - 1:
        raise ValueError(
            f"{path} has {len(names)} columns, and the model was trained on {len(names) + 1}: "
            f"column {schema.label}, the label, is missing, and without names columns are known by "
            "their positions. Add it; predict ignores its values"
        )
    if missing:
        _refuse_missing(missing, names, path, by_model, schema.header)
    others = [name for name in names if name not in named]
    if schema.value is None:
        if "" in others:
            warn_caller(
                f"column {names.index('') + 1} of {path} has no name and is left out; if it has "
                "the names of the series, give it one, and name it with --case"
            )
        schema = replace(schema, value=tuple(name for name in others if name))
        if not schema.value:
            raise ValueError(f"{path} has no columns of values: {_listed(names)}")
        if schema.time is None and len(schema.value) < _FEW_STEPS:
            warn_caller(
                f"each row of {path} is read as a series of {len(schema.value)} steps: "
                f"{_listed(schema.value)}. For a table with one row per observation, name its "
                "columns with --case and --time"
            )
        elif schema.time is None and (columns := id_columns(schema.value)):
            warn_caller(
                f"{path} has columns that are read as steps, but are named like ids, or not as "
                f"other steps: {_listed(columns)}. Name the column of ids with --case, and the "
                "columns of steps with --value"
            )
        elif schema.time is None and is_out_of_order(schema.value):
            warn_caller(
                f"the columns of {path} are read as steps, but are not in the order of their "
                f"numbers: {_listed(schema.value, 5)}. --value names them in order"
            )
    elif schema.time is None and by_model and [name for name in others if name]:
        warn_caller(
            f"{path} has columns that the model was not trained on and that are left out: "
            f"{_listed([name for name in others if name])}"
        )
    if schema.channel is not None and len(schema.value or ()) != 1:
        raise ValueError(
            f"with --channel one column has the values of all channels; name it with --value. "
            f"{path} has {_listed(list(schema.value or ()))}"
        )
    return schema


def _refuse_missing(
    missing: list[str], names: list[str], path: Path, by_model: bool, header: bool | None
) -> NoReturn:
    said = []
    for name in missing[:10]:
        near = nearest(name, names) if header is not False and len(missing) <= 3 else []
        said.append(f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name))
    if len(missing) > 10:
        said.append(f"{len(missing) - 10} more")
    trained = " that the model was trained on" if by_model else ""
    hint = f" It has {_listed(names)}"
    other = next((sep for sep in ";\t|, " if len(names) == 1 and sep in names[0].strip()), None)
    if other:
        spelled = {"\t": "tab", " ": "space"}.get(other, repr(other))
        hint += f". If that is its separator, add --sep {spelled}"
    elif header is False:
        hint += ", the positions of its columns: it has no header"
    elif any(number_in(name) is not None for name in names):
        hint += ". If its first line has values, add --no-header, and name columns 0, 1, ..."
    raise ValueError(
        f"{path} lacks the column{'s' * (len(missing) > 1)}{trained}: {', '.join(said)}.{hint}"
    )


def _read_text(
    path: Path, schema: TableSchema, labelled: bool, by_model: bool
) -> tuple[TableSchema, pd.DataFrame]:
    try:
        stated = stated_separator(path)
        sep = schema.sep or stated or ("\t" if ending(path) == ".tsv" else ",")
        with open_text(path) as file:  # pandas cuts text at a NUL character
            for number, line in enumerate(file, 1):
                if "\0" in line:
                    raise ValueError(
                        f"{path} is not UTF-8 text; save it in UTF-8: line {number} has a NUL "
                        "character"
                    )
        before, names = first_cells(path, sep, after=0 if stated is None else 1)
        if not names:
            raise ValueError(f"{path} is empty")
        header = _find_header(path, schema, names)
        if not header:
            names = [str(position) for position in range(len(names))]
            schema = replace(schema, header=False)
        schema = _complete(schema, names, path, labelled, by_model)
        time = None if schema.time_format is None else schema.time
        asked = {schema.case, schema.channel, schema.label, schema.group, time}
        texts = [name for name in names if name in asked]
        options: dict[str, Any] = {
            "sep": r"\s+" if sep == " " else sep,
            "header": 0 if header else None,
            "names": None if header else names,
            "skiprows": before,
            "encoding": "utf-8-sig",
            "skipinitialspace": sep != "\t",
            "keep_default_na": False,
            "index_col": False,  # else the first column is one, where rows have too many fields
        }
        with warnings.catch_warnings(), unpacking(path):
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                path,
                **options,
                **EXACT,
                decimal=schema.decimal or ".",
                dtype=dict.fromkeys(texts, str),
                na_values=MISSING,
                low_memory=False,
            )
            # Missing values by column would take pandas longer than to read many columns.
            words = pd.read_csv(path, **options, usecols=texts, dtype=str)
            table = table.copy()  # one block: reading many columns is fast
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        if isinstance(error, pd.errors.ParserWarning):
            reason = "rows have more fields than the first line"
        raise ValueError(
            f"{path} cannot be read as a table: {reason}. Its separator is taken to be {sep!r}; "
            "--sep changes it"
        ) from error
    first = before + (2 if header else 1)
    table.index = pd.RangeIndex(first, first + len(table))
    for name in texts:
        cells = words[name].str.strip()
        table[name] = cells.mask(cells == "").array
    return schema, table


def _find_header(path: Path, schema: TableSchema, cells: list[str]) -> bool:
    """Tell whether the first line has names; warn if unsure."""
    if schema.header is not None:
        return schema.header
    header, certain = has_names(cells, named=schema.columns, decimal=schema.decimal or ".")
    if not header:
        warn_caller(
            f"{path} seems to have no header: its first line is read as values, and columns are "
            "named 0, 1, ... Pass --no-header if this is right, --header if the first line names "
            "the columns"
        )
    elif not certain:
        warn_caller(
            f"the first line of {path} is read as column names, but has numbers: "
            f"{_listed(cells, 5)}. Pass --header if this is right, --no-header if they are values"
        )
    return header


def _numbers(table: pd.DataFrame, schema: TableSchema, path: Path) -> pd.DataFrame:
    """Convert the columns of values to numbers, or name a bad cell."""
    values = table[list(schema.value or ())]
    kinds = [getattr(dtype, "kind", "O") for dtype in values.dtypes]
    texts = values.loc[:, [kind not in "fiub" for kind in kinds]]
    if texts.shape[1]:
        cells = texts.to_numpy(dtype=object).ravel()  # all at once: there may be 100,000 columns
        # With decimal commas 1.234 is ambiguous: it may mean 1234.
        swapped = {ord(","): ".", ord("."): ","} if schema.decimal == "," else {}
        plain = [cell.translate(swapped) if isinstance(cell, str) else cell for cell in cells]
        given = pd.Series(plain, dtype=object).replace(MISSING, None)
        found = pd.to_numeric(given, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        numbers = found.reshape(texts.shape)
        wrong = np.isnan(numbers) & given.notna().to_numpy().reshape(texts.shape)
        if wrong.any():
            column, row = np.argwhere(wrong.T)[0].tolist()
            cell = texts.iloc[row, column]
            hint = "--value names the columns of values, --case, --time and --label others"
            sign, point = (".", "points") if schema.decimal == "," else (",", "commas")
            plain_cell = cell.replace(sign, "") if isinstance(cell, str) else ""
            if number_in(plain_cell, schema.decimal or ".") is not None:
                hint = f"for decimal {point} add --decimal {sign}; remove {point} between thousands"
            raise ValueError(
                f"{path}, row {table.index[row]}: {shortened(cell, 32)} in column "
                f"{texts.columns[column]!r} is not a number; {hint}"
            )
        numeric = pd.DataFrame(numbers, table.index, texts.columns)
        table = pd.concat([table.drop(columns=texts.columns), numeric], axis=1)
    infinite = np.isinf(table[list(values)].to_numpy(dtype=np.float64, na_value=np.nan))
    if infinite.any():
        row, column = np.argwhere(infinite)[0].tolist()
        raise ValueError(
            f"{path}, row {table.index[row]}: the value in column {values.columns[column]!r} is "
            "infinite; leave the cell empty if it is missing"
        )
    return table


def _times(column: pd.Series, time_format: str | None) -> pd.Series:
    """Convert times to a sortable type, or name a bad cell."""
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype) and not dtype.ordered:  # Parquet's repeated text
        column = column.astype(dtype.categories.dtype)
    if pd.api.types.infer_dtype(column, skipna=True) != "string":
        return pd.Series(ordered_times(column, f"times in column {column.name!r}"), column.index)
    if time_format is None:
        offsets = column.map(utc_offset, na_action="ignore")
        zoned = bool((offsets.fillna("") != "").any())
    else:
        offsets, zoned = None, "%z" in time_format.lower()
    dates = pd.to_datetime(column, format=time_format or "ISO8601", errors="coerce", utc=zoned)
    wrong = column.notna() & dates.isna()
    expected = f"not a date of --time-format {time_format!r}"
    if offsets is not None:
        wrong |= column.notna() & offsets.isna()
        # Among numbers the cell that is neither is meant, not the first.
        neither = wrong & pd.to_numeric(column, errors="coerce").isna()
        wrong = neither if neither.any() else wrong
        expected = (
            "neither a number nor a date such as 2024-12-31 or 2024-12-31T23:59:00; for other "
            "dates say how they are written, as in --time-format '%d/%m/%Y %H:%M'"
        )
        if zoned and not wrong.any():
            wrong, expected = offsets == "", "without an offset from UTC, which other times have"
    if wrong.any():
        row = column.index[wrong][0]
        raise ValueError(
            f"row {row}: {shortened(column[row], 32)} in column {column.name!r} is {expected}"
        )
    return dates


def _listed(names: Iterable[str], most: int = 20) -> str:
    names = list(names)
    shown = ", ".join(shortened(name, 60) for name in names[:most])
    return shown if len(names) <= most else f"{shown}, ... ({len(names):,} columns)"
