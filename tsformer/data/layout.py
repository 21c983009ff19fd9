"""The layout of containers: ids of series, and layouts that are probably misread."""

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from itertools import compress
from typing import Any

import numpy as np
import pandas as pd

from tsformer._checks import shortened
from tsformer._warnings import warn_caller
from tsformer.data.native import native, to_numpy
from tsformer.data.series import Floats, SeriesSource
from tsformer.data.times import DATES

#: Where `from_long` keeps the id of a series, in the `attrs` of its DataFrame.
CASE = "case"
#: Swaps channels and steps of arrays, tensors and lists.
SWAPPED = "[x.T for x in X]"
_PANDAS = (pd.DataFrame, pd.Series)
#: Largest plausible ratio of the change between steps to the change between channels: on the
#: archives' multivariate problems it is .06 to .72.
_SMOOTH = 0.8
#: Rows, columns and series that are examined, and fewest rows per case of a long table.
_MOST_ROWS, _MOST_COLUMNS, _MOST_SERIES, _ROWS_PER_CASE = 100_000, 20, 50, 5
#: A number in the name of a step, and most columns that are named unlike the steps.
_NUMBER, _MOST_ODD = re.compile(r"[-+]?\d+(?:\.\d+)?"), 3
#: Fewest rows of a recording, in all and per column, and most numbered columns of one.
_MANY_ROWS, _ROWS_PER_COLUMN, _MOST_NUMBERED = 200, 20, 12
#: Largest mean change between rows of a recording, in changes between shuffled rows.
_STEADY = 0.7


class LayoutWarning(UserWarning):
    """The layout of the series is probably not the layout that `fit` reads.

    Such as arrays ``(n, length, channels)``, long tables, columns of ids, columns out of order,
    channels without a value, and rows missing from regular times. Where the layout is right, use
    ``warnings.filterwarnings("ignore", category=tsformer.data.LayoutWarning)``.
    """


def layout_is_checked() -> AbstractContextManager[Any]:
    """Skip the warnings in this block: the series were checked before."""
    return warnings.catch_warnings(action="ignore", category=LayoutWarning)


def warn_misread(message: str) -> None:
    """Issue a `LayoutWarning`, and how to silence it."""
    warn_caller(
        f"{message}; if it is right, silence this with warnings.filterwarnings("
        '"ignore", category=tsformer.data.LayoutWarning)',
        LayoutWarning,
    )


def series_ids(X: Any) -> pd.Index | None:
    """Return the ids of series, if any."""
    if isinstance(X, _PANDAS):
        levels = isinstance(X.index, pd.MultiIndex) and X.index.nlevels == 2
        return X.index.unique(0) if levels else X.index
    several = isinstance(X, (list, tuple)) or (isinstance(X, np.ndarray) and X.dtype.kind == "O")
    items = list(X) if several else []
    if not items or not all(isinstance(x, pd.DataFrame) and CASE in x.attrs for x in items):
        return None
    return pd.Index([x.attrs[CASE] for x in items], tupleize_cols=False)


def check_ids(X: Any, entries: Any, name: str, *, of: str = "X") -> None:
    """Raise ValueError if `X` and `entries` carry ids that contradict each other."""
    expected = series_ids(entries) if isinstance(entries, _PANDAS) else None
    ids = None if expected is None else series_ids(X)
    named = ids is not None
    if not named and isinstance(X, (list, tuple)) and all(isinstance(x, _PANDAS) for x in X):
        # Series cut from one table: the rows where they begin are their names.
        ids = pd.Index([x.index[0] for x in X if len(x)], tupleize_cols=False)
    if ids is None or expected is None or len(ids) != len(expected):
        return  # another length is an error of its own
    texts = [_spelled(ids), _spelled(expected)]
    if texts[0] == texts[1]:
        return
    permuted = Counter(texts[0]) == Counter(texts[1])
    are_numbers = [all(map(str.isdigit, names)) for names in texts]
    row_numbers = [str(i) for i in range(len(ids))] in texts or are_numbers[0] != are_numbers[1]
    if permuted or (named and not row_numbers):
        first, second = (shortened(names[:3], 60) for names in texts)
        problem = "the same ids in another order" if permuted else "different ids"
        raise ValueError(
            f"{of} and {name} have {problem}: {first} and {second} first; sort {name}, or pass "
            f"{name}.to_numpy() if they match"
        )


