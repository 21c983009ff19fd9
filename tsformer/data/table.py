"""Tables in files: which column holds what, and the series in them.

A long table has one row per observation, a wide one has one series per row. Labels and names of
series are text, spelled as in the file without blanks around them, so that ``007`` is not ``7``;
an empty cell is a missing one. Messages name the fields of `TableSchema` as in ```label=```.
"""

from __future__ import annotations

import csv
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
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
from tsformer.data.formats import FRAMES, holds_cells, read_cells, read_frame
from tsformer.data.layout import (
    is_named_like_time,
    is_out_of_order,
    odd_columns,
    refuse_nul,
    refuse_recording,
)
from tsformer.data.long import from_long
from tsformer.data.parquet import PARQUET, refuse_repeated
from tsformer.data.text import (
    EXACT,
    MISSING,
    csv_options,
    ending,
    first_cells,
    has_names,
    number_in,
    open_text,
    separator_of,
    unpacking,
)
from tsformer.data.times import date_format, ordered_times, utc_offset
from tsformer.data.windows import Windows, windows

#: Endings of the files that are read as text.
TEXT = (".csv", ".tsv", ".txt")
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
    optional = [name for name in (schema.case, schema.group) if trained and name is not None]
    for file in files:
        schema, table = _read_rows(file, schema, labelled, trained, optional)
        table = _numbers(table, schema, file)
        by = next((name for name in (schema.case, schema.group) if name in table), None)
        if by is not None:
            _refuse_empty(path, table, by, "name")
        if schema.time is not None:
            schema = replace(schema, time_format=_format_of(table[schema.time], schema, file))
            table.index = pd.Index(_times(table[schema.time], schema.time_format))
        for part, rows in [("", table)] if by is None else table.groupby(by, sort=False):
            name = f"{file.name if len(files) > 1 else ''} {part}".strip() or file.stem
            rows = rows.reset_index(drop=True) if schema.time is None else rows
            labels[name] = rows[schema.label].to_numpy() if schema.label in rows else None
            frames[name] = rows[[*(schema.value or ()), *([schema.group] if grouped else [])]]
    try:
        cut = windows(
            frames,
            labels if labelled else None,
            *schema.cut,
            groups=schema.group if grouped else None,
        )
    except ValueError as error:
        raise ValueError(f"{path}: {re.sub('^length', 'window', str(error))}") from error
    if not labelled:  # to compare predictions with
        known = {name: replace(cut.recordings[name], labels=each) for name, each in labels.items()}
        cut = replace(cut, recordings=known)
    return Source(cut.X, cut.y, None, schema, cut.groups.astype(str), cut)


def read_table(
    path: Path,
    schema: TableSchema,
    *,
    labelled: bool | None,
    by_model: bool = False,
) -> Source:
    """Read the series of a file."""
    schema.check()
    joined = None
    if schema.labels is not None and labelled is not False:
        schema, joined = _second_table(Path(schema.labels), schema)
    known: Collection[str] = () if joined is None else joined.columns
    schema, table = _read_rows(path, schema, labelled, by_model, known)
    labelled = schema.label is not None if labelled is None else labelled
    if joined is not None:
        table = _with_labels(table, joined, path, schema)
    for name, role in ((schema.label if labelled else None, "label"), (schema.group, "group")):
        if name is not None:
            _refuse_empty(path, table, name, role, None if joined is None else schema.case)
    try:
        if schema.time is None:
            X, y, cases, groups = _wide(table, schema, path, labelled)
        else:
            schema = replace(schema, time_format=_format_of(table[schema.time], schema, path))
            X, y, cases, groups = _long(_numbers(table, schema, path), schema, labelled)
    except ValueError as error:
        if str(error).startswith(str(path)):
            raise
        advice = re.sub(r"tsformer\.data\.windows.*", "`window=` and `stride=`", str(error))
        raise ValueError(f"{path}: {advice}") from error
    schema = replace(schema, labels=None)
    labels, numbers = (None if each is None else np.array(each.tolist()) for each in (y, groups))
    return Source(X, labels, cases, schema, numbers)


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


