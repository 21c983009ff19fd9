"""Times of steps: check that their type has an order, and count from the first step."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from tsformer._checks import shortened
from tsformer._warnings import warn_caller
from tsformer.data.native import to_numpy
from tsformer.data.series import Floats

#: A date of ISO 8601, with or without a time of day and an offset from UTC.
_ISO = re.compile(
    r"\d{4}-\d\d(?:-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d(?::?\d\d)?)?)?)?",
    re.ASCII,
)
#: A date that begins with its day, month or year.
_DATE = re.compile(
    r"(\d{4}|\d{1,2})([-/.])\d{1,2}\2(\d{4}|\d{1,2})(?:([ T])(\d{1,2}:\d\d)(:\d\d)?(\.\d+)?)?",
    re.ASCII,
)
#: Formats of dates that are written as one number, by the number of digits.
_DIGITS = {6: "%Y%m", 8: "%Y%m%d", 12: "%Y%m%d%H%M", 14: "%Y%m%d%H%M%S"}
#: Equal steps of which a grid has more.
_FEW_STEPS = 3
_CONVERT = "convert them, numbers with pd.to_numeric and dates with pd.to_datetime"


def ordered_times(times: Any, name: str) -> pd.Index:
    """Return times in a type that sorts by time."""
    if isinstance(times, torch.Tensor):
        times = to_numpy(times)
    if getattr(times, "dtype", None) == np.float16:  # pandas has no index of them
        times = np.asarray(times, dtype=np.float32)
    index = times if isinstance(times, pd.Index) else pd.Index(times, tupleize_cols=False)
    if isinstance(index, pd.MultiIndex):
        index = index.to_flat_index()
    dtype = index.dtype
    if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex, pd.PeriodIndex)):
        return index
    if isinstance(dtype, pd.CategoricalDtype):
        if dtype.ordered:
            return index
        raise ValueError(
            f"{name} are an unordered categorical, such as {_first(index)}; {_CONVERT}, or order "
            "the categories by time with cat.as_ordered"
        )
    if getattr(dtype, "kind", "O") in "iuf":
        # Nullable types have a missing value of their own.
        return pd.Index(index.to_numpy(np.float64, na_value=np.nan)) if index.hasnans else index
    values = index.astype(object).where(index.notna(), np.nan).to_numpy()
    kind = pd.api.types.infer_dtype(values, skipna=True)
    try:
        match kind:
            case "string":
                return _iso_dates(values, name)
            case "datetime64" | "datetime" | "date":
                known = values[~pd.isna(values)]
                zones = {getattr(each, "tzinfo", None): str(each) for each in known}
                _check_zoned({str(zone or ""): text for zone, text in zones.items()}, name)
                return pd.DatetimeIndex(pd.to_datetime(values, utc=len(zones) > 1))
            case "timedelta64" | "timedelta":
                return pd.TimedeltaIndex(values)
            case "period":
                return pd.PeriodIndex(values)
            case "integer" | "floating" | "mixed-integer-float" | "decimal" | "empty":
                numbers = pd.Index(values.tolist())
                return numbers if numbers.dtype.kind in "iuf" else numbers.astype(np.float64)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"{name}, such as {_first(index)}, have no order: {error}") from error
    convert = {
        "boolean": "convert them with astype(int)",
        "bytes": f'decode them with .str.decode("utf-8") and {_CONVERT}',
        "time": "convert them with pd.to_timedelta(times.astype(str))",
    }.get(kind, _CONVERT)
    raise ValueError(
        f"{name} must be numbers or dates; got {kind} values of type {dtype}, such as "
        f"{_first(index)}: {convert}"
    )


def date_format(texts: list[str], name: str) -> str | None:
    """Return the format of dates such as 31/12/2024; ValueError if there are two."""
    match = _DATE.fullmatch(texts[0]) if len(texts) else None
    if match is None:
        return None
    first, sep, last, blank, minutes, seconds, parts = match.groups()
    clock = f"{blank}%H:%M" if minutes else ""
    clock += (":%S" if seconds else "") + (".%f" if parts else "")
    year = "%Y" if len(last) == 4 else "%y"
    orders = ["%Y-%m-%d"] if len(first) == 4 else [f"%d-%m-{year}", f"%m-%d-{year}"]
    forms = [order.replace("-", sep) + clock for order in orders]
    fits = [f for f in forms if pd.to_datetime(texts, format=f, errors="coerce").notna().all()]
    if len(fits) > 1:
        raise ValueError(
            f"dates in {name} such as {texts[0]!r} may begin with the day or the month; say which: "
            f"`time_format={fits[0]}` or `time_format={fits[1]}`"
        )
    return fits[0] if fits else None


def missing_rows(indices: Iterable[pd.Index]) -> tuple[str, int, float] | None:
    """Return the step of regular times, the number and the share of missing rows, if any."""
    dates, apart, n_rows = False, [], 0
    for index in indices:
        if isinstance(index, pd.PeriodIndex):
            index = index.to_timestamp()
        kind = getattr(index.dtype, "kind", "O")
        if kind not in "iufmM":
            return None
        dates = kind in "mM"
        n_rows += len(index)
        apart.append(_since_first(index)[0])
    steps = np.concatenate([np.zeros(0), *map(np.diff, apart)])
    steps = steps[steps > 0]
    if not len(steps):
        return None
    sizes = np.round(steps / np.median(steps), 3)
    _, codes, counts = np.unique(sizes, return_inverse=True, return_counts=True)
    if counts.max() < _FEW_STEPS:
        return None
    step = float(np.median(steps[codes == counts.argmax()]))
    ratios = steps / step
    regular = np.abs(ratios - np.round(ratios)) < 0.05
    gaps = np.round(ratios[regular]) - 1
    if np.mean(regular) < 0.9 or not gaps.any():
        return None
    if dates and step == 86_400:
        days = [index.to_numpy().astype("datetime64[D]") for index in indices]
        if all((np.busday_count(day[:-1], day[1:]) <= 1).all() for day in days):
            return None  # no business day is missing
    name = f"{step:g}"
    if dates:
        units = {"D": 86_400.0, "h": 3600.0, "min": 60.0, "s": 1.0, "ms": 0.001}
        unit = next((unit for unit, size in units.items() if step % size == 0), "ms")
        name = repr(f"{step / units[unit]:g}{unit}")
    n_missing = int(gaps.sum())
    return name, n_missing, n_missing / (n_missing + n_rows)


def utc_offset(text: str) -> str | None:
    """Return the offset of ISO 8601 text from UTC, "" for none; None for other text."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    digits = (match[1] or "").replace("Z", "+00").replace(":", "")
    return digits.ljust(5, "0") if digits else ""


