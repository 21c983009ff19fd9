"""Tables in files: which column holds what, and the series in them.

A long table has one row per observation, a wide one has one series per row. Labels and names of
series are text, spelled as in the file without blanks around them, so that ``007`` is not ``7``;
an empty cell is a missing one. Messages name the fields of `TableSchema` as in ```label=```.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, get_type_hints

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known, nearest, read_fields, shortened
from tsformer._optional import require
from tsformer._warnings import warn_caller
from tsformer.data.formats import FRAMES, TEXT, holds_cells, listed, read_cells, read_frame
from tsformer.data.layout import (
    is_named_like_time,
    is_out_of_order,
    odd_columns,
    refuse_nul,
    refuse_recording,
)
from tsformer.data.long import from_long
from tsformer.data.parquet import PARQUET
from tsformer.data.text import MISSING, ending, number_in
from tsformer.data.times import times_of_text
from tsformer.data.windows import Windows, windows

#: A wide table with fewer columns of values is probably a long table.
_FEW_STEPS = 10
#: A number with a decimal comma, and one whose comma may also be between thousands.
_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
_STEPS = re.compile(r"-?[0-9]+")
_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2},\d{3}")


@dataclass(frozen=True)
class TableSchema:
    """The roles of the columns of a table, and how its text is written.

    `value` and `drop` may have ranges of columns, ``"t0:t29"``, and patterns, ``"t*"``. `labels` is
    a second file with the columns `label` or `group`, joined by `case`. With `window`, the rows are
    the steps of recordings, which are cut: `window` and `stride` are steps, or times such as "10s".
    """

    case: str | None = None
    time: str | None = None
    value: tuple[str, ...] | None = None
    drop: tuple[str, ...] | None = None
    channel: str | None = None
    label: str | None = None
    labels: str | None = None
    group: str | None = None
    grid: str | None = None
    header: bool | None = None
    sep: str | None = None
    decimal: str | None = None
    time_format: str | None = None
    window: str | None = None
    stride: str | None = None

    def __post_init__(self) -> None:
        if self.sep is not None and (len(self.sep) != 1 or self.sep in '"\r\n'):
            raise ValueError(
                f"`sep=` is a single character, 'tab' or 'space'; got {shortened(self.sep, 32)}"
            )
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"`decimal=` is '.' or ','; got {shortened(self.decimal, 32)}")

    def check(self) -> None:
        """Raise ValueError if the roles of the columns do not fit together."""
        for name, count in Counter(self.columns).items():
            if count > 1:
                raise ValueError(f"column {name!r} is named {count} times; each has one role")
        cut, case = self.window is not None, "needs `case=`, the column that identifies a series"
        long = "is for long tables; name the column of times, `time=`"
        uncut = "is for tables of series; leave it out of windows"
        for name, allowed, problem in (
            *((name, not cut, uncut) for name in ("channel", "grid", "labels")),
            ("stride", cut, "needs `window=`, the length of the windows of a recording"),
            ("time", cut or self.case, f"{case}; a recording is cut into series by `window=`"),
            *((name, cut or self.time, long) for name in ("channel", "time_format", "grid")),
            ("labels", cut or self.case, case),
        ):
            if getattr(self, name) is not None and not allowed:
                raise ValueError(f"`{name}=` {problem}")

    @property
    def cut(self) -> tuple[Any, Any]:
        """Length and stride of windows, by default without overlap."""
        return steps_or_time(self.window), steps_or_time(self.stride or self.window)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are named, in any role."""
        named = (self.case, self.time, self.channel, *(self.value or ()), self.label, self.group)
        return tuple(name for name in named if name is not None)

    def __bool__(self) -> bool:
        return self != TableSchema()

    def updated(self, other: TableSchema) -> TableSchema:
        """Return this schema, overridden by the fields of `other`."""
        return replace(self, **{k: v for k, v in vars(other).items() if v is not None})

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that are set, ready for JSON."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_dict(cls, described: Any) -> TableSchema:
        """Restore a schema from `as_dict`."""
        filled = vars(cls()) | described if isinstance(described, dict) else described
        found = read_fields(filled, "table", **_TYPES)
        several: dict[str, Any] = {
            n: tuple(found[n]) for n in ("value", "drop") if found[n] is not None
        }
        return cls(**found | several)


