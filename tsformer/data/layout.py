"""The layout of containers: ids of series, and layouts that are probably misread."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise, permutations
from math import lgamma, log
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from tsformer._checks import shortened
from tsformer._warnings import warn_caller
from tsformer.data.native import has_dims, native
from tsformer.data.series import Floats, SeriesSource
from tsformer.data.times import utc_offset

#: Where `from_long` keeps the id of a series, in the `attrs` of its DataFrame.
CASE = "case"


def series_ids(X: Any) -> pd.Index | None:
    """Return the id of each series of a container; None if it holds no ids."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        return None
    if hasattr(X, "data_vars"):  # a data set of xarray, whose arrays have the same dimensions
        X = next(iter(X.data_vars.values()), None)
    if has_dims(X):
        X = native(X)
        return X.indexes.get(X.dims[0]) if X.dims else None
    if isinstance(X, (pd.DataFrame, pd.Series)):
        rows = X.index
        if not isinstance(rows, pd.MultiIndex) or rows.nlevels != 2:
            return rows
        _, first = np.unique(rows.codes[0], return_index=True)
        return rows.get_level_values(0)[np.sort(first)]
    if isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        X = list(X)
    if not isinstance(X, (list, tuple)) or not X:
        return None
    if not all(isinstance(x, pd.DataFrame) and CASE in x.attrs for x in X):
        return None
    return pd.Index([x.attrs[CASE] for x in X], tupleize_cols=False)


def check_ids(X: Any, other: Any, name: str, *, of: str = "X") -> None:
    """Raise ValueError if `X` and `other` carry ids that contradict each other."""
    ids = series_ids(X)
    others = series_ids(other) if has_dims(other) or _is_pandas(other) else None
    if others is None:
        return
    by_rows = ids is None
    ids = _first_rows(X) if ids is None else ids
    if ids is None or len(ids) != len(others) or ids.equals(others):
        return  # another length is an error of its own
    read, others_read = _as_dates(ids, others), _as_dates(others, ids)
    spelled, spelled_others = _spelled(read), _spelled(others_read)
    if spelled == spelled_others:
        return
    if by_rows:
        index = f"[x.index[0] for x in {of}]"
    elif isinstance(X, (list, tuple, np.ndarray)):
        index = f'[x.attrs["{CASE}"] for x in {of}]'
    elif _is_pandas(X):
        index = f"{of}.index{'.unique(0)' if isinstance(X.index, pd.MultiIndex) else ''}"
    else:
        index = f"{of}.indexes[{ids.name!r}]"
    shown, shown_others = _shown(ids), _shown(others)
    matched = (
        f"{name}.set_axis(pd.to_datetime({name}.index))" if others_read is not others else name
    )
    index = f"pd.to_datetime({index})" if read is not ids else index
    by_position = f"if they match by position, pass {name}.to_numpy()"
    if Counter(spelled) == Counter(spelled_others):
        raise ValueError(
            f"{of} and {name} have the same ids in another order: {of} has {shown}, {name} has "
            f"{shown_others}; pass {matched}.loc[{index}], or {by_position}"
        )
    default = [str(i) for i in range(len(ids))]
    whole, others_whole = (all(map(str.isdigit, each)) for each in (spelled, spelled_others))
    if by_rows or default in (spelled, spelled_others) or whole != others_whole:
        return
    raise ValueError(
        f"{of} and {name} have different ids: {of} has {shown}, {name} has {shown_others}; pass "
        f"{matched}.loc[{index}], which takes the values of these series, or {by_position}"
    )


def _first_rows(X: Any) -> pd.Index | None:
    """Return the rows where series cut from one table begin, as names of the series."""
    if not isinstance(X, (list, tuple)) or not all(_is_pandas(x) and len(x) for x in X):
        return None
    rows = pd.Index([x.index[0] for x in X], tupleize_cols=False)
    return rows if rows.is_unique else None


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
            raise ValueError(
                f"{name} has text with a NUL character, {shortened(value, 40)}: NumPy and pandas "
                "cut text there; remove the character"
            )


