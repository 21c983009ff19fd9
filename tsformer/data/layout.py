"""The layout of containers: ids of series, and layouts that are probably misread."""

import calendar
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from tsformer._checks import shortened
from tsformer._warnings import warn_caller
from tsformer.data.native import has_dims, native, to_numpy
from tsformer.data.series import Floats, SeriesSource
from tsformer.data.times import is_iso, missing_rows

#: Where `from_long` keeps the id of a series, in the `attrs` of its DataFrame.
CASE = "case"
_PANDAS = (pd.DataFrame, pd.Series)
#: Largest plausible ratio of the change between steps to the change between channels: on the
#: archives' multivariate problems it is .06 to .72.
_SMOOTH = 0.8
#: Rows, columns and series that are examined.
_MOST_ROWS, _MOST_COLUMNS, _MOST_SERIES = 100_000, 20, 50
#: Rows of each case of a long table.
_ROWS_PER_CASE = 5
#: A number in the name of a step, and a word, as in ``time_of_day`` and ``TimeOfDay``.
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
#: Most columns of a wide table that are named unlike its steps.
_MOST_ODD = 3
_TIME = {"date", "dates", "datetime", "time", "times", "timestamp", "timestamps"}
#: Names of days and months, which are steps.
_CALENDAR = {
    name.lower()
    for names in (calendar.month_name, calendar.month_abbr, calendar.day_name, calendar.day_abbr)
    for name in names
}
#: Numbered columns with these words are channels of a recording, not steps.
_SENSORS = {"acc", "ch", "channel", "ecg", "eeg", "emg", "gyro", "imu", "lead", "mag", "sensor"}
#: A table is a recording only from this number of rows, and of rows per column, on.
_MANY_ROWS, _ROWS_PER_COLUMN = 200, 20
#: So few columns are no steps.
_FEW_STEPS = 3
#: Largest mean change between rows of a recording, in changes between shuffled rows.
_STEADY = 0.7


class LayoutWarning(UserWarning):
    """The layout of the series is probably not the layout that `fit` reads.

    `fit` issues it for an array that is probably ``(n, length, channels)``, for a long table that
    is read as ``(n, length)``, for columns of ids or times among steps or channels, for channels
    without any value, and for columns of several levels. `fit` and `predict` issue it if columns or
    rows are not in the order of their numbers or dates, and if rows of regular times are missing.

    Where the layout is right, silence it with
    ``warnings.filterwarnings("ignore", category=tsformer.data.LayoutWarning)``.

    See Also
    --------
    tsformer.data.from_long : Converts a long table to series.
    """


_is_checked: ContextVar[bool] = ContextVar("layout_is_checked", default=False)


@contextmanager
def layout_is_checked() -> Iterator[None]:
    """Skip the check in this block: the series were checked before."""
    token = _is_checked.set(True)
    try:
        yield
    finally:
        _is_checked.reset(token)


def _warn(message: str) -> None:
    """Issue a `LayoutWarning`, and how to silence it."""
    warn_caller(
        f"{message}; if it is right, silence this with warnings.filterwarnings("
        '"ignore", category=tsformer.data.LayoutWarning)',
        LayoutWarning,
    )


def series_ids(X: Any) -> tuple[pd.Index | None, str]:
    """Return the ids of series, if any, and their expression, with {} for the container."""
    if hasattr(X, "data_vars"):  # a data set of xarray, whose arrays have the same dimensions
        X = next(iter(X.data_vars.values()), None)
    if has_dims(X):
        X = native(X)
        return (X.indexes.get(X.dims[0]), f"{{}}.indexes[{X.dims[0]!r}]") if X.dims else (None, "")
    if isinstance(X, _PANDAS):
        levels = isinstance(X.index, pd.MultiIndex) and X.index.nlevels == 2
        return (X.index.unique(0), "{}.index.unique(0)") if levels else (X.index, "{}.index")
    several = isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.dtype.kind == "O")
    items = X if several else ()
    if not len(items) or not all(isinstance(x, pd.DataFrame) and CASE in x.attrs for x in items):
        return None, ""
    ids = pd.Index([x.attrs[CASE] for x in items], tupleize_cols=False)
    return ids, f'[x.attrs["{CASE}"] for x in {{}}]'