#: Resolved at import, so that loading a model compiles nothing.
_TYPES = get_type_hints(TableSchema)


def steps_or_time(text: str | None) -> int | str | None:
    """Read a number of steps; leave a time as text."""
    return int(text) if text is not None and _STEPS.fullmatch(text) else text


class Source(NamedTuple):
    """Series with labels, names, schema and groups, as far as known."""

    X: Any
    #: Text.
    y: npt.NDArray[Any] | None
    cases: list[str] | None = None
    schema: TableSchema | None = None
    groups: npt.NDArray[np.str_] | None = None
    #: Where the series come from, if they are windows.
    windows: Windows | None = None


def read_windows(
    path: Path, schema: TableSchema, *, labelled: bool | None, trained: bool = False
) -> Source:
    """Cut the recordings in a file, or in the files of a folder, into windows."""
    schema.check()
    labelled = schema.label is not None if labelled is None else labelled
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if ending(file) in (*TEXT, *FRAMES))
    grouped = schema.group is not None and not trained
    frames: dict[str, pd.DataFrame] = {}
    labels: dict[Any, Any] = {}
    for file in files:
        read, table = _read(file, schema)
        if trained:  # a new recording needs no names
            absent = {role for role in ("case", "group") if getattr(read, role) not in table}
            read = replace(read, **dict.fromkeys(absent, None))
        read, table = _complete(read, table, file, labelled, trained)
        read, table = _with_times(read, _numbers(table, read, file), file)
        by = read.case or read.group
        if by is not None:
            _refuse_empty(file, table, by, "name")
        steps = table if read.time is None else table.set_index(read.time)
        for part, rows in [("", steps)] if by is None else steps.groupby(by, sort=False):
            name = f"{file.name if len(files) > 1 else ''} {part}".strip() or file.stem
            rows = rows.reset_index(drop=True) if read.time is None else rows
            labels[name] = rows[read.label].to_numpy() if read.label in rows else None
            frames[name] = rows[[*(read.value or ()), *([schema.group] if grouped else [])]]
        schema = replace(read, case=schema.case, group=schema.group)
    groups = schema.group if grouped else None
    try:
        cut = windows(frames, labels if labelled else None, *schema.cut, groups=groups)
    except ValueError as error:
        raise ValueError(f"{path}: {re.sub('^length', 'window', str(error))}") from error
    if not labelled:  # to compare predictions with
        known = {name: replace(cut.recordings[name], labels=each) for name, each in labels.items()}
        cut = replace(cut, recordings=known)
    return Source(cut.X, cut.y, None, schema, cut.groups.astype(str), cut)