def refuse_alike(names: Any, what: str) -> None:
    """Raise ValueError for distinct names that differ only in their type or in blanks."""
    if getattr(getattr(names, "dtype", None), "kind", "O") in "biufmM":
        return
    spelled = pd.Series(names.tolist(), dtype=object)
    alike = spelled[spelled.astype(str).str.strip().duplicated()].tolist()
    if alike:
        raise ValueError(
            f"{what}: the name {alike[0]!r} and another differ only in their type or in blanks; "
            "make them equal, as with astype(str).str.strip()"
        )


def _is_pandas(value: Any) -> bool:
    """Whether a value has an index of pandas."""
    return isinstance(value, (pd.DataFrame, pd.Series))


def _as_dates(ids: pd.Index, others: pd.Index) -> pd.Index:
    """Parse text beside dates, where all of it is dates."""
    if not isinstance(others, pd.DatetimeIndex) or not all(isinstance(i, str) for i in ids):
        return ids
    dates = pd.to_datetime(ids, errors="coerce", format="ISO8601")
    return ids if dates.hasnans else dates


def _spelled(ids: pd.Index) -> list[str]:
    """Spell ids so that 1, 1.0 and "1" are one."""
    return [f"{i:.0f}" if isinstance(i, float) and i.is_integer() else str(i) for i in ids.tolist()]


def _shown(ids: pd.Index) -> str:
    """Return the first ids, for messages."""
    return shortened(ids[:3].tolist(), 60)[:-1] + (", ...]" if len(ids) > 3 else "]")


#: Largest plausible ratio of the change between steps to the change between channels: on the
#: archives' multivariate problems it is .06 to .72.
_SMOOTH = 0.8
#: Two columns are a case and a time if chance alone is less likely than this.
_CHANCE = 1e-5
#: Parts of the names of time columns, where the rows leave both readings open.
_TIMES = ("time", "step", "date", "day", "hour", "minute", "second")
#: Words in the names of times among channels.
_TIME = {"date", "dates", "datetime", "time", "times", "timestamp", "timestamps"}
#: Columns and rows of a table that are examined.
_MOST_COLUMNS, _MOST_ROWS = 20, 100_000
#: Series that are examined.
_MOST_SERIES = 50
#: Words in the names of id columns,
_ID = {"id", "ids", "pid", "uid", "uuid", "guid", "identifier"}
#: and the things with ids: a name of their own, or with a word for number.
_ID_OF = (
    *("case", "client", "customer", "individual", "instance", "participant", "patient", "person"),
    *("record", "sample", "series", "subject", "user"),
)
_ID_NAME = re.compile(
    f"({'|'.join(_ID_OF)})(s?(id|index|key|no|nr|num|number|code|name))?"
    "|(column|row)s?(id|index|key|no|nr|num|number)"
)
#: Names of a first or last step among numbered steps.
_END = re.compile("admission|baseline|begin|beginning|end|final|initial|onset|post|pre|start")
#: A number in the name of a step.
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")
#: Columns that pandas makes of an index.
_INDEX = re.compile(r"index|idx|level_\d+|unnamed: \d+")
#: Most columns of a wide table that are named unlike its steps.
_MOST_ODD = 3


class LayoutWarning(UserWarning):
    """The layout of the series is probably not the layout that `fit` reads.

    `fit` issues it if channels outnumber steps and values do not vary less from step to step than
    from channel to channel: the array may be ``(n, length, channels)``. It also warns if two
    columns of a table ``(n, length)`` look like the case and the time of a long table, and if a
    step or channel is named like an id, is named unlike the other steps, or is constant within
    every series, if a channel that is named like times never falls, if a channel has no value at
    all, and if the columns of a table have several levels. `fit` and `predict` issue it if the
    columns of such a table, or the rows of a DataFrame in a list, are not in the order of their
    numbers or dates.

    Where the layout is right, silence it with
    ``warnings.filterwarnings("ignore", category=tsformer.data.LayoutWarning)``.

    See Also
    --------
    tsformer.data.from_long : Converts a long table to series.

    Examples
    --------
    >>> import warnings
    >>> from tsformer import RandomConvolutionClassifier
    >>> X = np.random.default_rng(0).normal(size=(8, 30, 2))  # (n, length, channels)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     clf = RandomConvolutionClassifier(168).fit(X, [0, 1] * 4)
    >>> str(caught[0].message).partition(";")[0]
    'X is read as 8 series of 30 channels and 2 steps'
    """