def _iso_dates(values: npt.NDArray[Any], name: str) -> pd.Index:
    """Parse ISO 8601 text with a single offset from UTC."""
    examples: dict[str, str] = {}
    for text in dict.fromkeys(values[~pd.isna(values)]):
        offset = utc_offset(text)
        if offset is None:
            raise ValueError(
                f"{name} are text, such as {shortened(text, 40)}, which sorts as text and not by "
                f"time; {_CONVERT}"
            )
        examples.setdefault(offset, text)
    _check_zoned(examples, name)
    if len(examples) > 1:
        listed = " and ".join(map(repr, list(examples.values())[:2]))
        raise ValueError(
            f"{name} have several offsets from UTC, such as {listed}; convert them with "
            "pd.to_datetime(..., utc=True)"
        )
    try:
        return pd.to_datetime(pd.Index(values, dtype=object), format="ISO8601")
    except ValueError as error:
        reason = str(error).partition(". You might")[0]
        raise ValueError(f"{name} have text that is no date: {reason}") from error


def _check_zoned(examples: dict[str, str], name: str) -> None:
    """Raise ValueError if times without an offset are among others."""
    if "" in examples and len(examples) > 1:
        zoned = next(example for offset, example in examples.items() if offset)
        raise ValueError(
            f"{name} are dates with and without a time zone, such as {zoned!r} and "
            f"{examples['']!r}; give all of them one, with pd.to_datetime and dt.tz_localize"
        )


def _first(index: pd.Index) -> str:
    """Return the first value, for messages."""
    return shortened(index[:1].tolist()[0], 40)  # of Python, not of NumPy