def check_ids(X: Any, other: Any, name: str, *, of: str = "X") -> None:
    """Raise ValueError if `X` and `other` carry ids that contradict each other."""
    others = series_ids(other)[0] if has_dims(other) or isinstance(other, _PANDAS) else None
    if others is None:
        return
    ids, index = series_ids(X)
    named = ids is not None
    if not named and isinstance(X, (list, tuple)) and all(isinstance(x, _PANDAS) for x in X):
        # Series cut from one table: the rows where they begin are their names.
        firsts = [x.index[0] for x in X if len(x)]
        ids, index = pd.Index(firsts, tupleize_cols=False), "[x.index[0] for x in {}]"
    if ids is None or len(ids) != len(others) or ids.equals(others) or not (named or ids.is_unique):
        return  # another length is an error of its own
    spelled, spelled_others = _spelled(ids), _spelled(others)
    same = Counter(spelled) == Counter(spelled_others)
    numbered = [str(i) for i in range(len(ids))] in (spelled, spelled_others)
    digits, other_digits = (all(map(str.isdigit, each)) for each in (spelled, spelled_others))
    may_differ = not named or numbered or digits != other_digits
    if spelled == spelled_others or (not same and may_differ):
        return
    shown, other_shown = (shortened(each[:3].tolist(), 60) for each in (ids, others))
    raise ValueError(
        f"{of} and {name} have {'the same ids in another order' if same else 'different ids'}: "
        f"{of} has {shown} first, {name} {other_shown}; pass {name}.loc[{index.format(of)}], "
        f"or if they match by position, pass {name}.to_numpy()"
    )


def _spelled(ids: pd.Index) -> list[str]:
    """Spell ids so that 1, 1.0 and "1" are one, and so are a date and its text."""
    texts = (f"{i:.0f}" if isinstance(i, float) and i.is_integer() else str(i) for i in ids)
    return [text.removesuffix(" 00:00:00") for text in texts]


def cut_by_case(table: pd.DataFrame, codes: npt.NDArray[np.intp]) -> list[pd.DataFrame]:
    """Return the rows of each case, numbered 0, 1, 2, ..., in the order of the table."""
    # Sorted once and cut: to select the rows of one series after the other is quadratic.
    table = table.iloc[np.argsort(codes, kind="stable")]
    cuts = [0, *np.bincount(codes).cumsum().tolist()]
    return [table.iloc[start:stop].copy() for start, stop in pairwise(cuts)]


def refuse_nul(values: Any, name: str) -> None:
    """Raise ValueError for text with a NUL character, at which NumPy and pandas cut text."""
    if getattr(getattr(values, "dtype", None), "kind", "O") in "biufcmM":
        return
    for value in np.asarray(values, dtype=object).ravel():
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{name} has text with a NUL character, {shortened(value, 40)}")


def refuse_alike(names: Any, what: str) -> None:
    """Raise ValueError for distinct names that differ only in their type or in blanks."""
    spelled = pd.Series(names.tolist(), dtype=object)
    if (alike := spelled.astype(str).str.strip().duplicated()).any():
        raise ValueError(
            f"{what}: the name {spelled[alike].tolist()[0]!r} and another differ only in their "
            "type or in blanks; make them equal, as with astype(str).str.strip()"
        )


def warn_of_layout(X: Any, series: SeriesSource, *, flat: bool) -> None:
    """Issue a `LayoutWarning` if `X`, perhaps `flat` (n, length), is probably misread."""
    if _is_checked.get():
        return
    if series.gaps is not None:
        names = np.array(series.channels or range(series.n_channels), dtype=object)
        n_missing = series.gaps.missing.sum(axis=0, dtype=np.int64)
        if empty := names[n_missing == series.lengths.sum()].tolist():
            _warn(f"channels {empty} of X have no value in any series; drop these channels")
    if doubt := _doubt_of_steps(X, series) if flat else _doubt_of_channels(X, series):
        _warn(doubt)


def _doubt_of_steps(X: Any, series: SeriesSource) -> str:
    """Say why rows of a wide table are probably no series."""
    n, length = len(series), series.n_steps
    columns = getattr(X, "columns", None)
    if isinstance(columns, pd.MultiIndex):
        if sum(len(columns.unique(level)) > 1 for level in range(columns.nlevels)) < 2:
            return ""
        return (
            f"X has columns of {columns.nlevels} levels, such as {columns[0]}, and is read as {n} "
            f"series of one channel; if the last level has the steps, pass "
            "X.stack(future_stack=True)"
        )
    names = _columns(X, length)
    if found := _case_and_time(series, names):
        case, time = found
        values = [name for name in names if name not in found]
        return (
            f"X is read as {n} series of {length} steps, one per row, but its columns {case!r} and "
            f"{time!r} look like a long table: convert it with tsformer.data.from_long(X, "
            f"case={case!r}, time={time!r}, value={values[:5]})"
        )
    if odd := odd_columns(names):
        return (
            f"X has columns that are read as steps, but are not named as other steps: {odd}; leave "
            f"them out with X.drop(columns={odd})"
        )
    return ""