def read_table(
    path: Path, schema: TableSchema, *, labelled: bool | None, by_model: bool = False
) -> Source:
    """Read the series of a file."""
    schema.check()
    schema, table = _read(path, schema)
    if schema.labels is not None and labelled is not False:
        schema, table = _joined(schema, table, path)
    schema, table = _complete(schema, table, path, labelled, by_model)
    labelled = schema.label is not None if labelled is None else labelled
    for name, role in ((schema.label if labelled else None, "label"), (schema.group, "group")):
        if name is not None:
            _refuse_empty(path, table, name, role, schema.case)
    y = table[schema.label] if labelled else None
    groups = None if schema.group is None else table[schema.group]
    cases: Any = None
    try:
        if schema.time is None:
            X = _wide(table, schema, path, y)
            if schema.case is not None:
                _refuse_empty(path, table, schema.case, "name")
                cases = table[schema.case]
                if not cases.is_unique:
                    raise ValueError(
                        f"several rows for {cases[cases.duplicated()].iloc[0]!r}. In a wide table "
                        "each row is a series; for a long one, name the column of times, `time=`"
                    )
        else:
            schema, table = _with_times(schema, _numbers(table, schema, path), path)
            roles = {r: getattr(schema, r) for r in ("case", "time", "channel", "group", "grid")}
            value = (schema.value or ())[0 if schema.channel else slice(None)]
            label = schema.label if labelled else None
            found = from_long(table, value=value, label=label, **roles)
            X, *found = found if isinstance(found, tuple) else (found,)
            y = found[0] if labelled else None
            groups = None if groups is None else found[-1]
            cases = pd.Series([x.attrs["case"] for x in X])
            for case, x in zip(cases, X, strict=True):
                if x.isna().all(axis=None):
                    raise ValueError(f"series {case!r} has no value at all; drop it")
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        advice = re.sub(r"tsformer\.data\.windows.*", "`window=` and `stride=`", str(error))
        raise ValueError(f"{path}: {advice}") from error
    labels, numbers = (None if each is None else np.array(each.tolist()) for each in (y, groups))
    cases = None if cases is None else cases.tolist()
    return Source(X, labels, cases, replace(schema, labels=None), numbers)


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table to a text file or to Parquet."""
    if ending(path) in PARQUET:
        require("pyarrow", extra="parquet", purpose=f"writing {path}")
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if ending(path) == ".tsv" else ",")


def _read(path: Path, schema: TableSchema) -> tuple[TableSchema, pd.DataFrame]:
    """Read the rows of a file, and what it declares."""
    time = None if schema.time_format is None else schema.time
    roles = (schema.case, schema.channel, schema.label, schema.group, time)
    texts = [name for name in roles if name is not None]
    how: Any = {name: getattr(schema, name) for name in ("header", "sep", "decimal")}
    frame = read_frame(path, texts=texts, named=schema.columns, **how)
    label, header = schema.label or frame.label, schema.header if frame.header else False
    return replace(schema, label=label, header=header), frame.rows


def _joined(
    schema: TableSchema, table: pd.DataFrame, path: Path
) -> tuple[TableSchema, pd.DataFrame]:
    """Add the labels or groups of a second table by the names of the series."""
    other = Path(schema.labels or "")
    check_known(f"column of {path}", schema.case, list(table))
    second = read_frame(other, texts=None, header=True).rows
    free = [name for name in second if name not in (schema.case, schema.group)]
    schema = replace(schema, label=schema.label or (str(free[0]) if len(free) == 1 else None))
    wanted = [name for name in (schema.label, schema.group) if name in second]
    for name in (schema.case, *(wanted or [schema.label])):
        check_known(f"column of {other}", name, list(second))
    rows = second[[schema.case, *wanted]].apply(_stripped).dropna(subset=[schema.case])
    rows = rows.drop_duplicates().set_index(schema.case)
    if not rows.index.is_unique:
        case = rows.index[rows.index.duplicated()][0]
        raise ValueError(f"{other} has several labels or groups for {case!r}: one row per series")
    cases = _stripped(table[schema.case])
    unknown = rows.index[~rows.index.isin(cases)]
    if len(unknown) == len(rows):
        known, others = listed(cases.unique(), 3), listed(rows.index, 3)
        raise ValueError(f"no series of {path}, such as {known}, is in {other}, such as {others}")
    if len(unknown):
        warn_caller(f"{len(unknown)} series of {other} are not in {path}: {unknown[0]!r}")
    return schema, table.assign(**{str(name): cases.map(rows[name]) for name in wanted})


def _complete(
    schema: TableSchema,
    table: pd.DataFrame,
    path: Path,
    labelled: bool | None,
    by_model: bool,
) -> tuple[TableSchema, pd.DataFrame]:
    """Name the columns of values; refuse missing columns; make text of labels and names."""
    names = list(table.columns)
    if labelled and schema.label is None:
        long = "" if schema.time else "; for one row per observation, `case=` and `time=` too"
        raise ValueError(
            f"name the column of {path} that has the labels, `label=`{long}. It has {listed(names)}"
        )
    if schema.value is None and schema.time is None and (cells := holds_cells(table)):
        schema = replace(schema, value=tuple(cells))
    roles = {*replace(schema, value=None).columns}
    drop = _matching(schema.drop or (), names, ())
    value = _matching(schema.value or (), names, {*roles, *drop})
    schema = replace(schema, value=tuple(value) or None, drop=tuple(drop) or None)
    if schema.window is not None and schema.time is None:
        used = {*roles, *drop, *value}
        times = (name for name in names if name not in used and is_named_like_time(name))
        schema = replace(schema, time=next(times, None))
    named = (*schema.columns, *(() if value else drop))  # a model names its columns of values
    known = {*names, *((schema.label,) if labelled is False else ())}
    if missing := [name for name in named if name not in known]:
        raise ValueError(_about_missing(missing, names, path, by_model, schema.header))
    used = {*schema.columns, *drop}
    others = [name for name in names if name not in used]
    wide = schema.time is None and schema.window is None
    if schema.value is None:
        if "" in others:
            warn_caller(
                f"column {names.index('') + 1} of {path} has no name and is left out; name it, and "
                "pass it as `case=` if it identifies the series"
            )
        schema = replace(schema, value=tuple(filter(None, others)))
        if wide and schema.value:
            _warn_of_steps(schema.value, path)
    elif wide and by_model and any(others):
        warn_caller(
            f"{path} has columns that the model was not trained on and that are left out: "
            f"{listed(filter(None, others))}"
        )
    if not schema.value:
        raise ValueError(f"{path} has no columns of values: {listed(names)}")
    if schema.channel is not None and len(schema.value) != 1:
        raise ValueError(
            f"`channel=` needs one column of values, `value=`; {path} has {listed(schema.value)}"
        )
    for name in {schema.case, schema.channel, schema.label, schema.group} & {*names}:
        table[name] = _stripped(table[name])
        refuse_nul(table[name], f"{path}: column {name!r}")
    return schema, table


def _matching(wanted: Sequence[str], names: list[str], taken: Collection[str]) -> list[str]:
    """Resolve ranges and patterns of columns."""
    found: list[str] = []
    places = {name: place for place, name in enumerate(names)}  # there may be 100,000
    for name in wanted:
        first, colon, last = name.partition(":")
        if name in places:
            found.append(name)
        elif colon and first in places and last in places:
            if places[last] < places[first]:
                raise ValueError(f"the range {name!r} runs backwards: {last!r} is before {first!r}")
            span = names[places[first] : places[last] + 1]
            found += [each for each in span if each not in taken]
        elif colon and (first in places or last in places):
            found.append(last if first in places else first)  # the end that is missing
        else:
            matches = [each for each in names if fnmatchcase(each, name) and each not in taken]
            found += matches or [name]
    return list(dict.fromkeys(found))


def _warn_of_steps(steps: Sequence[str], path: Path) -> None:
    """Warn of the columns of a wide table that are probably no steps."""
    read = f"{path} has columns that are read as steps, but are not"
    if len(steps) < _FEW_STEPS:
        warn_caller(
            f"each row of {path} is read as a series of {len(steps)} steps: {listed(steps)}. For "
            "a table with one row per observation, name its columns, `case=` and `time=`"
        )
    elif columns := odd_columns(steps):
        warn_caller(
            f"{read} named as other steps: {listed(columns)}. Name the column of ids, `case=`, and "
            "leave out others, `drop=`"
        )
    elif is_out_of_order(steps):
        warn_caller(
            f"{read} in the order of their numbers: {listed(steps, 5)}. `value=` names their order"
        )


def _about_missing(
    missing: list[str], names: list[str], path: Path, by_model: bool, header: bool | None
) -> str:
    """Say which columns are missing, and why that may be."""
    near = nearest(missing[0], names) if header is not False and len(missing) <= 3 else []
    hint = f"{f' (did you mean {near[0]!r}?)' if near else ''}. It has {listed(names)}"
    if len(names) == 1:
        hint += "; if it has several columns, name their separator, `sep=`"
    elif header is False:
        hint += ", the positions of its columns: it has no header"
    elif any(number_in(name) is not None for name in names):
        hint += ". If its first line has values, add `header=False`, and name columns 0, 1, ..."
    trained = " that the model was trained on" if by_model else ""
    plural = "s" * (len(missing) > 1)
    return f"{path} lacks the column{plural}{trained}: {listed(missing, 10)}{hint}"


def _stripped(column: pd.Series) -> pd.Series:
    """Return a column as text without blanks around it; empty cells are None."""
    text = column.astype(str).astype(object).str.strip()
    return text.where(column.notna() & (text != ""), None)


def _refuse_empty(
    path: Path, table: pd.DataFrame, name: str, role: str, case: str | None = None
) -> None:
    """Raise ValueError for a row without a label, group or name."""
    if (empty := table[name].isna()).any():
        row = table.index[empty][0]
        of = "" if case is None else f" of series {table[case][row]!r}"
        raise ValueError(
            f"{path}, row {row}: no {role}{of} in column {name!r}; drop the series"
            + (", or pretrain on it" if role == "label" else "")
        )


def _wide(table: pd.DataFrame, schema: TableSchema, path: Path, y: Any) -> Any:
    """Return one series per row."""
    values = list(schema.value or ())
    if holds_cells(table, values):
        return read_cells(table, values)
    rows = table[values].infer_objects().select_dtypes(["number", "bool"]).reset_index(drop=True)
    times = [n for n in table.columns if is_named_like_time(n) and n not in rows]
    if times and (dates := pd.to_datetime(table[times[0]], errors="coerce")).notna().all():
        rows.index = pd.DatetimeIndex(dates)
    refuse_recording(rows, None if y is None else y.to_numpy())
    numbers = _numbers(table, schema, path)[values]
    X = numbers.to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
    if (empty := np.isnan(X).all(axis=(1, 2))).any():
        raise ValueError(f"row {table.index[empty][0]} has no value at all; drop it")
    return X


def _with_times(
    schema: TableSchema, table: pd.DataFrame, path: Path
) -> tuple[TableSchema, pd.DataFrame]:
    """Convert the column of times, and name the format of dates that are not in ISO 8601."""
    if schema.time is None:
        return schema, table
    times, form = times_of_text(table[schema.time], schema.time_format)
    if form != schema.time_format:
        warn_caller(f"dates in column {schema.time!r} of {path} are read as `time_format={form}`")
    return replace(schema, time_format=form), table.assign(**{schema.time: times})


def _numbers(table: pd.DataFrame, schema: TableSchema, path: Path) -> pd.DataFrame:
    """Convert the columns of values to numbers, or name a bad cell."""
    values = table[list(schema.value or ())]
    plain = [getattr(dtype, "kind", "O") in "fiub" for dtype in values.dtypes]
    texts = values.loc[:, [not each for each in plain]]
    if texts.shape[1]:
        cells = texts.to_numpy(dtype=object).ravel()  # all at once: there may be 100,000 columns
        decimal = schema.decimal or _decimal_of(cells, values.loc[:, plain], path)
        # With decimal commas 1.234 is ambiguous: it may mean 1234.
        swapped = {ord(","): ".", ord("."): ","} if decimal == "," else {}
        points = [cell.translate(swapped) if isinstance(cell, str) else cell for cell in cells]
        given = pd.Series(points, dtype=object).replace(MISSING, None)
        numbers = pd.to_numeric(given, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        wrong = (np.isnan(numbers) & given.notna().to_numpy()).reshape(texts.shape)
        if wrong.any():
            column, row = np.argwhere(wrong.T)[0].tolist()
            cell = texts.iloc[row, column]
            hint = "`value=` names the columns of values, or `drop=` the columns to leave out"
            sign, point = (".", "points") if decimal == "," else (",", "commas")
            if number_in(str(cell).replace(sign, ""), decimal) is not None:
                hint = f"for decimal {point} add `decimal={sign}`; remove {point} between thousands"
            raise ValueError(
                f"{path}, row {table.index[row]}: {shortened(cell, 32)} in column "
                f"{texts.columns[column]!r} is not a number; {hint}"
            )
        numeric = pd.DataFrame(numbers.reshape(texts.shape), table.index, texts.columns)
        table = pd.concat([table.drop(columns=texts.columns), numeric], axis=1)
    infinite = np.isinf(table[list(values)].to_numpy(dtype=np.float64, na_value=np.nan))
    if infinite.any():
        row, column = np.argwhere(infinite)[0].tolist()
        name = values.columns[column]
        where = f"{path}, row {table.index[row]}"
        raise ValueError(f"{where}: the value in column {name!r} is infinite")
    return table


def _decimal_of(cells: npt.NDArray[Any], numbers: pd.DataFrame, path: Path) -> str:
    """Return the decimal sign of cells that are no numbers with a point."""
    texts = {cell.strip() for cell in cells if isinstance(cell, str)} - {*MISSING}
    commas = {text for text in texts if _COMMA.fullmatch(text)}
    fractions = (numbers.select_dtypes("float").to_numpy(np.float64) % 1 > 0).any()
    points = fractions or any("." in text or number_in(text, ",") is None for text in texts)
    if points or all(map(_THOUSANDS.fullmatch, commas)):
        return "."
    warn_caller(
        f"numbers in {path} such as {min(commas)} are read with decimal commas; "
        "`decimal=.` changes it"
    )
    return ","
