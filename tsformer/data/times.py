"""Times of steps: check that their type has an order, and count from the first step."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from pandas.tseries.frequencies import to_offset

from tsformer._checks import shortened
from tsformer._warnings import warn_caller
from tsformer.data.native import to_numpy
from tsformer.data.series import Floats

#: Indices of pandas whose values are times.
DATES = (pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex)
#: A date of ISO 8601, with or without a time of day and an offset from UTC.
_ISO = re.compile(r"\d{4}-\d\d(?:-\d\d(?:[T ][\d:.]+?(Z|[+-]\d\d(?::?\d\d)?)?)?)?", re.ASCII)
_CONVERT = "convert with pd.to_numeric or pd.to_datetime, or pass `time_format=` for a file"


def ordered_times(times: Any, name: str) -> pd.Index:
    """Return times in a type that sorts by time."""
    if isinstance(times, torch.Tensor):
        times = to_numpy(times)
    index = times if isinstance(times, pd.Index) else pd.Index(times, tupleize_cols=False)
    index = index.to_flat_index() if isinstance(index, pd.MultiIndex) else index.infer_objects()
    dtype = index.dtype
    if isinstance(index, DATES) or (isinstance(dtype, pd.CategoricalDtype) and dtype.ordered):
        return index
    if getattr(dtype, "kind", "O") in "iuf":  # nullable types have a missing value of their own
        return pd.Index(index.to_numpy(np.float64, na_value=np.nan)) if index.hasnans else index
    values = index.astype(object).where(index.notna(), np.nan).to_numpy()
    known = values[~pd.isna(values)]
    kind = pd.api.types.infer_dtype(values, skipna=True)
    try:
        match kind:
            case "string":
                rows = times.index if isinstance(times, pd.Series) else None
                return pd.DatetimeIndex(_iso_dates(pd.Series(values, rows), name))
            case "datetime64" | "datetime" | "date":
                zones = {getattr(time, "tzinfo", None) for time in known}
                if None in zones and len(zones) > 1:
                    raise ValueError(f"{name} are dates with and without a time zone; {_CONVERT}")
                return pd.DatetimeIndex(pd.to_datetime(values, utc=len(zones) > 1))
            case "timedelta64" | "timedelta":
                return pd.TimedeltaIndex(values)
            case "integer" | "floating" | "mixed-integer-float" | "decimal" | "empty":
                return pd.Index(values.astype(np.float64))
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{name} have no order: {error}") from error
    examples = shortened(known[:2].tolist(), 60)
    raise ValueError(f"{name} must be numbers or dates; got {kind}, {examples}: {_CONVERT}")


def instants(times: Any, name: str) -> Any:
    """Return an index of finite numbers, or of dates or durations in nanoseconds."""
    index: Any = ordered_times(times, name)
    index = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
    if index.isna().any() or index.isin([np.inf, -np.inf]).any() or index.dtype.kind not in "iufmM":
        raise ValueError(f"{name} must be finite numbers or dates; got {index.dtype}, or missing")
    return index.as_unit("ns") if index.dtype.kind in "mM" else index


def _iso_dates(texts: pd.Series, name: str) -> pd.Series:
    """Parse ISO 8601 text; all of it has an offset from UTC, or none."""
    offsets = texts.map(_offset, na_action="ignore")
    wrong = offsets.isna() & texts.notna()
    neither = wrong & pd.to_numeric(texts, errors="coerce").isna()  # the one word among numbers
    problem = "neither a number nor a date such as 2024-12-31T23:59:00"
    _refuse(texts, neither if neither.any() else wrong, name, f"{problem}: {_CONVERT}")
    several = offsets.nunique() > 1
    if several:
        _refuse(texts, offsets == "", name, "without an offset from UTC, which others have; add it")
    dates = pd.to_datetime(texts, format="ISO8601", errors="coerce", utc=several)
    _refuse(texts, dates.isna(), name, "no date; correct it")
    return dates


def _offset(text: str) -> str | None:
    """Return the offset from UTC of a date in ISO 8601, perhaps ""; None for other text."""
    match = _ISO.fullmatch(text)
    return match and (match[1] or "")


def _refuse(texts: pd.Series, wrong: pd.Series, name: str, problem: str) -> None:
    """Raise ValueError for the first wrong text."""
    refused = texts[(wrong & texts.notna()).to_numpy()]
    if len(refused):
        row = refused.index.tolist()[0]
        raise ValueError(f"{name}: {shortened(refused.iloc[0], 40)} in row {row!r} is {problem}")


def missing_rows(indices: Iterable[pd.Index]) -> tuple[str, int, float] | None:
    """Return the step of regular times, the number and the share of missing rows, if any."""
    indices = [i.to_timestamp() if isinstance(i, pd.PeriodIndex) else i for i in indices]
    if any(getattr(index.dtype, "kind", "O") not in "iufmM" for index in indices):
        return None
    steps = np.concatenate([np.diff(_since_first(index)[0]) for index in indices])
    steps = steps[steps > 0]
    step = float(np.median(steps)) if len(steps) else 1.0
    ratios = np.round(steps / step)
    regular = np.abs(steps / step - ratios) < 0.05
    n_missing = int((ratios[regular] - 1).sum())
    if not n_missing or regular.sum() < max(3, 0.9 * len(steps)):
        return None
    dates = indices[-1].dtype.kind in "mM"
    if dates and step == 86_400:
        days = [index.to_numpy().astype("datetime64[D]") for index in indices]
        if all((np.busday_count(day[:-1], day[1:]) <= 1).all() for day in days):
            return None  # no business day is missing
    offset = to_offset(pd.Timedelta(step, "s")) if dates else None
    name = f"{step:g}" if offset is None else repr(f"{offset.n}{offset.rule_code}")
    return name, n_missing, n_missing / (n_missing + sum(map(len, indices)))


def pad_times(times: Any, lengths: npt.NDArray[np.int64]) -> tuple[Floats, str]:
    """Return times since the first step ``[n, L]``, dates in seconds, and their unit."""
    if isinstance(times, (list, tuple)) and len(times) and np.ndim(times[0]) == 1:
        rows: Sequence[Any] = times
    elif isinstance(times, (pd.Index, pd.Series)):
        rows = [times] * len(lengths)
    else:
        array = np.asanyarray(times)  # with the mask of a masked array
        if array.ndim not in (1, 2):
            shapes = "(length,), (n, length), or a list of n (length,) arrays"
            raise ValueError(f"times must be {shapes}; got the shape {array.shape}")
        rows = [array] * len(lengths) if array.ndim == 1 else list(array)
    if len(rows) != len(lengths):
        raise ValueError(f"X has {len(lengths)} series, but times has {len(rows)}")
    digits = ordered_times(rows[0], "times of series 0")
    if len(digits) > 1 and digits.dtype.kind in "iu":
        dates = pd.to_datetime(digits.astype(str), format="%Y%m%d", errors="coerce")
        if dates.notna().all() and 1900 <= dates[0].year < 2100:
            warn_caller(
                f"times such as {digits[0]} are read as numbers, whose differences are no "
                'durations; if they are dates, pass pd.to_datetime(times, format="%Y%m%d")'
            )
    padded = np.zeros((len(lengths), int(lengths.max())))
    clocks = set()
    for i, (elapsed, row, length) in enumerate(zip(padded, rows, lengths.tolist(), strict=True)):
        numbers, clock = _numbers(row, f"times of series {i}")
        if len(numbers) != length:
            raise ValueError(f"series {i} has {length} steps, but {len(numbers)} times")
        if len(lost := np.flatnonzero(~np.isfinite(numbers))):
            raise ValueError(f"the time of step {lost[0]} of series {i} is missing or infinite")
        if len(falls := np.flatnonzero(np.diff(numbers) < 0)):
            raise ValueError(f"times of series {i} decrease after step {falls[0]}; sort its steps")
        elapsed[:length] = numbers
        clocks.add(clock)
    if len(clocks) > 1:
        raise ValueError("some series have dates as times, others numbers")
    return padded, clocks.pop()


def _numbers(times: Any, name: str) -> tuple[Floats, str]:
    """Return the times relative to the first, and their unit."""
    index = ordered_times(times, name)
    if isinstance(index, pd.CategoricalIndex):
        raise ValueError(f"{name} are categories, with an order but no distances; {_CONVERT}")
    if len(index) and index.dtype.kind == "f":
        numbers = index.to_numpy()
        gap = float(np.spacing(np.abs(numbers).max()))
        if gap >= 1 and gap * (len(numbers) - 1) > numbers[-1] - numbers[0]:
            problem = f"are {index.dtype}, which has no numbers closer than {gap:g} there"
            raise ValueError(f"{name} {problem}; pass times since the first step")
    return _since_first(index)


def _since_first(index: pd.Index) -> tuple[Floats, str]:
    """Return times since the first, dates in seconds, and their unit."""
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    values = index.to_numpy()
    if values.dtype.kind in "iu":  # small types would wrap around
        values = values.astype(np.float64 if values.dtype == np.uint64 else np.int64)
    apart: Any = values - values[:1]  # before the conversion, which rounds nanoseconds since 1970
    if values.dtype.kind in "Mm":
        return apart / np.timedelta64(1, "s"), "dates"
    return apart.astype(np.float64), "numbers"