def _spelled(ids: pd.Index) -> list[str]:
    """Spell ids so that 1, 1.0 and "1" are one, and so are a date and its text."""
    texts = (f"{i:.0f}" if isinstance(i, float) and i.is_integer() else str(i) for i in ids)
    return [text.removesuffix(" 00:00:00") for text in texts]


def refuse_nul(values: Any, name: str) -> None:
    """Raise ValueError for text with a NUL character, at which NumPy and pandas cut text."""
    for value in np.asarray(values, dtype=object).ravel():
        if isinstance(value, str) and "\0" in value:
            raise ValueError(f"{name} has text with a NUL character, {shortened(value, 40)}")


def refuse_alike(names: Any, kind: str) -> None:
    """Raise ValueError for distinct names that differ only in their type or in blanks."""
    texts = pd.Series(names.tolist(), dtype=object)
    if (alike := texts.astype(str).str.strip().duplicated()).any():
        name = texts[alike].tolist()[0]
        raise ValueError(f"{kind}: {name!r} and another differ only in their type or in blanks")


def warn_of_layout(X: Any, series: SeriesSource, *, flat: bool) -> None:
    """Issue a `LayoutWarning` if `X`, perhaps `flat` (n, length), is probably misread."""
    if series.gaps is not None:
        lost = series.gaps.missing.sum(axis=0, dtype=np.int64) == series.lengths.sum()
        if empty := list(compress(series.channels or range(series.n_channels), lost)):
            warn_misread(f"channels {empty} of X have no value in any series; drop these channels")
    doubt_of = _doubt_of_rows if flat else _doubt_of_channels
    if doubt := doubt_of(X, series):
        warn_misread(f"X is read as {len(series)} series{doubt}")


def _doubt_of_rows(X: Any, series: SeriesSource) -> str:
    """Return how to read a wide table that is probably long, or ""."""
    # The first column has runs of one whole number, and another column rises in each run.
    table = series.read(np.arange(min(len(series), _MOST_ROWS))).values[:, :_MOST_COLUMNS, 0]
    n_cases, is_new = len(np.unique(table[:, 0])), np.diff(table[:, 0]) != 0
    in_runs = 3 <= n_cases == np.count_nonzero(is_new) + 1 <= len(table) // _ROWS_PER_CASE
    rising = ((np.diff(table, axis=0) > 0) | is_new[:, None]).all(axis=0)
    if not in_runs or (table[:, 0] % 1).any() or not rising.any():
        return ""
    names = _columns(X, series.n_steps)
    roles = f"case={names[0]!r}, time={names[int(rising.argmax())]!r}"
    return f", one per row; if it is a long table, pass tsformer.data.from_long(X, {roles})"


