"""from_long: series out of a long table, a row an observation."""

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
    """Turn a long table into series that `fit`, `predict` and scikit-learn's tools can take.

    Parameters
    ----------
    table : pandas.DataFrame, or a table of polars or PyArrow
        A row an observation, in any order.
    case, time : str
        Columns that say to which series a row belongs, and when it was observed.
    value : str or sequence of str
        Columns of values, each a channel.
    channel : str, optional
        Column that names the channel of a row, where `value` is one column for all channels. What
        a series was not observed in at some time is missing there.
    label : str, optional
        Column of the series' labels, the same in all rows of a series.

    Returns
    -------
    X : list of DataFrame (length, channels)
        The series by the order in which they come first, steps in order of time, which is their
        index: ``timestamps="index"`` shows it to the encoding.
    y : Series, only with `label`
        The label of each, in the order of `X`, indexed by case.

    Raises
    ------
    ValueError
        If a column is not there, a case or time is missing, a case has two rows of one time (and
        channel), or two labels.
    TypeError
        If `table` is no table.

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
        raise ValueError(f"with channel= there is one column of values; got value={values}")
    if table.empty:
        raise ValueError("the table has no rows")
    keys = [case, time] if channel is None else [case, time, channel]
    for name in keys:
        if table[name].isna().any():
            row = table.index[table[name].isna()][0]
            raise ValueError(f"column {name!r} is empty in row {row!r}; fill or drop it")
    twice = table.duplicated(keys)
    if twice.any():
        first = table.loc[twice, keys].iloc[0].to_dict()
        raise ValueError(f"two rows for {first}; aggregate them first, as by groupby().mean()")
    wide = table[[*keys, *values]]
    if channel is not None:
        wide = wide.pivot(index=[case, time], columns=channel, values=values[0]).reset_index()
        wide.columns.name = None
        values = [name for name in wide.columns if name not in (case, time)]
    # Sorted by time alone, and by a stable sort: groups keep the order of the original table.
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
