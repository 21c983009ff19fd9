"""Tables in files: which column holds what, and the series in them.

A long table has one row per observation, a wide one has one series per row. Labels and names are
text: ``007`` is not ``7``. Messages name the fields of `TableSchema` as in ```label=```.
"""

import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.tseries.api import guess_datetime_format

from tsformer._checks import check_known, listed, nearest, read_dataclass, shortened
from tsformer._warnings import warn_caller
from tsformer.data.containers import columns_of_cells, to_arrays
from tsformer.data.formats import MISSING, TABLES, check_distinct, ending, read_frame
from tsformer.data.layout import doubt_of_steps, refuse_nul, refuse_recording
from tsformer.data.long import from_long
from tsformer.data.windows import Windows, windows

#: Dates by which their format is recognised, and columns of a table that is probably long.
_FEW_DATES, _FEW_STEPS = 50, 10
#: Names of the column of times of recordings.
_TIMES = ("time", "times", "timestamp", "date", "datetime")


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
        if len(self.sep or ",") != 1 or self.sep in ('"', "\r", "\n"):
            raise ValueError(f"`sep=` is a character, 'tab' or 'space'; got {self.sep!r:.32}")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"`decimal=` is '.' or ','; got {self.decimal!r:.32}")

    def check(self) -> None:
        """Raise ValueError if the roles of the columns do not fit together."""
        check_distinct("columns with a role", self.columns)
        cut, long = self.window is not None, "is for long tables; name the column of times, `time=`"
        for allowed, problem, *names in (
            (not cut, "is for tables of series, not for windows", "channel", "grid", "labels"),
            (cut, "needs `window=`, the length of the windows of a recording", "stride"),
            (cut or self.case, "needs `case=`, or `window=` of a recording", "time", "labels"),
            (cut or self.time, long, "channel", "time_format", "grid"),
        ):
            for name in names:
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

    def updated(self, schema: Self) -> Self:
        """Return this schema, overridden by the fields of another."""
        return replace(self, **schema.as_dict())

    def as_dict(self) -> dict[str, Any]:
        """Return the fields that are set, ready for JSON."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @classmethod
    def from_dict(cls, described: Any) -> Self:
        """Restore a schema from `as_dict`."""
        filled = vars(cls()) | described if isinstance(described, dict) else described
        values = vars(read_dataclass(cls, filled, "table"))
        lists: Any = {name: tuple(v) for name, v in values.items() if isinstance(v, list)}
        return cls(**values | lists)


def steps_or_time(text: str | None) -> int | str | None:
    """Read a number of steps; leave a time as text."""
    return int(text) if text is not None and re.fullmatch("-?[0-9]+", text) else text


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


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the file in errors."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if str(error).startswith(str(path)):
            raise
        text = re.sub(r"tsformer\.data\.windows.*", "`window=` and `stride=`", str(error))
        raise ValueError(f"{path}: {text}") from error


def read_windows(
    path: Path, schema: TableSchema, *, labelled: bool | None, trained: bool = False
) -> Source:
    """Cut the recordings in a file, or in the files of a folder, into windows."""
    labelled = schema.label is not None if labelled is None else labelled
    files = [path]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if ending(file) in TABLES)
    grouped = schema.group is not None and not trained
    frames: dict[str, pd.DataFrame] = {}
    labels: dict[Any, Any] = {}
    for file in files:
        with _naming(file):
            read, table = _read(
                file, schema, labelled, optional={"case", "group"} if trained else {}
            )
        by = read.case or read.group
        steps = table if read.time is None else table.set_index(read.time)
        for case, rows in [("", steps)] if by is None else steps.groupby(by, sort=False):
            name = f"{file.name if len(files) > 1 else ''} {case}".strip() or file.stem
            rows = rows.reset_index(drop=True) if read.time is None else rows
            labels[name] = rows[read.label].to_numpy() if read.label in rows else None
            frames[name] = rows[[*(read.value or ()), *([schema.group] if grouped else [])]]
        schema = replace(read, case=schema.case, group=schema.group)
    groups = schema.group if grouped else None
    with _naming(path):
        cut = windows(frames, labels if labelled else None, *schema.cut, groups=groups)
    if not labelled:  # to compare predictions with
        known = {name: replace(cut.recordings[name], labels=y) for name, y in labels.items()}
        cut = replace(cut, recordings=known)
    return Source(cut.X, cut.y, None, schema, cut.groups.astype(str), cut)


def read_table(path: Path, schema: TableSchema, *, labelled: bool | None) -> Source:
    """Read the series of a file."""
    with _naming(path):
        schema, table = _read(path, schema, labelled)
        label = None if labelled is False else schema.label
        names = (label, schema.group, schema.case)
        y, groups, cases = (None if name is None else table[name] for name in names)
        values = list(schema.value or ())
        if schema.time is not None:
            roles = ("case", "time", "channel", "group", "grid")
            options: Any = {role: getattr(schema, role) for role in roles} | {"label": label}
            series = from_long(table, value=values[0] if schema.channel else values, **options)
            X, *columns = series if isinstance(series, tuple) else (series,)
            y = None if label is None else columns[0]
            groups = None if groups is None else columns[-1]
            cases = pd.Series([x.attrs["case"] for x in X])
        elif columns_of_cells(table[values]):
            X = to_arrays(table[values])
            if 1 < len(values) == len(X[0]):  # each column is a channel
                X = [pd.DataFrame(x.T, columns=values) for x in X]
        else:
            X = table[values].to_numpy(dtype=np.float64, na_value=np.nan)
            refuse_recording(pd.DataFrame(X, columns=values), None if y is None else y.to_numpy())
            X = X[:, None]
        if cases is not None and not cases.is_unique:
            name = cases[cases.duplicated()].iloc[0]
            raise ValueError(f"several rows for {name!r}; in a long table, name the times, `time=`")
    arrays = [None if column is None else np.array(column.tolist()) for column in (y, groups)]
    case_names = None if cases is None else cases.tolist()
    return Source(X, arrays[0], case_names, replace(schema, labels=None), arrays[1])


def _read(
    path: Path, schema: TableSchema, labelled: bool | None, optional: Collection[str] = ()
) -> tuple[TableSchema, pd.DataFrame]:
    """Read a table; name its columns of values; check and convert the columns with a role."""
    schema.check()
    time = None if schema.time_format is None else schema.time
    roles = (schema.case, schema.channel, schema.label, schema.group, time)
    how: Any = {name: getattr(schema, name) for name in ("header", "sep", "decimal")}
    texts = [name for name in roles if name is not None]
    table, header = read_frame(path, texts=texts, **how)
    label, schema = schema.label, replace(schema, header=schema.header if header else False)
    if labelled and label is None:
        raise ValueError(f"name the column of labels, `label=`; it has {listed(table)}")
    if schema.labels is not None and labelled is not False:
        table = _joined(schema, table)
    if schema.value is None and schema.time is None:
        schema = replace(schema, value=tuple(columns_of_cells(table)) or None)
    schema = _complete(schema, [*map(str, table)], labelled is False, optional)
    needed = {schema.case, schema.group, None if schema.window or labelled is False else label}
    for name in {schema.case, schema.channel, label, schema.group} & {*table}:
        table[name] = column = _stripped(table[name])
        refuse_nul(column, f"column {name!r}")
        if name in needed and (empty := column.isna()).any():
            row = table.index[empty][0]
            raise ValueError(f"row {row}: no value in column {name!r}; drop the series")
    if schema.time is not None and (form := schema.time_format or _date_format(table[schema.time])):
        if schema.time_format is None:
            warn_caller(f"dates in {schema.time!r} of {path} are read as `time_format={form}`")
            schema = replace(schema, time_format=form)
        try:
            times = pd.to_datetime(table[schema.time], format=form, utc="%z" in form)
        except ValueError as error:
            problem = str(error).partition(". You")[0]  # then pandas names its own arguments
            raise ValueError(f"a time is not in `time_format={form}`: {problem}") from error
        table[schema.time] = times
    return schema, _numbers(table, schema)


def _date_format(column: pd.Series) -> str | None:
    """Return the only format of dates that are not in ISO 8601, such as 31/12/2024."""
    texts = column.dropna()
    if column.dtype.kind != "O" or not texts.map(lambda text: isinstance(text, str)).all():
        return None
    if texts.str.match(r"\d{4}-").all():  # pandas takes 2024/12/31 for ISO 8601, too
        return None
    with warnings.catch_warnings(action="ignore"):  # of the day before the month
        guessed = {
            guess_datetime_format(text, dayfirst=first)
            for text in texts.unique()[:_FEW_DATES]
            for first in (True, False)
        }
    forms = [form for form in guessed if form is not None]
    fits = [f for f in forms if pd.to_datetime(texts, format=f, errors="coerce").notna().all()]
    return fits[0] if len(fits) == 1 else None


def _joined(schema: TableSchema, table: pd.DataFrame) -> pd.DataFrame:
    """Add the labels or groups of a second table by the names of the series."""
    path, case = Path(schema.labels or ""), schema.case
    second, _ = read_frame(path, texts=None, header=True)
    wanted = [name for name in (schema.label, schema.group) if name in second]
    check_known("column", case, list(table))
    for name in (case, *(wanted or [schema.label])):
        check_known(f"column of {path}", name, list(second))
    rows = second[[case, *wanted]].apply(_stripped).dropna(subset=[case]).drop_duplicates()
    table = table.drop(columns=wanted, errors="ignore")
    table[case] = _stripped(table[case])
    try:
        return table.merge(rows, "left", case, validate="many_to_one").set_axis(table.index)
    except pd.errors.MergeError as error:
        raise ValueError(f"{path} has several labels or groups for one {case!r}") from error


def _complete(
    schema: TableSchema, names: list[str], unlabelled: bool, optional: Collection[str]
) -> TableSchema:
    """Name the columns of values and of times; refuse missing columns."""
    absent = {role for role in optional if getattr(schema, role) not in names}
    schema = replace(schema, **dict.fromkeys(absent, None))
    roles = {*replace(schema, value=None).columns}
    drop = _matching(schema.drop or (), names, ())
    value = _matching(schema.value or (), names, {*roles, *drop})
    schema = replace(schema, value=tuple(value) or None, drop=tuple(drop) or None)
    if schema.window is not None and schema.time is None:
        free = (name for name in names if name not in {*roles, *drop, *value})
        schema = replace(schema, time=next((n for n in free if n.lower() in _TIMES), None))
    named = (*schema.columns, *(() if value else drop))  # a model names its columns of values
    known = {*names, *((schema.label,) if unlabelled else ())}
    if missing := [name for name in named if name not in known]:
        near = nearest(missing[0], names)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(
            f"it lacks the columns {listed(missing)}{hint}. It has {listed(names)}; `sep=` changes "
            "the separator, and `header=False` names the columns 0, 1, ..."
        )
    if schema.value is None:
        used = {"", *schema.columns, *drop}
        schema = replace(schema, value=tuple(name for name in names if name not in used))
        if "" in names:
            warn_caller(f"column {names.index('') + 1} has no name and is left out")
        if schema.value and schema.time is None and schema.window is None:
            few = "many: a table with a row per observation needs `case=` and `time=`"
            if doubt := few if len(schema.value) < _FEW_STEPS else doubt_of_steps(schema.value):
                read = f"columns {listed(schema.value[:5])} are read as steps"
                warn_caller(f"{read}, but are not {doubt}")
    if not schema.value or (schema.channel is not None and len(schema.value) != 1):
        number = "one column" if schema.channel else "columns"
        raise ValueError(f"name the {number} of values, `value=`; it has {listed(names)}")
    return schema


def _matching(wanted: Sequence[str], names: list[str], taken: Collection[str]) -> list[str]:
    """Resolve ranges and patterns of columns."""
    columns: list[str] = []
    index_of = {name: index for index, name in enumerate(names)}  # there may be 100,000
    for pattern in wanted:
        first, _, last = pattern.partition(":")
        if pattern in index_of:
            matches = [pattern]
        elif first in index_of and last in index_of:
            matches = names[index_of[first] : index_of[last] + 1]
        else:
            matches = [name for name in names if fnmatchcase(name, pattern)]
        columns += [name for name in matches if name == pattern or name not in taken] or [pattern]
    return list(dict.fromkeys(columns))


def _stripped(column: pd.Series) -> pd.Series:
    """Return a column as text without blanks around it; empty cells are None."""
    text = column.astype(str).astype(object).str.strip()
    return text.where(column.notna() & (text != ""), None)


def _numbers(table: pd.DataFrame, schema: TableSchema) -> pd.DataFrame:
    """Convert the columns of values to numbers, or name a bad cell."""
    values = table[list(schema.value or ())]
    texts = values.loc[:, [getattr(dtype, "kind", "O") not in "fiub" for dtype in values.dtypes]]
    if not texts.shape[1] or columns_of_cells(texts):
        return table
    # All at once: there may be 100,000 columns. With decimal commas 1.234 may mean 1234.
    swapped = {ord(","): ".", ord("."): ","} if schema.decimal == "," else {}
    cells = texts.to_numpy(dtype=object).ravel()
    points = [cell.translate(swapped) if isinstance(cell, str) else cell for cell in cells]
    known = pd.Series(points, dtype=object).replace(MISSING, None)
    numbers = pd.to_numeric(known, errors="coerce").to_numpy(np.float64, na_value=np.nan)
    wrong = np.isnan(numbers) & known.notna().to_numpy()
    if wrong.any():
        row, column = divmod(int(wrong.argmax()), texts.shape[1])
        raise ValueError(
            f"row {table.index[row]}: {shortened(cells[wrong][0], 32)} in column "
            f"{texts.columns[column]!r} is not a number; see `drop=` and `decimal=`"
        )
    numeric = pd.DataFrame(numbers.reshape(texts.shape), table.index, texts.columns)
    return pd.concat([table.drop(columns=texts.columns), numeric], axis=1)