def _case_and_time(series: SeriesSource, names: list[Any]) -> tuple[Any, Any] | None:
    """Return a column of whole numbers in runs, and one that rises within each run."""
    n = min(len(series), _MOST_ROWS)
    if n < 3 * _ROWS_PER_CASE:
        return None
    table = pd.DataFrame(series.read(np.arange(n)).values[:, :_MOST_COLUMNS, 0])
    new, rises = (table.diff() != 0).to_numpy(), (table.diff() > 0).to_numpy()
    distinct = table.nunique().tolist()
    for i, case in enumerate(table.to_numpy().T):
        if 3 <= distinct[i] == new[:, i].sum() <= n // _ROWS_PER_CASE and not (case % 1).any():
            rising = (rises | new[:, [i]]).all(axis=0)
            free = (k for k, m in enumerate(distinct) if k != i and 2 * m <= n)
            times = [k for k in free if rising[k]]
            if times:
                time = max(times, key=lambda k: is_named_like_time(names[k]))
                return names[i], names[time]
    return None


def _doubt_of_channels(X: Any, series: SeriesSource) -> str:
    """Say why channels are probably no channels."""
    n, length, n_channels = len(series), series.n_steps, series.n_channels
    first = X[0] if isinstance(X, (list, tuple)) else X
    named = series.channels is not None or isinstance(first, pd.DataFrame)
    if n_channels <= (1 if named else length):
        return ""
    values = series.read(np.arange(0, n, -(-n // _MOST_SERIES))).values
    if named and (ids := _id_channels(values, list(series.channels or first.columns))):
        drop = f".drop(columns={ids})"
        drop = f"X{drop}" if isinstance(X, pd.DataFrame) else f"[x{drop} for x in X]"
        return (
            "X has columns that are read as channels, but count up like ids or times, or do not "
            f"change within any series: {ids}; leave them out with {drop}"
        )
    # Lengths that differ are lengths.
    if isinstance(X, pd.DataFrame) or series.channels is not None or n_channels <= length:
        return ""
    if (series.lengths < length).any() or _change(values, 1) < _SMOOTH * _change(values, 2):
        return ""
    return (
        f"X is read as {n} series of {n_channels} channels and {length} steps; if it is "
        f"(n, length, channels), pass {swapped_axes(X)}"
    )


def _id_channels(values: Floats, names: list[Any]) -> list[Any]:
    """Return the channels that count up or are named like times, or are constant in each series."""
    low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
    steps = np.diff(values, axis=1)
    several = np.count_nonzero(~np.isnan(values), axis=1) > 1
    levels = np.where(several, low, np.nan)
    differ = np.fmin.reduce(levels) < np.fmax.reduce(levels)
    counts = (steps == 1).any(axis=(0, 1)) & ((steps == 1) | np.isnan(steps)).all(axis=(0, 1))
    timed = np.array([*map(is_named_like_time, names)]) & ~(steps < 0).any(axis=(0, 1))
    found = np.where((low < high).any(axis=0), counts | timed, differ)
    return [name for name, is_id in zip(names, found, strict=True) if is_id]


def warn_of_order(X: Any, n_steps: int) -> None:
    """Issue a `LayoutWarning` if the columns of a wide table are not in the order of time."""
    names = _columns(X, n_steps)
    if not _is_checked.get() and is_out_of_order(names):
        _warn(
            "the columns of X are read as steps, but are not in the order of their numbers or "
            f"dates: {[str(name) for name in names[:5]]}; use X.sort_index(axis=1)"
        )


def warn_of_gaps(indices: Iterable[pd.Index], remedy: str) -> None:
    """Issue a `LayoutWarning` if rows are missing from a regular grid of times."""
    if _is_checked.get() or (found := missing_rows(indices)) is None:
        return
    step, n_missing, share = found
    _warn(
        f"times are {step} apart, but {n_missing:,} rows are missing, {share:.1%} of all, and gaps "
        f"are not seen: {remedy.format(step=step)}"
    )


def refuse_recording(X: Any, y: Any = None) -> None:
    """Raise ValueError if the rows of a table are the steps of one recording.

    Evidence: few columns that are named like channels beside many rows, labels that change seldom,
    and a time index, labels that come again, or values that change little from row to row.
    """
    shape = tuple(getattr(X, "shape", ()))
    if _is_checked.get() or len(shape) != 2 or hasattr(X, "tocsr") or not shape[1]:
        return
    (n, k), names = shape, _columns(X, shape[1])
    if n < max(_MANY_ROWS, _ROWS_PER_COLUMN * k) or not _are_channels([*map(str, names)]):
        return
    table = native(X)
    is_frame = isinstance(table, pd.DataFrame)
    table = (table if is_frame else pd.DataFrame(to_numpy(table))).infer_objects()
    labels: Any = pd.Series(np.zeros(n) if y is None else np.asarray(native(y)).tolist())
    rows = table.index
    plain = {getattr(dtype, "kind", "O") for dtype in table.dtypes} <= {*"fiub"}
    if isinstance(rows, pd.MultiIndex) or not plain or len(labels) != n:
        return
    if labels.dtype.kind == "f" and labels.nunique() > _ROWS_PER_COLUMN:
        labels = np.floor(10 * labels.rank(pct=True))  # tenths of a target
    has_order = rows.is_unique and (rows.dtype.kind in "iufmM" or isinstance(rows, pd.PeriodIndex))
    order = rows.argsort() if has_order else np.arange(n)  # as before a random split
    codes, known = pd.factorize(labels.map(str).to_numpy()[order])
    n_changes = np.count_nonzero(np.diff(codes))
    at_random = n * (1 - ((np.bincount(codes) / n) ** 2).sum())
    if y is not None and not 0 < 4 * n_changes < at_random:
        return
    values = table.to_numpy(dtype=np.float64, na_value=np.nan)[order][:_MOST_ROWS]
    # The change between independent rows is that between shuffled rows.
    shuffled = np.random.default_rng(0).permutation(values)
    steady = _change(values, 0) < _STEADY * _change(shuffled, 0)
    if steady or n_changes >= len(known) or (has_order and rows.dtype.kind not in "iu"):
        roles = f"{'X' if is_frame else 'X.T'}, {None if y is None else 'y'}"
        seldom = "" if y is None else f", and y changes only {n_changes} times"
        raise ValueError(
            f"X has {n:,} rows of {k} columns, {shortened(names[:5], 60)}{seldom}: these are the "
            "steps of a recording. Cut the recording into series with "
            f"tsformer.data.windows({roles}, length, stride); if each row is a series, pass "
            "np.asarray(X)[:, None]"
        )


def _are_channels(names: list[str]) -> bool:
    """Whether columns are named like channels, or too few for steps and without names."""
    words = {word.lower().removesuffix("s") for name in names for word in _WORD.findall(name)}
    if not words or {name.lower() for name in names} <= _CALENDAR:
        return not words and len(names) <= _FEW_STEPS
    numbered = sum(map(bool, map(_NUMBER.search, names)))
    return 2 * numbered < len(names) or (words - {*"xyz"} <= _SENSORS and not words <= {*"xyz"})


def odd_columns(names: Sequence[Any]) -> list[Any]:
    """Return the few columns of a wide table that are named unlike its steps.

    Examples
    --------
    >>> odd_columns(["subject", "age", "t0", "t1", "t2", "t3", "t4", "t5"])
    ['subject', 'age']
    >>> odd_columns(["id1", "id2", "id3"]), odd_columns([0, 1, 2.5])
    ([], [])
    """
    stems = [_NUMBER.sub("#", str(name)) for name in names]
    ((usual, most),) = Counter(stems).most_common(1)
    if most < max(len(names) - _MOST_ODD, 5):
        return []
    steps = {usual, re.sub(r"\W*#", "", usual)}  # as in t, t+1, and in value, value.1 of pandas
    return [name for name, stem in zip(names, stems, strict=True) if stem not in steps]


def swapped_axes(X: Any) -> str:
    """Return the expression that swaps channels and steps of `X`."""
    if isinstance(X, torch.Tensor):
        return "X.transpose(1, 2)"
    if isinstance(X, (list, tuple)) and hasattr(X[0], "T"):
        return "[x.T for x in X]"
    return "np.transpose(X, (0, 2, 1))"


def _columns(X: Any, n_steps: int) -> list[Any]:
    """Return the names of the columns of a wide table, or their numbers."""
    return list(getattr(X, "column_names", getattr(X, "columns", range(n_steps))))


def is_out_of_order(names: Sequence[Any]) -> bool:
    """Whether numbers or dates do not rise, or numbers in text neither rise nor fall."""
    index = pd.Index(names, tupleize_cols=False)
    if getattr(index.dtype, "kind", "O") in "iufM":
        return not index.is_monotonic_increasing
    texts = list(map(str, names))
    index = pd.Index(texts)
    if not all(map(is_iso, texts)):
        found = [_NUMBER.findall(text) for text in texts]
        if len({_NUMBER.sub("#", text) for text in texts}) > 1 or len(found[0]) != 1:
            return False
        index = pd.Index([float(number) for (number,) in found])
    return not (index.is_monotonic_increasing or index.is_monotonic_decreasing)


def is_named_like_time(name: Any) -> bool:
    """Whether a column is named like times."""
    return any(word.lower() in _TIME for word in _WORD.findall(str(name)))


def _change(values: Floats, axis: int) -> np.float64:
    """Return the mean change between neighbours along an axis."""
    with np.errstate(invalid="ignore", over="ignore"):
        changes = np.abs(np.diff(values, axis=axis))
        return np.float64(np.nansum(changes)) / np.count_nonzero(~np.isnan(changes))