def _read_rows(
    path: Path,
    schema: TableSchema,
    labelled: bool | None,
    by_model: bool,
    joined: Collection[str],
) -> tuple[TableSchema, pd.DataFrame]:
    """Read the rows of a file, names and labels as text."""
    if ending(path) in FRAMES:
        table, label = read_frame(path, header=schema.header is not False)
        cells = holds_cells(table) if schema.time is None and schema.value is None else []
        schema = replace(schema, label=schema.label or label, value=tuple(cells) or schema.value)
        schema = _complete(schema, list(table.columns), path, labelled, by_model, joined)
    else:
        schema, table = _read_text(path, schema, labelled, by_model, joined)
    table = _without_blank_rows(table, path)
    for name in (schema.case, schema.channel, schema.label, schema.group):
        if name is not None and name in table:
            table[name] = _stripped(table[name])
            refuse_nul(table[name], f"{path}: column {name!r}")
    return schema, table


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write a table to a text file or to Parquet."""
    if ending(path) in PARQUET:
        require("pyarrow", extra="parquet", purpose=f"writing {path}")
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if ending(path) == ".tsv" else ",")


def _stripped(column: pd.Series) -> pd.Series:
    """Return a column as text without blanks around it; empty cells are None."""
    text = column.astype(str).astype(object).str.strip()
    return text.where(column.notna() & (text != ""), None)


def _without_blank_rows(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Leave out rows without any cell."""
    empty = table.isna().all(axis=1)
    if empty.all():
        raise ValueError(f"{path} has the names of columns, but no rows")
    if not empty.any():
        return table
    warn_caller(
        f"{int(empty.sum())} blank rows of {path} are skipped, such as row {table.index[empty][0]}"
    )
    return table[~empty].copy()


def _second_table(path: Path, schema: TableSchema) -> tuple[TableSchema, pd.DataFrame]:
    """Read the labels or groups of series, by the names of the series."""
    if ending(path) in FRAMES:
        table, _ = read_frame(path)
    else:
        sep, before = separator_of(path)
        with unpacking(path):
            table = pd.read_csv(path, skiprows=before, dtype=str, **csv_options(sep))
    names = list(table.columns)
    others = [name for name in names if name not in (schema.case, schema.group)]
    schema = replace(schema, label=schema.label or (others[0] if len(others) == 1 else None))
    wanted = [name for name in (schema.label, schema.group) if name in names]
    for name in (schema.case, *wanted[:1], *([] if wanted else [schema.label])):
        check_known(f"column of {path}", name, names)
    rows = table[[schema.case, *wanted]].apply(_stripped).dropna(subset=[schema.case])
    rows = rows.drop_duplicates().set_index(schema.case)
    if not rows.index.is_unique:
        case = rows.index[rows.index.duplicated()][0]
        raise ValueError(f"{path} has several labels or groups for {case!r}: one row per series")
    return schema, rows


def _with_labels(
    table: pd.DataFrame, joined: pd.DataFrame, path: Path, schema: TableSchema
) -> pd.DataFrame:
    """Add the columns of a second table by the names of the series."""
    cases = table[schema.case]
    unknown = joined.index[~joined.index.isin(cases)]
    if len(unknown) == len(joined):
        raise ValueError(
            f"no series of {path} is in {schema.labels}: {path} has {_listed(cases.unique(), 3)}, "
            f"and {schema.labels} has {_listed(joined.index, 3)}"
        )
    if len(unknown):
        warn_caller(f"{len(unknown)} series of {schema.labels} are not in {path}: {unknown[0]!r}")
    return table.assign(**{str(name): cases.map(joined[name]) for name in joined})


def _long(
    table: pd.DataFrame, schema: TableSchema, labelled: bool
) -> tuple[list[pd.DataFrame], pd.Series | None, list[str], pd.Series | None]:
    assert schema.case is not None
    assert schema.value is not None
    table = table.assign(**{str(schema.time): _times(table[schema.time], schema.time_format)})
    found = from_long(
        table,
        case=schema.case,
        time=schema.time,
        value=schema.value if schema.channel is None else schema.value[0],
        channel=schema.channel,
        label=schema.label if labelled else None,
        group=schema.group,
        grid=schema.grid,
    )
    X, *further = found if isinstance(found, tuple) else (found,)
    y = further.pop(0) if labelled else None
    groups = None if schema.group is None else further.pop(0)
    cases = table[schema.case].unique().tolist()
    for case, x in zip(cases, X, strict=True):
        if x.isna().all(axis=None):
            raise ValueError(f"series {case!r} has no value at all; drop it")
    return X, y, cases, groups


