"""Ids of series: find them, compare X with y, cut a table by case."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import shortened
from tsformer.data.native import has_dims, native

#: Where `from_long` keeps the id of a series, in the `attrs` of its DataFrame.
CASE = "case"


def series_ids(X: Any) -> pd.Index | None:
    """Return the id of each series of a container; None if it holds no ids."""
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
    if ids is None or others is None or len(ids) != len(others) or ids.equals(others):
        return  # another length is an error of its own
    read, others_read = _as_dates(ids, others), _as_dates(others, ids)
    spelled, spelled_others = _spelled(read), _spelled(others_read)
    if spelled == spelled_others:
        return
    if isinstance(X, (list, tuple, np.ndarray)):
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
    if default in (spelled, spelled_others) or whole != others_whole:
        return
    raise ValueError(
        f"{of} and {name} have different ids: {of} has {shown}, {name} has {shown_others}; pass "
        f"{matched}.loc[{index}], which takes the values of these series, or {by_position}"
    )


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
                "do not tell it from text that ends there; remove the character"
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
