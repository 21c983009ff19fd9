"""Long tables, with one row per observation: from_long and its inverse, to_long."""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tsformer._checks import check_known, shortened
from tsformer.data.containers import as_channels, common_names, to_items
from tsformer.data.layout import CASE, check_ids, cut_by_case, refuse_alike, refuse_nul
from tsformer.data.times import ordered_times

#: Largest distance of a time from its point on a grid, in steps.
_OFF_GRID = 0.1
#: Most steps of a grid for each row.
_MOST_INSERTED = 1000


def from_long(
    table: Any,
    *,
    case: Hashable,
    time: Hashable,
    value: Hashable | Sequence[Hashable] | None = None,
    channel: Hashable | None = None,
    label: Hashable | None = None,
    group: Hashable | None = None,
    grid: str | float | None = None,
) -> Any:
    """Convert a long table to series for `fit`, `predict` and scikit-learn's tools.

    Parameters
    ----------
    table : pandas.DataFrame, or a table of polars or PyArrow
        One row per observation, in any order.
    case, time : column name
        Columns with the series that a row belongs to, and the time of the observation: a number,
        date, duration, period, ordered category, or ISO 8601 text, all with or all without an
        offset from UTC.
    value : column name or sequence of column names, optional
        Columns of values, one per channel; by default all columns without another role.
    channel : column name, optional
        Column that names the channel of a row, if `value` is a single column for all channels.
        Channels that were not observed at some time are missing (NaN) there.
    label : column name, optional
        Column of class labels or targets, constant within a series.
    group : column name, optional
        Column of groups, such as patients, for `groups` of `fit`; constant within a series.
    grid : str or float, optional
        Step of the times, as ``"1min"`` or, for times that are numbers, ``1.0``. Steps without a
        row are inserted as missing values (NaN), from the first to the last row of each series.
        Times may be a tenth of a step off.

    Returns
    -------
    X : list of DataFrame (length, channels)
        The series, in the order of their first rows; steps are sorted by time, which is the index.
        ``timestamps="index"`` passes these times to the encoding. ``attrs["case"]`` of each
        series is its case, by which `fit` checks that `y` is in the same order.
    y : Series, only with `label`
        The label of each series, in the order of `X`, indexed by case.
    groups : Series, only with `group`
        The group of each series, likewise.

    Raises
    ------
    ValueError, TypeError
        If a column does not exist, a case or time is missing, times have no order, as text such
        as ``"9:58"``, a case has two rows for one time (and channel), two labels or two groups,
        or a time is not on the grid.

    Examples
    --------
    >>> table = pd.DataFrame(
    ...     {
    ...         "patient": ["b", "b", "a"],
    ...         "hour": [1.5, 0.0, 0.0],
    ...         "pulse": [71.0, 64.0, 80.0],
    ...         "ill": [False, False, True],
    ...     }
    ... )
    >>> X, y = from_long(table, case="patient", time="hour", value="pulse", label="ill")
    >>> [list(x["pulse"]) for x in X]
    [[64.0, 71.0], [80.0]]
    >>> y.to_dict()
    {'b': False, 'a': True}
    """
    table = table.to_pandas() if hasattr(table, "to_pandas") else table  # of polars, PyArrow
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"table must be of pandas, polars or PyArrow, with columns; got {type(table).__name__}"
        )
    roles = [name for name in (case, time, channel, label, group) if name is not None]
    values: Any = [name for name in table.columns if name not in roles]
    if value is not None:
        single = isinstance(value, Hashable) and value in table.columns
        values = [value] if single or not pd.api.types.is_list_like(value) else value
        values = list(values)
    for name in [*roles, *values]:
        check_known("column of the table", name, table.columns)
        if (count := list(table.columns).count(name)) > 1:
            raise ValueError(f"the table has {count} columns {name!r}; rename all but one")
    _check_distinct("columns of values", values)
    if channel is not None and len(values) != 1:
        raise ValueError(f"channel= needs a single column of values; got value={values}")
    if table.empty:
        raise ValueError("the table has no rows")
    keys = [case, time] if channel is None else [case, time, channel]
    for name in keys:
        if (missing := table[name].isna()).any():
            row = table.index[missing].tolist()[0]  # of Python, not of NumPy
            raise ValueError(f"column {name!r} has a missing value in row {row!r}; drop the row")
    for name in (each for each in roles if each != time):
        refuse_nul(table[name], f"column {name!r}")
        if name in keys:
            refuse_alike(table[name].unique(), f"column {name!r}")
    times = ordered_times(table[time], f"times in column {time!r}")
    codes, cases = pd.factorize(table[case])
    rows = pd.DataFrame({"case": codes, "time": times})
    if channel is not None:
        rows["channel"] = table[channel].array
    if (twice := rows.duplicated().to_numpy()).any():
        raise ValueError(
            f"two rows for {table.loc[twice, keys].iloc[0].to_dict()}; aggregate them first, as "
            "with groupby().mean()"
        )
    if channel is None:
        frame, case_of_step = table[values].set_axis(times), codes
    else:
        frame = rows.assign(value=table[values[0]].array).pivot(
            index=["case", "time"], columns="channel", values="value"
        )
        times = frame.index.get_level_values("time")
        case_of_step = frame.index.get_level_values("case").to_numpy()
        frame = frame.set_axis(times).rename_axis(columns=None)
    order = times.argsort()
    X = cut_by_case(frame.iloc[order].set_axis(times[order].rename(time)), case_of_step[order])
    if grid is not None:
        X = [on_grid(x, grid, f"series {i!r}") for x, i in zip(X, cases.tolist(), strict=True)]
    for x, name in zip(X, cases.tolist(), strict=True):
        x.attrs[CASE] = name
    found: list[Any] = [X]
    for role, name in (("label", label), ("group", group)):
        if name is None:
            continue
        several = table[name].groupby(codes).nunique(dropna=False) > 1
        if several.any():
            i = int(several.to_numpy().argmax())
            hint = "; steps with labels are for tsformer.data.windows" if role == "label" else ""
            raise ValueError(
                f"series {cases.tolist()[i]!r} has several {role}s: "
                f"{table[name][codes == i].unique().tolist()[:10]}; check that column {case!r} "
                f"identifies a series, and that column {name!r} has its {role}{hint}"
            )
        firsts = table[name][~pd.Series(codes).duplicated().to_numpy()]
        found.append(firsts.set_axis(pd.Index(cases, name=case)))
    return X if len(found) == 1 else tuple(found)