def pad_times(times: Any, lengths: npt.NDArray[np.int64]) -> tuple[Floats, str]:
    """Return times since the first step ``[n, L]``, dates in seconds, and their unit."""
    each = _one_by_one(times, lengths)
    _warn_of_digits(ordered_times(each[0], "times of series 0"))
    padded = np.zeros((len(lengths), int(lengths.max())))
    clocks = set()
    for i, (row, given, length) in enumerate(zip(padded, each, lengths.tolist(), strict=True)):
        numbers, clock = _numbers(given, f"times of series {i}")
        if len(numbers) != length:
            raise ValueError(f"series {i} has {length} steps, but {len(numbers)} times")
        if not np.isfinite(numbers).all():
            step = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise ValueError(
                f"the time of step {step} of series {i} is missing or infinite; every step needs "
                "a time, even if its values are missing"
            )
        falls = np.flatnonzero(np.diff(numbers) < 0)
        if len(falls):
            raise ValueError(
                f"times of series {i} decrease after step {int(falls[0])}; sort its steps by time"
            )
        row[:length] = numbers
        clocks.add(clock)
    if len(clocks) > 1:
        raise ValueError("some series have dates as times, others numbers")
    return padded, clocks.pop()


def _warn_of_digits(times: pd.Index) -> None:
    """Warn of dates that are written as whole numbers, whose differences are no durations."""
    digits = list(map(str, times)) if len(times) > 1 and times.dtype.kind in "iu" else [""]
    form = _DIGITS.get(len(digits[0]))
    if form is None or not {text[:2] for text in digits} <= {"19", "20"}:
        return
    if pd.to_datetime(digits, format=form, errors="coerce").notna().all():
        warn_caller(
            f"times such as {digits[0]} are read as numbers; if they are dates, whose differences "
            f"are no durations, pass pd.to_datetime(times, format={form!r})"
        )


def _one_by_one(times: Any, lengths: npt.NDArray[np.int64]) -> Sequence[Any]:
    if isinstance(times, (list, tuple)) and len(times) and np.ndim(times[0]) == 1:
        each: Sequence[Any] = times
    elif isinstance(times, (pd.Index, pd.Series)):
        each = [times] * len(lengths)
    else:
        array = np.asanyarray(times)  # with the mask of a masked array
        if array.ndim not in (1, 2):
            raise ValueError(
                "times must be (length,), (n, length), or a list of n (length,) arrays; got "
                f"{array.ndim} dimensions, shape {array.shape}"
            )
        each = [array] * len(lengths) if array.ndim == 1 else list(array)
    if len(each) != len(lengths):
        raise ValueError(f"X has {len(lengths)} series, but times has {len(each)}")
    return each


def _numbers(given: Any, what: str) -> tuple[Floats, str]:
    """Return the times relative to the first, and their unit."""
    index = ordered_times(given, what)
    if isinstance(index, pd.CategoricalIndex):
        raise ValueError(
            f"{what} are categories, such as {_first(index)}, with an order but no distances; "
            f"{_CONVERT}"
        )
    if isinstance(index, pd.PeriodIndex):
        index = index.to_timestamp()
    if len(index) and index.dtype.kind == "f":
        numbers = index.to_numpy()
        gap = float(np.spacing(np.abs(numbers).max()))
        if gap >= 1 and gap * (len(numbers) - 1) > numbers[-1] - numbers[0]:
            raise ValueError(
                f"{what} are {index.dtype}, which has no numbers closer than {gap:g} there: pass "
                "times since the first step, integers, or dates"
            )
    return _since_first(index)


def _since_first(index: pd.Index) -> tuple[Floats, str]:
    """Return times since the first, dates in seconds, and their unit."""
    if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
        index = index.tz_convert("UTC").tz_localize(None)
    values = index.to_numpy()
    if len(values) == 0:
        return np.zeros(0), "numbers"
    if values.dtype.kind in "iu":  # small types would wrap around
        values = values.astype(np.float64 if values.dtype == np.uint64 else np.int64)
    apart = values - values[0]  # before the conversion, which would round nanoseconds since 1970
    if values.dtype.kind in "Mm":
        seconds = apart / np.timedelta64(1, "s")
        return seconds, "dates"
    return apart.astype(np.float64), "numbers"