_SILENCE = (
    'if it is right, silence this with warnings.filterwarnings("ignore", '
    "category=tsformer.data.LayoutWarning)"
)
_is_checked: ContextVar[bool] = ContextVar("layout_is_checked", default=False)


@contextmanager
def layout_is_checked() -> Iterator[None]:
    """Skip the check in this block: the series were checked before."""
    token = _is_checked.set(True)
    try:
        yield
    finally:
        _is_checked.reset(token)


def warn_of_layout(X: Any, series: SeriesSource, *, flat: bool) -> None:
    """Issue a `LayoutWarning` if `X`, perhaps `flat` (n, length), is probably misread."""
    if _is_checked.get():
        return
    if empty := _empty_channels(series):
        warn_caller(
            f"channels {empty} of X have no value in any series, and would change predictions at "
            f"random if they had values in predict; drop these channels; {_SILENCE}",
            LayoutWarning,
        )
    if flat and isinstance(columns := getattr(X, "columns", None), pd.MultiIndex):
        if sum(len(columns.unique(level)) > 1 for level in range(columns.nlevels)) > 1:
            warn_caller(
                f"X has columns of {columns.nlevels} levels, such as {columns[0]}, and is read as "
                f"{len(series)} series of one channel and {series.n_steps} steps; if the last "
                "level has the steps, and another the channels, pass X.stack(future_stack=True); "
                f"{_SILENCE}",
                LayoutWarning,
            )
    elif flat:
        n, length = len(series), series.n_steps
        names = _columns(X, length)
        found = _case_and_time(_corner(series), names)
        if found is not None:
            case, time = found
            values = [name for name in names if name not in found]
            warn_caller(
                f"X is read as {n} series of {length} steps, one per row, but its columns {case!r} "
                f"and {time!r} look like case and time of a long table, with one row per "
                f"observation: convert it with tsformer.data.from_long(X, case={case!r}, "
                f"time={time!r}, value={values[:5]}); {_SILENCE}",
                LayoutWarning,
            )
        elif columns := id_columns(names):
            warn_caller(
                f"X has columns that are read as steps, but are named like ids, or not as other "
                f"steps: {columns}; leave them out with X.drop(columns={columns}); {_SILENCE}",
                LayoutWarning,
            )
    elif ids := _id_channels(X, series):
        drop = f".drop(columns={ids})"
        drop = f"X{drop}" if isinstance(X, pd.DataFrame) else f"[x{drop} for x in X]"
        warn_caller(
            f"X has columns that are read as channels, but are named like ids or times, or do not "
            f"change within any series: {ids}; leave them out with {drop}, by value= of from_long, "
            f"or by --value; {_SILENCE}",
            LayoutWarning,
        )
    elif not isinstance(X, pd.DataFrame) and series.channels is None and _may_be_swapped(series):
        n, length, channels = len(series), series.n_steps, series.n_channels
        warn_caller(
            f"X is read as {n} series of {channels} channels and {length} steps; if it is "
            f"(n, length, channels), pass {swapped_axes(X)}; {_SILENCE}",
            LayoutWarning,
        )


def warn_of_order(X: Any, n_steps: int) -> None:
    """Issue a `LayoutWarning` if the columns of a wide table are not in the order of time."""
    names = _columns(X, n_steps)
    if not _is_checked.get() and is_out_of_order(names):
        warn_caller(
            "the columns of X are read as steps, but are not in the order of their numbers or "
            f"dates: {[str(name) for name in names[:5]]}; put them in order, numbers and dates "
            f"with X.sort_index(axis=1); {_SILENCE}",
            LayoutWarning,
        )