def _wide(
    table: pd.DataFrame, schema: TableSchema, path: Path, labelled: bool
) -> tuple[Any, pd.Series | None, list[str] | None, pd.Series | None]:
    y = table[schema.label] if labelled else None
    groups = None if schema.group is None else table[schema.group]
    values = list(schema.value or ())
    X: Any
    if cells := holds_cells(table, values):
        if len(cells) > 1 and (times := list(filter(is_named_like_time, cells))):
            warn_caller(
                f"the lists in {_listed(times)} of {path} are read as channels, but are named like "
                "times; `value=` names the channels"
            )
        X = read_cells(table, values)
    else:
        if len(table) >= len(values):  # a recording may have its times in a column of text
            plain = [name for name in values if table[name].dtype.kind in "fiub"]
            rows = table[plain].reset_index(drop=True)
            times = [n for n in table.columns if is_named_like_time(n) and n not in plain]
            dates = pd.to_datetime(table[times[0]], errors="coerce") if times else pd.Series([None])
            rows = rows if dates.isna().any() else rows.set_axis(pd.DatetimeIndex(dates))
            refuse_recording(rows, None if y is None else y.to_numpy())
        numbers = _numbers(table, schema, path)[values]
        X = numbers.to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
        without = np.isnan(X).all(axis=(1, 2))
        if without.any():
            raise ValueError(f"row {table.index[without][0]} has no value at all; drop it")
    if schema.case is None:
        return X, y, None, groups
    _refuse_empty(path, table, schema.case, "name")
    names = table[schema.case]
    if names.duplicated().any():
        raise ValueError(
            f"several rows for {names[names.duplicated()].iloc[0]!r}. In a wide table each row is "
            "a series; for a long one, name the column of times, `time=`"
        )
    return X, y, names.tolist(), groups


def _complete(
    schema: TableSchema,
    names: list[str],
    path: Path,
    labelled: bool | None,
    by_model: bool,
    joined: Collection[str],
) -> TableSchema:
    """Return the schema with columns of values; refuse missing columns."""
    if labelled and schema.label is None:
        long = "" if schema.time else "; for one row per observation, `case=` and `time=` too"
        raise ValueError(
            f"name the column of {path} that has the labels, `label=`{long}. It has "
            f"{_listed(names)}"
        )
    refuse_repeated(path, names)
    roles = {name for name in replace(schema, value=None).columns if name not in joined}
    drop = _matching(schema.drop or (), names, ())
    value = _matching(schema.value or (), names, {*roles, *drop})
    schema = replace(schema, value=tuple(value) or None, drop=tuple(drop) or None)
    if schema.window is not None and schema.time is None:
        times = filter(is_named_like_time, (n for n in names if n not in {*roles, *drop, *value}))
        schema = replace(schema, time=next(times, None))
    known = {*names, *joined, *((schema.label,) if labelled is False else ())}
    named = (*schema.columns, *(() if value else drop))  # a model names its columns of values
    missing = [name for name in named if name not in known]
    label_only = by_model and len(names) == len(known | {*schema.columns}) - 1
    if missing and label_only and schema.header is False:
        raise ValueError(
            f"{path} has {len(names)} columns, and the model was trained on {len(names) + 1}: "
            f"column {schema.label}, the label, is missing, and without names columns are known by "
            "their positions. Add it; predict ignores its values"
        )
    if missing:
        raise ValueError(_about_missing(missing, names, path, by_model, schema.header))
    used = {*schema.columns, *drop}
    others = [name for name in names if name not in used]
    if schema.value is None:
        if "" in others:
            warn_caller(
                f"column {names.index('') + 1} of {path} has no name and is left out; if it has "
                "the names of the series, give it one, and pass it as `case=`"
            )
        schema = replace(schema, value=tuple(name for name in others if name))
        if not schema.value:
            raise ValueError(f"{path} has no columns of values: {_listed(names)}")
        if schema.time is None and schema.window is None:
            _warn_of_steps(schema.value, path)
    elif schema.time is None and by_model and any(others):
        warn_caller(
            f"{path} has columns that the model was not trained on and that are left out: "
            f"{_listed(filter(None, others))}"
        )
    if schema.channel is not None and len(schema.value or ()) != 1:
        raise ValueError(
            "with `channel=` one column has the values of all channels; name it, `value=`. "
            f"{path} has {_listed(schema.value or ())}"
        )
    return schema


