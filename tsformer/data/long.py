"""Long tables, with one row per observation: from_long and its inverse, to_long."""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from tsformer._checks import check_known, shortened
from tsformer.data.containers import as_channels, common_names, to_items
from tsformer.data.formats import check_distinct
from tsformer.data.layout import CASE, check_ids, refuse_alike, refuse_nul
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
        The series of a row, and its time: a number, date, duration, period, ordered category, or
        ISO 8601 text, all with an offset from UTC or none.
    value : column name or sequence of column names, optional
        Columns of values, one per channel; by default all columns without another role.
    channel : column name, optional
        Names the channel of a row, if `value` is a single column; without a row it is NaN there.
    label, group : column name, optional
        Columns of labels or targets, and of groups for `groups` of `fit`; constant within a series.
    grid : str or float, optional
        Step of the times, as ``"1min"`` or ``1.0``: between the first and the last row of each
        series, steps without a row are inserted as NaN. Times may be a tenth of a step off.

    Returns
    -------
    X : list of DataFrame (length, channels)
        The series in the order of their first rows, indexed by time, with the case in ``attrs``.
    y, groups : Series, only with `label` and `group`
        The label and the group of each series, indexed by case.

    Raises
    ------
    ValueError, TypeError
        For missing cases or times, times without an order, repeated rows, and labels or groups that
        differ within a series.

    Examples
    --------
    >>> table = pd.DataFrame({"id": ["b", "b", "a"], "hour": [1.5, 0.0, 0.0], "v": [71, 64, 80]})
    >>> [x["v"].tolist() for x in from_long(table, case="id", time="hour")]
    [[64, 71], [80]]
    """
    table = table.to_pandas() if hasattr(table, "to_pandas") else table  # of polars, PyArrow
    if not isinstance(table, pd.DataFrame) or table.empty:
        raise TypeError(f"table must be a DataFrame with rows; got {shortened(table)}")
    check_distinct("columns of the table", table.columns)
    roles = [name for name in (case, time, channel, label, group) if name is not None]
    values: Any = [name for name in table.columns if name not in roles] if value is None else value
    single = isinstance(values, Hashable) and values in table.columns
    values = [values] if single or not pd.api.types.is_list_like(values) else list(values)
    for name in [*roles, *values]:
        check_known("column of the table", name, table.columns)
    check_distinct("columns of values", values)
    if channel is not None and len(values) != 1:
        raise ValueError(f"channel= needs a single column of values; got value={values}")
    keys = [case, time] if channel is None else [case, time, channel]
    for name in roles:
        if name in keys and (missing := table[name].isna()).any():
            row = table.index[missing].tolist()[0]  # of Python, not of NumPy
            raise ValueError(f"column {name!r} has a missing value in row {row!r}; drop the row")
        if name != time:
            refuse_nul(table[name], f"column {name!r}")
        if name in (case, channel):
            refuse_alike(table[name].unique(), f"column {name!r}")
    times = ordered_times(table[time], f"times in column {time!r}")
    codes, cases = pd.factorize(table[case])
    rows = pd.DataFrame({"case": codes, "time": times})
    if channel is not None:
        rows["channel"] = table[channel].array
    if (twice := rows.duplicated().to_numpy()).any():
        row = table.loc[twice, keys].iloc[0].to_dict()
        raise ValueError(f"two rows for {row}; aggregate them first, as with groupby().mean()")
    frame, case_of_step = table[values].set_axis(times), codes
    if channel is not None:
        rows["value"] = table[values[0]].array
        frame = rows.pivot(index=["case", "time"], columns="channel", values="value")
        case_of_step = frame.index.get_level_values("case").to_numpy()
        frame = frame.droplevel("case").rename_axis(columns=None)
    order = frame.index.argsort()
    rows_of = frame.iloc[order].rename_axis(index=time).groupby(case_of_step[order])
    X = [rows.copy() for _, rows in rows_of]
    names = cases.tolist()
    if grid is not None:
        X = [_on_grid(x, grid, f"series {i!r}") for x, i in zip(X, names, strict=True)]
    for x, name in zip(X, names, strict=True):
        x.attrs[CASE] = name
    columns: list[Any] = []
    for role in (name for name in (label, group) if name is not None):
        several = (table[role].groupby(codes).nunique(dropna=False) > 1).to_numpy()
        if several.any():
            i = int(several.argmax())
            values = table[role][codes == i].unique().tolist()[:10]
            raise ValueError(
                f"series {names[i]!r} has several values of {role!r}: {values}; does {case!r} "
                "identify a series? Steps with labels are for tsformer.data.windows"
            )
        firsts = table[role][~pd.Series(codes).duplicated().to_numpy()]
        columns.append(firsts.set_axis(pd.Index(cases, name=case)))
    return (X, *columns) if columns else X


def _on_grid(x: pd.DataFrame, grid: str | float, name: str) -> pd.DataFrame:
    """Insert the steps that a regular grid has and a series lacks."""
    index: Any = x.index.to_timestamp() if isinstance(x.index, pd.PeriodIndex) else x.index
    dates = isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex))
    try:
        step: Any = pd.Timedelta(grid) if dates else float(grid)
        if not step > 0 * step or (dates and isinstance(grid, (int, float))):
            raise ValueError(grid)
        numbers = np.asarray((index - index[0]) / step, dtype=np.float64)
    except (ValueError, TypeError) as error:
        kinds = f"a duration such as '1min' for dates, else a number > 0; times are {index.dtype}"
        raise ValueError(f"`grid={shortened(grid, 32)}` must be {kinds}") from error
    nearest = np.round(numbers)
    off = np.abs(numbers - nearest) > _OFF_GRID
    off[1:] |= np.diff(nearest) == 0
    if off.any() or nearest[-1] > _MOST_INSERTED * len(x):
        raise ValueError(
            f"time {index[int(off.argmax())]} of {name} is not on the grid of {grid}, alone there, "
            f"or the grid makes {nearest[-1] + 1:,.0f} steps of {len(x)} rows; change `grid=`"
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
        The names of the series; by default the index of `y` if that is a Series, else 0, 1, 2, ...
    case, time, label : str
        Columns to write; `label` only with `y`.
    value : str or sequence of str, optional
        Columns of values, one per channel; by default as in `X`, or ``"value"``, ``"value_0"``, ...
    channel : str, optional
        Column for the names of the channels: one row per channel, all values in one column.

    Returns
    -------
    DataFrame
        One row per observation, in the order of the series and their steps.

    Examples
    --------
    >>> print(to_long([np.array([64.0, 71.0]), np.array([80.0])], ["well", "ill"]))
       case  time  value label
    0     0     0   64.0  well
    1     0     1   71.0  well
    2     1     0   80.0   ill
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
    for role, entries in (("y", y), ("cases", series)):
        if entries is not None and len(entries) != len(frames):
            raise ValueError(f"X has {len(frames)} series, but {role} has {len(entries)} entries")
    check_ids(X, y, "y")
    check_distinct("cases", pd.Index(list(series)).tolist())  # of Python, not of NumPy
    names = [str(name) for name in columns]
    if channel is None and value is not None:
        names = [value] if isinstance(value, str) else list(value)
    elif channel is None and not all(isinstance(name, str) for name in columns):
        names = ["value"] if len(columns) == 1 else [f"value_{i}" for i in range(len(columns))]
    value = "value" if value is None else value
    if len(names) != len(columns) or (channel is not None and not isinstance(value, str)):
        number = f"but value names {len(names)}, or with channel= several; got value={value}"
        raise ValueError(f"the series have {len(columns)} channels, {number}")
    ends = [case, time, *([] if y is None else [label])]
    check_distinct("columns", [*ends, *(names if channel is None else [channel, value])])
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