def id_columns(names: Sequence[Any]) -> list[Any]:
    """Return the columns of a wide table that are named like ids, or unlike steps.

    Examples
    --------
    >>> id_columns(["subject", "age", "t0", "t1", "t2", "t3", "t4", "t5"])
    ['subject', 'age']
    >>> id_columns(["id1", "id2", "id3"]), id_columns([0, 1, 2.5])
    ([], [])
    """
    stems = [_stem(name) for name in names]
    counts = Counter(stems)
    (usual, most), *_ = counts.most_common(1)
    odd = most >= max(len(names) - _MOST_ODD, 5)
    first = re.sub(r"\W*#", "", usual) or None  # as in t, t+1, and in value, value.1 of pandas
    return [
        name
        for name, stem in zip(names, stems, strict=True)
        if len(names) > 1
        and counts[stem] == 1
        and ((odd and stem != first and not _END.fullmatch(stem.lower())) or _is_id(name))
    ]


def swapped_axes(X: Any) -> str:
    """Return the expression that swaps channels and steps of `X`."""
    if isinstance(X, torch.Tensor):
        return "X.transpose(1, 2)"
    if isinstance(X, (list, tuple)) and hasattr(X[0], "T"):
        return "[x.T for x in X]"
    return "np.transpose(X, (0, 2, 1))"


def _stem(name: Any) -> str:
    """Return a name without its numbers."""
    text = str(name)
    try:
        float(text)
    except ValueError:
        return _NUMBER.sub("#", text)
    return "#"


def _columns(X: Any, n_steps: int) -> list[Any]:
    """Return the names of the columns of a wide table, or their numbers."""
    return list(getattr(X, "column_names", getattr(X, "columns", range(n_steps))))


def is_out_of_order(names: Sequence[Any]) -> bool:
    """Whether numbers or dates do not rise, or numbers in text neither rise nor fall."""
    index = pd.Index(names, tupleize_cols=False)
    if getattr(index.dtype, "kind", "O") in "iufM":
        return not index.is_monotonic_increasing
    if all(utc_offset(str(name)) is not None for name in names):  # text of ISO 8601
        dates = pd.Index(list(map(str, names)))
        return not (dates.is_monotonic_increasing or dates.is_monotonic_decreasing)
    found = [_NUMBER.findall(str(name)) for name in names]
    if len({_NUMBER.sub("#", str(name)) for name in names}) > 1 or len(found[0]) != 1:
        return False
    numbers = pd.Index([float(number) for (number,) in found])
    return not (numbers.is_monotonic_increasing or numbers.is_monotonic_decreasing)


def _is_id(name: Any) -> bool:
    """Whether a column is named like ids."""
    words = _words(name)
    named = _ID.intersection(words) or _ID_NAME.fullmatch("".join(words))
    return bool(named or _INDEX.fullmatch(str(name).strip().lower()))


def is_named_like_time(name: Any) -> bool:
    """Whether a channel is named like times."""
    return not _TIME.isdisjoint(_words(name))