def on_grid(x: pd.DataFrame, grid: str | float, what: str) -> pd.DataFrame:
    """Insert the steps that a regular grid has and a series lacks."""
    index: Any = x.index.to_timestamp() if isinstance(x.index, pd.PeriodIndex) else x.index
    dates = isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex))
    if isinstance(index, pd.CategoricalIndex):
        raise ValueError("`grid=` needs times that are numbers, dates or durations")
    try:
        text = f"1{grid}" if isinstance(grid, str) and not grid[:1].isdigit() else grid
        step: Any = pd.Timedelta(text) if dates else float(grid)
        if not step > 0 * step or (dates and isinstance(grid, (int, float))):
            raise ValueError(grid)
    except (ValueError, TypeError) as error:
        kind = "a duration, as in '1min', for dates" if dates else "a positive number, for numbers"
        raise ValueError(f"`grid={shortened(grid, 32)}` must be {kind}") from error
    numbers = np.asarray((index - index[0]) / step, dtype=np.float64)
    nearest = np.round(numbers)
    off = np.abs(numbers - nearest) > _OFF_GRID
    off[1:] |= np.diff(nearest) == 0
    if off.any():
        raise ValueError(
            f"time {index[int(off.argmax())]} of {what} is not on the grid of {grid} from "
            f"{index[0]}, or has two rows there; choose another `grid=`"
        )
    if nearest[-1] > _MOST_INSERTED * len(x):
        raise ValueError(
            f"`grid={grid}` makes {nearest[-1] + 1:,.0f} steps of the {len(x):,} rows of {what}; "
            "choose a larger step"
        )
    full = pd.Index(index[0] + step * np.arange(int(nearest[-1]) + 1), name=index.name)
    return x.set_axis(full[nearest.astype(np.intp)]).reindex(full)