def _matching(wanted: Sequence[str], names: list[str], taken: Collection[str]) -> list[str]:
    """Resolve ranges and patterns of columns."""
    found: list[str] = []
    places = {name: place for place, name in enumerate(names)}  # there may be 100,000
    for name in wanted:
        first, colon, last = name.partition(":")
        if name in places:
            found.append(name)
        elif colon and first in places and last in places:
            start, stop = places[first], places[last]
            if stop < start:
                raise ValueError(f"the range {name!r} runs backwards: {last!r} is before {first!r}")
            found += [each for each in names[start : stop + 1] if each not in taken]
        elif colon and (first in places or last in places):
            found.append(last if first in places else first)  # the end that is missing
        else:
            matches = [each for each in names if fnmatchcase(each, name) and each not in taken]
            found += matches or [name]
    return list(dict.fromkeys(found))


def _warn_of_steps(steps: Sequence[str], path: Path) -> None:
    """Warn of the columns of a wide table that are probably no steps."""
    if len(steps) < _FEW_STEPS:
        warn_caller(
            f"each row of {path} is read as a series of {len(steps)} steps: {_listed(steps)}. For "
            "a table with one row per observation, name its columns, `case=` and `time=`"
        )
    elif columns := odd_columns(steps):
        warn_caller(
            f"{path} has columns that are read as steps, but are not named as other steps: "
            f"{_listed(columns)}. Name the column of ids, `case=`, and leave out others, "
            "`drop=`"
        )
    elif is_out_of_order(steps):
        warn_caller(
            f"the columns of {path} are read as steps, but are not in the order of their numbers: "
            f"{_listed(steps, 5)}. `value=` names them in order"
        )


def _about_missing(
    missing: list[str], names: list[str], path: Path, by_model: bool, header: bool | None
) -> str:
    """Say which columns are missing, and why that may be."""
    shown = []
    for name in missing[:10]:
        near = nearest(name, names) if header is not False and len(missing) <= 3 else []
        shown.append(f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name))
    if len(missing) > 10:
        shown.append(f"{len(missing) - 10} more")
    hint = f" It has {_listed(names)}"
    if len(names) == 1:
        hint += "; if it has several columns, name their separator, `sep=`"
    elif header is False:
        hint += ", the positions of its columns: it has no header"
    elif any(number_in(name) is not None for name in names):
        hint += ". If its first line has values, add `header=False`, and name columns 0, 1, ..."
    trained = " that the model was trained on" if by_model else ""
    plural = "s" * (len(missing) > 1)
    return f"{path} lacks the column{plural}{trained}: {', '.join(shown)}.{hint}"


def _read_text(
    path: Path, schema: TableSchema, labelled: bool | None, by_model: bool, joined: Collection[str]
) -> tuple[TableSchema, pd.DataFrame]:
    with open_text(path) as file:  # pandas cuts text at a NUL character
        for number, line in enumerate(file, 1):
            if "\0" in line:
                raise ValueError(
                    f"{path} is not UTF-8 text; save it in UTF-8: line {number} has a NUL character"
                )
    sniffed, after = separator_of(path)
    sep = schema.sep or sniffed
    try:
        before, names = first_cells(path, sep, after=after)
        if not names:
            raise ValueError(f"{path} is empty")
        decimal, header = schema.decimal or ("," if sep == ";" else "."), schema.header
        if header is None:
            header, certain = has_names(names, named=schema.columns, decimal=decimal)
            if not header or not certain:
                said = f"its first line, {_listed(names, 5)}, is read as "
                said += "column names, but has numbers" if header else "values"
                warn_caller(
                    f"{path} {'may have' if header else 'seems to have'} no header: {said}. "
                    "Pass `header=True` if it names the columns, `header=False` if it has values"
                )
        if not header:
            names = [str(position) for position in range(len(names))]
            schema = replace(schema, header=False)
        schema = _complete(schema, names, path, labelled, by_model, joined)
        if schema.sep is None and not after and sep != ("\t" if ending(path) == ".tsv" else ","):
            warn_caller(f"columns of {path} are separated by {sep!r}; `sep=` changes it")
        time = None if schema.time_format is None else schema.time
        roles = {schema.case, schema.channel, schema.label, schema.group, time}
        texts = [name for name in names if name in roles]
        with warnings.catch_warnings(), unpacking(path):
            warnings.simplefilter("error", pd.errors.ParserWarning)
            table = pd.read_csv(
                path,
                header=0 if header else None,
                names=None if header else names,
                skiprows=before,
                na_values=MISSING,
                converters=dict.fromkeys(texts, str.strip),  # missing values are words there
                index_col=False,  # else the first column is one, where rows have too many fields
                decimal=schema.decimal or ".",
                low_memory=False,
                **csv_options(sep),
                **EXACT,
            ).copy()  # one block: reading many columns is fast
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        if isinstance(error, pd.errors.ParserWarning):
            reason = "rows have more fields than the first line"
        raise ValueError(
            f"{path} cannot be read as a table: {reason}. Its separator is taken to be {sep!r}; "
            "`sep=` changes it"
        ) from error
    first = before + (2 if header else 1)
    table.index = pd.RangeIndex(first, first + len(table))
    for name in texts:
        table[name] = table[name].astype(object).where(table[name] != "", None)
    return schema, table


