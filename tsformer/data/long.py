"""from_long: series from a long table with one row per observation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from tsformer._names import unknown

__all__ = ["from_long"]


def from_long(
    table: Any,
    *,
    case: str,
    time: str,
    value: str | Sequence[str],
    channel: str | None = None,
    label: str | None = None,
) -> list[pd.DataFrame] | tuple[list[pd.DataFrame], pd.Series]:
    """Convert a long table to series for `fit`, `predict` and scikit-learn's tools.

    Parameters
    ----------
    table : pandas.DataFrame, or a table of polars or PyArrow
        One row per observation, in any order.
    case, time : str
        Columns with the series that a row belongs to, and the time of the observation.
    value : str or sequence of str
        Columns of values, one per channel.
    channel : str, optional
        Column that names the channel of a row, if `value` is a single column for all channels.
        Channels that were not observed at some time are missing (NaN) there.
    label : str, optional
        Column of class labels or targets, constant within a series.

    Returns
    -------
    X : list of DataFrame (length, channels)
        The series, in the order of their first rows; steps are sorted by time, which is the index.
        ``timestamps="index"`` passes these times to the encoding.
    y : Series, only with `label`
        The label of each series, in the order of `X`, indexed by case.

    Raises
    ------
    ValueError
        If a column does not exist, a case or time is missing, or a case has two rows for one time
        (and channel) or two labels.
    TypeError
        If `table` is not a table.

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
    table = _as_pandas(table)
    values = [value] if isinstance(value, str) else list(value)
    asked = [case, time, *values, *(name for name in (channel, label) if name is not None)]
    for name in asked:
        if name not in table.columns:
            raise ValueError(unknown("column of the table", name, table.columns))
    if channel is not None and len(values) != 1:
        raise ValueError(f"channel= needs a single column of values; got value={values}")
    if table.empty:
        raise ValueError("the table has no rows")
    keys = [case, time] if channel is None else [case, time, channel]
    for name in keys:
        if table[name].isna().any():
            row = table.index[table[name].isna()][0]
            raise ValueError(
                f"column {name!r} has a missing value in row {row!r}; fill it or drop the row"
            )
    twice = table.duplicated(keys)
    if twice.any():
        first = table.loc[twice, keys].iloc[0].to_dict()
        raise ValueError(
            f"two rows for {first}; aggregate them first, for example with groupby().mean()"
        )
    wide = table[[*keys, *values]]
    if channel is not None:
        wide = wide.pivot(index=[case, time], columns=channel, values=values[0]).reset_index()
        wide.columns.name = None
        values = [name for name in wide.columns if name not in (case, time)]
    # Sorted by time only, with a stable sort: groups keep the order of the original table.
    by_time = wide.sort_values(time, kind="stable").groupby(case, sort=False)
    order = table[case].drop_duplicates()
    X = [by_time.get_group(name).set_index(time)[values] for name in order]
    if label is None:
        return X
    labels = table.groupby(case, sort=False)[label]
    several = labels.nunique(dropna=False) > 1
    if several.any():
        name = several.index[several][0]
        found = labels.get_group(name).unique().tolist()[:10]
        raise ValueError(f"series {name!r} has several labels: {found}")
    return X, labels.first().loc[order]


def _as_pandas(table: Any) -> pd.DataFrame:
    if isinstance(table, pd.DataFrame):
        return table
    if hasattr(table, "to_pandas"):  # polars, PyArrow
        return pd.DataFrame(table.to_pandas())
    raise TypeError(
        "table must be a DataFrame of pandas or polars, or a PyArrow table; got "
        f"{type(table).__name__}"
    )