def to_long(
    X: Any,
    y: Any = None,
    *,
    cases: Sequence[Any] | None = None,
    case: str = "case",
    time: str = "time",
    value: str | Sequence[str] | None = None,
    channel: str | None = None,
    label: str = "label",
) -> pd.DataFrame:
    """Convert series to a long table, from which `from_long` restores them.

    Parameters
    ----------
    X : list of DataFrame (length, channels), or any other container that `fit` accepts
        The series. Steps without a pandas index are numbered 0, 1, 2, ...
    y : sequence of n labels, optional
        The label of each series, repeated in each of its rows.
    cases : sequence of n distinct names, optional
        The names of the series; by default the index of `y` if that is a Series, as `from_long`
        returns it, else 0, 1, 2, ...
    case, time, label : str
        Columns to write; `label` only with `y`.
    value : str or sequence of str, optional
        Columns of values, one per channel; by default the columns of the series, or for channels
        without names ``"value"`` or ``"value_0"``, ``"value_1"``, ... With `channel`, the one
        column of all values, by default ``"value"``.
    channel : str, optional
        Write one row per channel, and the name of the channel into this column.

    Returns
    -------
    DataFrame
        One row per observation, in the order of the series and their steps.

    Raises
    ------
    ValueError, TypeError
        If there are not as many labels or names as series, or values as channels, a name occurs
        twice, or the series differ in channels.

    Examples
    --------
    >>> X = [np.array([[64.0, 71.0]]), np.array([[80.0]])]
    >>> table = to_long(X, ["well", "ill"], cases=["b", "a"], time="hour", value="pulse")
    >>> table.to_dict("list") == {
    ...     "case": ["b", "b", "a"],
    ...     "hour": [0, 1, 0],
    ...     "pulse": [64.0, 71.0, 80.0],
    ...     "label": ["well", "well", "ill"],
    ... }
    True
    >>> from_long(table, case="case", time="hour", value="pulse", label="label")[1].to_dict()
    {'b': 'well', 'a': 'ill'}
    """
    frames = [
        pd.DataFrame(x if hasattr(x, "index") else as_channels(x, f"series {i}").T)
        for i, x in enumerate(to_items(X))
    ]
    common_names(frames)
    columns = list(frames[0].columns)
    series: Any = cases
    if series is None:
        series = y.index if isinstance(y, pd.Series) else range(len(frames))
    for what, given in (("y", y), ("cases", series)):
        if given is not None and len(given) != len(frames):
            raise ValueError(f"X has {len(frames)} series, but {what} has {len(given)} entries")
    check_ids(X, y, "y")
    _check_distinct("cases", pd.Index(list(series)).tolist())  # of Python, not of NumPy
    names = [str(name) for name in columns]
    if channel is None and value is not None:
        names = [value] if isinstance(value, str) else list(value)
    elif channel is None and not all(isinstance(name, str) for name in columns):
        names = ["value"] if len(columns) == 1 else [f"value_{i}" for i in range(len(columns))]
    if len(names) != len(columns):
        raise ValueError(f"the series have {len(columns)} channels, but value names {len(names)}")
    value = "value" if value is None else value
    if channel is not None and not isinstance(value, str):
        raise ValueError(f"channel= needs a single column of values; got value={list(value)}")
    ends = [case, time, *([] if y is None else [label])]
    _check_distinct("columns", [*ends, *(names if channel is None else [channel, value])])
    lengths = [len(frame) for frame in frames]
    table = pd.concat([frame.set_axis(names, axis=1) for frame in frames])
    table = table.rename_axis(index=time, columns=None).reset_index()
    table.insert(0, case, pd.Index(series).repeat(lengths))
    if y is not None:
        table[label] = pd.Index(y).repeat(lengths)
    if channel is None:
        return table
    rows = table[ends].loc[table.index.repeat(len(names))].reset_index(drop=True)
    rows.insert(2, channel, np.tile(np.array(names, dtype=object), len(table)))
    rows.insert(3, str(value), table[names].to_numpy().ravel())
    return rows


def _check_distinct(what: str, names: Sequence[Any]) -> None:
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise ValueError(f"{what} must be distinct; {name!r} occurs {count} times")