def _doubt_of_channels(X: Any, series: SeriesSource) -> str:
    """Return how to read channels that are probably ids or steps, or ""."""
    n, length, n_channels = len(series), series.n_steps, series.n_channels
    first = X[0] if isinstance(X, (list, tuple)) else X
    named = series.channels is not None or isinstance(first, pd.DataFrame)
    if n_channels <= (1 if named else length):
        return ""
    values = series.read(np.arange(0, n, -(-n // _MOST_SERIES))).values
    if not named:  # an axis of unequal lengths is the axis of steps
        if (series.lengths < length).any() or _change(values, 1) < _SMOOTH * _change(values, 2):
            return ""
        return f" of {n_channels} channels, {length} steps; if not, swap them: {SWAPPED}"
    low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
    steps = np.diff(values, axis=1)
    levels = np.where(np.count_nonzero(~np.isnan(values), axis=1) > 1, low, np.nan)
    differ = np.fmin.reduce(levels) < np.fmax.reduce(levels)
    counts = (steps == 1).any(axis=(0, 1)) & ((steps == 1) | np.isnan(steps)).all(axis=(0, 1))
    are_ids = np.where((low < high).any(axis=0), counts, differ)
    if not (ids := list(compress(series.channels or first.columns, are_ids))):
        return ""
    drop = f".drop(columns={ids})"
    drop = f"X{drop}" if isinstance(X, pd.DataFrame) else f"[x{drop} for x in X]"
    return f" with channels that count up or never change in a series; drop ids with {drop}"


def _change(values: Floats, axis: int) -> np.float64:
    """Return the mean change between neighbours along an axis."""
    with np.errstate(invalid="ignore", over="ignore"):
        changes = np.abs(np.diff(values, axis=axis))
        return np.float64(np.nansum(changes)) / np.count_nonzero(~np.isnan(changes))


def warn_of_order(X: Any, n_steps: int) -> None:
    """Issue a `LayoutWarning` if the columns of a wide table are no steps in order."""
    if doubt := doubt_of_steps(_columns(X, n_steps)):
        warn_misread(f"X has columns that are read as steps, but are not {doubt}")


def doubt_of_steps(names: Sequence[Any]) -> str:
    """Return why columns are probably not steps in order, or ""."""
    levels = zip(*names, strict=True) if isinstance(names[0], tuple) else ()
    if sum(len(set(level)) > 1 for level in levels) > 1:
        return "of one level; if the last level has the steps, pass X.stack(future_stack=True)"
    texts = list(map(str, names))
    stems = [_NUMBER.sub("#", text) for text in texts]
    ((usual, most),) = Counter(stems).most_common(1)
    steps = {usual, re.sub(r"\W*#", "", usual)}  # as in t, t+1, and in value, value.1 of pandas
    odd = [name for name, stem in zip(texts, stems, strict=True) if stem not in steps]
    if odd and most >= max(len(names) - _MOST_ODD, 5):
        return f"named like the others: {odd}; drop them"
    index = pd.Index(names, tupleize_cols=False)
    if getattr(index.dtype, "kind", "O") not in "iufM":
        if odd or usual.count("#") != 1:
            return ""
        index = pd.Index([float(_NUMBER.findall(f"{text} 0")[0]) for text in texts])
        index = index[::-1] if index.is_monotonic_decreasing else index  # lags
    return "" if index.is_monotonic_increasing else f"in order: {texts[:5]}; sort them"


def refuse_recording(X: Any, y: Any = None) -> None:
    """Raise ValueError for rows that are steps of a recording: by dates, labels or values."""
    turned = "X.T"
    if isinstance(X, list) and X and np.size(X[0]) * _ROWS_PER_COLUMN <= len(X):
        with suppress(ValueError):  # rows of unequal length
            X, turned = np.array(X), "np.array(X).T"
    n, k = shape if len(shape := tuple(getattr(X, "shape", ()))) == 2 else (0, 0)
    if n < max(_MANY_ROWS, _ROWS_PER_COLUMN * k) or not k or hasattr(X, "tocsr"):
        return
    n_numbered = sum(bool(_NUMBER.search(str(name))) for name in _columns(X, k))
    are_channels = k < 4 or 2 * n_numbered < k
    if not are_channels and k > _MOST_NUMBERED:
        return
    table = native(X)
    is_frame = isinstance(table, pd.DataFrame)
    table = (table if is_frame else pd.DataFrame(to_numpy(table))).infer_objects()
    rows, numeric = table.index, table.select_dtypes(["number", "bool"])
    if isinstance(rows, pd.MultiIndex) or numeric.shape[1] < k:
        return
    evidence = isinstance(rows, DATES)
    has_order = rows.is_unique and (evidence or rows.dtype.kind in "iuf")
    order = rows.argsort() if has_order else np.arange(n)  # as before a random split
    if y is not None:
        labels: Any = pd.Series(np.asarray(y).tolist())
        if labels.dtype.kind == "f" and labels.nunique() > _ROWS_PER_COLUMN:
            labels = np.floor(10 * labels.rank(pct=True))  # tenths of a target
        if len(labels) != n:
            return
        codes, known = pd.factorize(labels.iloc[order].map(str).to_numpy())
        n_changes = np.count_nonzero(np.diff(codes))
        if not 0 < 4 * n_changes < n - np.bincount(codes).max():
            return
        evidence = evidence or bool(n_changes >= len(known))
    values = table.to_numpy(dtype=np.float64, na_value=np.nan)[order][:_MOST_ROWS]
    shuffled, change = np.random.default_rng(0).permutation(values), _change(values, 0)
    are_channels = are_channels or bool(2 * change < _change(values, 1))
    if are_channels and (evidence or change < _STEADY * _change(shuffled, 0)):
        roles = f"{'X' if is_frame else turned}, {None if y is None else 'y'}"
        raise ValueError(
            f"X has {n:,} rows of {k} columns, the steps of a recording; if each row is a series, "
            "pass np.asarray(X)[:, None]. Cut the recording into series with "
            f"tsformer.data.windows({roles}, length, stride)"
        )


def _columns(X: Any, n_steps: int) -> list[Any]:
    """Return the names of the columns of a wide table, or their numbers."""
    return list(getattr(X, "column_names", getattr(X, "columns", range(n_steps))))