def _words(name: Any) -> list[str]:
    """Return the words in a name, as in ``time_of_day`` and ``TimeOfDay``."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", str(name))]


def _id_channels(X: Any, series: SeriesSource) -> list[Any]:
    """Return the channels of tables that are ids or times by name, or constant in every series."""
    first = X[0] if isinstance(X, (list, tuple)) else X
    if series.n_channels < 2 or not (series.channels or isinstance(first, pd.DataFrame)):
        return []
    names: list[Any] = list(series.channels or first.columns)
    changes = np.zeros(len(names), dtype=bool)
    whole = ~changes
    rises = np.array([is_named_like_time(name) for name in names])
    least, most = np.full(len(names), np.inf), np.full(len(names), -np.inf)
    for index in series.parts():
        values = series.read(index).values
        low, high = np.fmin.reduce(values, axis=1), np.fmax.reduce(values, axis=1)
        whole &= (np.isnan(low) | (low == np.round(low)) & (high == np.round(high))).all(axis=0)
        rises[rises] = ~(np.diff(values[..., rises], axis=1) < 0).any(axis=(0, 1))
        changes |= (low < high).any(axis=0)
        if changes.all():
            break
        low[np.count_nonzero(~np.isnan(values), axis=1) < 2] = np.nan  # a single step is constant
        least = np.fmin(least, np.fmin.reduce(low, axis=0))
        most = np.fmax(most, np.fmax.reduce(low, axis=0))
    suspect = ~changes & (least < most) | whole & np.array([_is_id(name) for name in names])
    suspect |= changes & rises
    return [name for name, is_suspect in zip(names, suspect, strict=True) if is_suspect]


def _empty_channels(series: SeriesSource) -> list[Any]:
    """Return the channels without any value."""
    if series.gaps is None:
        return []
    n_missing = series.gaps.missing.sum(axis=0, dtype=np.int64)
    names = series.channels or range(series.n_channels)
    return [name for name, n in zip(names, n_missing, strict=True) if n == series.lengths.sum()]


def _may_be_swapped(series: SeriesSource) -> bool:
    n, length, channels = len(series), series.n_steps, series.n_channels
    # Lengths that differ are lengths.
    if channels <= length or (series.lengths < length).any():
        return False
    values = series.read(np.arange(0, n, -(-n // _MOST_SERIES))).values
    with np.errstate(invalid="ignore", over="ignore"):
        return not _change(values, axis=1) < _SMOOTH * _change(values, axis=2)


def _change(values: Floats, axis: int) -> np.float64:
    """Return the mean change between neighbours along an axis."""
    differences = np.abs(np.diff(values, axis=axis))
    return np.float64(np.nansum(differences)) / np.count_nonzero(~np.isnan(differences))


def _corner(series: SeriesSource) -> Floats:
    """Return the first rows and columns of a table."""
    rows: list[Floats] = []
    for index in series.parts():
        if index[0] >= _MOST_ROWS:
            break
        rows.append(series.read(index).values[:, :_MOST_COLUMNS, 0].copy())
    return np.concatenate(rows)[:_MOST_ROWS]


def _case_and_time(table: Floats, names: list[Any]) -> tuple[Any, Any] | None:
    """Return the columns of a table that look like the case and the time of an observation."""
    repeated: dict[int, npt.NDArray[np.intp]] = {}  # columns whose values come again
    whole = set()
    for i, column in enumerate(table.T):
        if not np.isnan(column).any():
            values, codes = np.unique(column, return_inverse=True)
            if 1 < len(values) <= len(table) / 2:
                repeated[i] = codes
                whole |= {i} if (values == np.round(values)).all() else set()
    found = [
        (case, time)
        for case, time in permutations(repeated, 2)
        if case in whole and _evidence(repeated[case], repeated[time]) > -log(_CHANCE)
    ]

    def doubts(pair: tuple[int, int]) -> tuple[bool, int]:
        """Rank pairs: named times first, then cases that change seldom."""
        case, time = pair
        named = any(word in str(names[time]).lower() for word in _TIMES)
        return not named, int(np.count_nonzero(np.diff(repeated[case])))

    best = min(found, key=doubts, default=None)
    return None if best is None else (names[best[0]], names[best[1]])


def _evidence(case: npt.NDArray[np.intp], time: npt.NDArray[np.intp]) -> float:
    """Return minus the log of the chance that unrelated columns look like case and time."""
    n_times = int(time.max()) + 1
    for rows in (1000, len(case)):  # a few rows exclude most pairs
        pairs = case[:rows] * n_times + time[:rows]
        if len(np.unique(pairs)) < len(pairs):
            return 0.0
    sizes = np.bincount(case)
    birthdays = len(case) ** 2 / (2 * len(sizes) * n_times)
    order = np.argsort(case, kind="stable")
    rises = (np.diff(time[order]) > 0) | (np.diff(case[order]) > 0)
    orders = sum(lgamma(size + 1) for size in sizes.tolist()) if rises.all() else 0.0
    return max(birthdays, orders)