def _numbers(table: pd.DataFrame, schema: TableSchema, path: Path) -> pd.DataFrame:
    """Convert the columns of values to numbers, or name a bad cell."""
    values = table[list(schema.value or ())]
    kinds = [getattr(dtype, "kind", "O") for dtype in values.dtypes]
    texts = values.loc[:, [kind not in "fiub" for kind in kinds]]
    if texts.shape[1]:
        cells = texts.to_numpy(dtype=object).ravel()  # all at once: there may be 100,000 columns
        decimal = schema.decimal or _decimal_of(cells, values, path)
        # With decimal commas 1.234 is ambiguous: it may mean 1234.
        swapped = {ord(","): ".", ord("."): ","} if decimal == "," else {}
        plain = [cell.translate(swapped) if isinstance(cell, str) else cell for cell in cells]
        given = pd.Series(plain, dtype=object).replace(MISSING, None)
        found = pd.to_numeric(given, errors="coerce").to_numpy(np.float64, na_value=np.nan)
        numbers = found.reshape(texts.shape)
        wrong = np.isnan(numbers) & given.notna().to_numpy().reshape(texts.shape)
        if wrong.any():
            column, row = np.argwhere(wrong.T)[0].tolist()
            cell = texts.iloc[row, column]
            hint = "`value=` names the columns of values, or `drop=` the columns to leave out"
            sign, point = (".", "points") if decimal == "," else (",", "commas")
            plain_cell = cell.replace(sign, "") if isinstance(cell, str) else ""
            if number_in(plain_cell, decimal) is not None:
                hint = f"for decimal {point} add `decimal={sign}`; remove {point} between thousands"
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


def _decimal_of(cells: npt.NDArray[Any], values: pd.DataFrame, path: Path) -> str:
    """Return the decimal sign of cells that are no numbers with a point."""
    texts = {cell.strip() for cell in cells if isinstance(cell, str)} - {*MISSING}
    commas = {text for text in texts if _COMMA.fullmatch(text)}
    points = any("." in text for text in texts) or any(
        values[name].dtype.kind == "f" and bool((values[name] % 1 > 0).any()) for name in values
    )
    certain = any(not _THOUSANDS.fullmatch(text) for text in commas)
    if points or not certain or any(number_in(text, ",") is None for text in texts):
        return "."
    warn_caller(
        f"numbers in {path} such as {min(commas)} are read with decimal commas; "
        "`decimal=.` changes it"
    )
    return ","


def _format_of(column: pd.Series, schema: TableSchema, path: Path) -> str | None:
    """Return the format of dates that are not in ISO 8601."""
    if schema.time_format is not None or pd.api.types.infer_dtype(column, skipna=True) != "string":
        return schema.time_format
    known = column.dropna().astype(str).str.strip().unique().tolist()
    iso = all(utc_offset(text) is not None for text in known)
    found = None if iso else date_format(known, f"column {column.name!r}")
    if found:
        warn_caller(f"dates in column {column.name!r} of {path} are read as `time_format={found}`")
    return found


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
    expected = f"not a date of `time_format={time_format}`"
    if offsets is not None:
        wrong |= column.notna() & offsets.isna()
        # Among numbers the cell that is neither is meant, not the first.
        neither = wrong & pd.to_numeric(column, errors="coerce").isna()
        wrong = neither if neither.any() else wrong
        expected = (
            "neither a number nor a date such as 2024-12-31 or 2024-12-31T23:59:00; for other "
            "dates say how they are written, as in `time_format=%d/%m/%Y %H:%M`"
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
