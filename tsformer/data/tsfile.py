"""Read and write `.ts` files, the text format of the UCR and UEA archives.

A file has a header of ``@tag value`` lines, then ``@data``, then one series per line: channels
separated by colons, the values of a channel by commas, and the label last::

    @problemName Toy
    @equalLength true
    @classLabel true walk run
    @data
    1.0,2.0,?:4.0,5.0,6.0:walk

With ``@timeStamps true`` a value is ``(time,value)``, and with ``@targetLabel true`` the last field
is a number to predict. Unlike sktime's reader, this one keeps the case of labels, refuses truncated
lines, and names the offending line.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import shortened
from tsformer._files import replacing
from tsformer._warnings import warn_caller
from tsformer.data.containers import to_arrays, to_items
from tsformer.data.layout import check_ids
from tsformer.data.text import is_plain, number_in, open_text
from tsformer.data.times import ordered_times


class DatasetError(ValueError):
    """A data set is unknown, unavailable, or inconsistent with its header or the catalogue."""


def read_ts(
    path: str | os.PathLike[str],
) -> tuple[list[Any], npt.NDArray[Any] | None]:
    """Read the series and the labels of a `.ts` file.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    X : list of ndarray (channels, length) of float64, or of DataFrame (length, channels)
        One array per series, NaN where the file has ``?`` or ``NaN``. Series with time stamps are
        tables with the times as index, NaN where a channel has no value at a time of another.
    y : ndarray (n,) of str or of float64, or None
        The labels, spelled as in the file; numbers if the header says ``@targetLabel true``; None
        if it says ``@classLabel false``.

    Raises
    ------
    DatasetError
        If the file is empty, ends early, or has a line that contradicts the header. The message
        starts with the path and the line number.
    FileNotFoundError
        If there is no such file.
    """
    # A few headers in the archives use other encodings for names; data and tags are ASCII.
    with open_text(path, errors="replace") as file:
        lines = _Lines(os.fspath(path), file)
        header = _read_header(lines)
        X: list[Any] = []
        labels: list[Any] = []
        for line in lines:
            channels = _split(lines, line, header)
            if header.is_labelled:
                labels.append(_take_label(lines, channels, header.labels))
            series: Any
            if header.times:
                series = _read_timed(lines, channels, X[0] if X else None)
                n_channels, length = series.shape[1], None
            else:
                series = _read_series(lines, channels)
                n_channels, length = series.shape
            if header.channels not in (None, n_channels):
                lines.refuse(f"{n_channels} channels, expected {header.channels}")
            if length is not None and header.length not in (None, length):
                lines.refuse(f"{length} values per channel, expected {header.length}")
            # If the header does not say, all series must match the first.
            header.channels = n_channels
            if header.equal_length:
                header.length = length
            X.append(series)
    if not X:
        lines.refuse("no series after @data")
    return X, np.array(labels) if header.is_labelled else None


def write_ts(
    path: str | os.PathLike[str], X: Any, y: Any = None, *, comment: str | None = None
) -> None:
    """Write series and their labels to a `.ts` file, from which `read_ts` restores them exactly.

    The write is atomic: an interrupted write leaves the previous file.

    Parameters
    ----------
    path : str or path-like
        The file. ``<name>/<name>_TRAIN.ts`` and ``<name>/<name>_TEST.ts`` in the folder ``data``
        are a data set that `load_dataset` finds by name.
    X : container of n series
        As `fit` accepts. The format has no names of channels. The index of a DataFrame is written
        as time stamps, unless it is 0, 1, 2, ... in all series.
    y : sequence of n labels, optional
        Written as text.
    comment : str, optional
        Lines to begin the file with, such as where the data come from.

    Raises
    ------
    ValueError
        If there are not as many labels as series, a label is missing or contains a blank, NUL or
        ``:`` (`writable_labels` replaces them), a series is empty, series differ in channels, or
        times are neither numbers nor dates, decrease or repeat.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "Toy_TRAIN.ts"
    >>> write_ts(path, [np.array([[1.0, np.nan, 3.0]]), np.array([[4.5]])], ["walk", "run"])
    >>> print(path.read_text().partition("@data")[2].strip())
    1.0,?,3.0:walk
    4.5:run
    """
    path = Path(path)
    items = to_items(X)
    series = to_arrays(items)
    times = _times(items) if any(map(has_times, items)) else None
    check_ids(X, y, "y")
    labels = None if y is None else [str(label) for label in y]
    if labels is not None:
        if len(labels) != len(series):
            raise ValueError(f"X has {len(series)} series, but y has {len(labels)} entries")
        for i, (value, label) in enumerate(zip(y, labels, strict=True)):
            if pd.isna(value):
                raise ValueError(f"y is missing for series {i}; leave the series out")
            if not label or _NOT_IN_LABELS.search(label):
                raise ValueError(
                    f"{shortened(label)} cannot be a label of a .ts file, which is not empty and "
                    "has no blanks, NUL characters and ':'; rename it"
                )
    lengths = {x.shape[1] for x in series}
    classes = "false" if labels is None else " ".join(["true", *sorted(set(labels))])
    truth = {True: "true", False: "false"}
    header = [f"# {line}" for line in (comment or "").splitlines()]
    header += [
        f"@problemName {re.sub('_(TRAIN|TEST)$', '', path.stem)}",
        f"@timeStamps {truth[times is not None]}",
        f"@missing {truth[any(bool(np.isnan(x).any()) for x in series)]}",
        f"@univariate {truth[len(series[0]) == 1]}",
        f"@dimensions {len(series[0])}",
        f"@equalLength {truth[len(lengths) == 1]}",
        *([f"@seriesLength {min(lengths)}"] if len(lengths) == 1 else []),
        f"@classLabel {classes}",
        "@data",
    ]
    with replacing(path) as file:
        file.write("".join(f"{line}\n" for line in header).encode())
        for i, x in enumerate(series):
            channels = []
            for channel in x.tolist():
                values = ["?" if value != value else repr(+value) for value in channel]  # +True: 1
                if times is not None:
                    values = [f"({t},{value})" for t, value in zip(times[i], values, strict=True)]
                channels.append(",".join(values))
            line = ":".join(channels if labels is None else [*channels, labels[i]])
            file.write(f"{line}\n".encode())


def has_times(x: Any) -> bool:
    """Whether the steps of a series have an index other than 0, 1, 2, ..."""
    index = x.index if isinstance(x, (pd.DataFrame, pd.Series)) else pd.RangeIndex(0)
    return not index.equals(pd.RangeIndex(len(index)))


def _times(items: Sequence[Any]) -> list[list[Any]]:
    """Return the time stamps of each step as they are written."""
    times, clocks = [], set()
    for i, x in enumerate(items):
        if not isinstance(x, (pd.DataFrame, pd.Series)):
            raise ValueError(
                f"some series have times, and series {i} is a {type(x).__name__} without; pass a "
                "list of DataFrames"
            )
        index = ordered_times(x.index, f"times of series {i}")
        clocks.add(_clock(index))
        dates = isinstance(index, pd.DatetimeIndex)
        if not dates and (index.dtype.kind not in "iuf" or np.isinf(index).any()):
            raise ValueError(
                f"times of series {i} are {index.dtype} or infinite; a .ts file has numbers or "
                "dates: convert them with .total_seconds() or .to_timestamp()"
            )
        if index.hasnans or not (index.is_monotonic_increasing and index.is_unique):
            raise ValueError(
                f"times of series {i} are missing, decrease or repeat; a .ts file has each time "
                "once: sort the series by time and aggregate its duplicates"
            )
        if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
            index = index.tz_convert("UTC")  # read_ts wants a single offset
        times.append([time.isoformat() if dates else time for time in index.tolist()])
    if len(clocks) > 1:
        raise ValueError(f"some times are {' and others '.join(sorted(clocks))}; convert them")
    return times


def writable_labels(y: Any) -> npt.NDArray[np.str_]:
    """Return labels with ``_`` for blanks, NUL and ``:``, and warn of changes."""
    new_of = {label: _NOT_IN_LABELS.sub("_", label) for label in dict.fromkeys(map(str, y))}
    written: dict[str, str] = {}
    for label, new in new_of.items():
        if written.setdefault(new, label) != label:
            raise ValueError(
                f"the labels {written[new]!r} and {label!r} would both be {new!r} in a .ts file; "
                "rename one of them"
            )
    changed = {label: new for label, new in new_of.items() if new != label}
    if changed:
        label, new = next(iter(changed.items()))
        warn_caller(
            f"labels in .ts files have no blanks, NUL characters and ':': {label!r} is written as "
            f"{new!r}" + (f", and {len(changed) - 1} others likewise" if len(changed) > 1 else ""),
        )
    return np.array([new_of[str(label)] for label in y])


_NOT_IN_LABELS = re.compile(r"[\s:\0]+")


@dataclass
class _Header:
    """Declarations before ``@data``; None where undeclared."""

    is_labelled: bool = False
    channels: int | None = None
    length: int | None = None
    equal_length: bool | None = None
    labels: frozenset[str] | None = None
    times: bool = False


class _Lines:
    """The non-comment lines of a file, and errors about the line read last."""

    def __init__(self, path: str, lines: Iterator[str]):
        self.path = path
        self.number = 0
        self._lines = lines
        self._is_cut = False

    def __iter__(self) -> Iterator[str]:
        for raw in self._lines:
            self.number += 1
            self._is_cut = not raw.endswith("\n")
            line = raw.strip()
            if line and line[0] not in "#%":  # both start a comment
                yield line

    def refuse(self, what: str) -> NoReturn:
        hint = "; the file stops within this line: is it cut off?" if self._is_cut else ""
        raise DatasetError(f"{self.path}, line {self.number}: {what}{hint}")


def _read_header(lines: _Lines) -> _Header:
    header, has_labels = _Header(), False
    for line in lines:
        if not line.startswith("@"):
            lines.refuse(f"expected a header line such as '@data', found {_short(line)}")
        tag, *values = line.split()
        value = values[0] if values else ""
        match tag.lower():
            case "@data":
                if not has_labels:
                    lines.refuse("the header has no @classLabel before @data")
                if header.equal_length is False:
                    header.length = None  # some headers state the longest
                return header
            case "@timestamps":
                header.times = _flag(lines, tag, value)
            case "@targetlabel":
                has_labels = True
                header.is_labelled |= _flag(lines, tag, value)
            case "@univariate" if _flag(lines, tag, value):
                header.channels = 1
            case "@dimensions" | "@dimension":
                header.channels = _count(lines, tag, value)
            case "@equallength":
                header.equal_length = _flag(lines, tag, value)
            case "@serieslength":
                header.length = _count(lines, tag, value)
            case "@classlabel":
                has_labels = True
                if _flag(lines, tag, value):
                    header.is_labelled, header.labels = True, frozenset(values[1:])
                    if not header.labels:
                        lines.refuse("@classLabel true needs the labels after it")
                    if "\0" in line or "\ufffd" in line:  # U+FFFD replaces other bytes
                        lines.refuse("a label has NUL or is not UTF-8 text; save the file in UTF-8")
            # Others (@problemName, @missing, and what later tools add) tell nothing to check.
    if lines.number == 0:
        raise DatasetError(f"{lines.path} is empty")
    lines.refuse("the file ends without @data")


def _flag(lines: _Lines, tag: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        lines.refuse(f"{tag} must be true or false, not {_short(value)}")
    return value.lower() == "true"


def _count(lines: _Lines, tag: str, value: str) -> int:
    # No file has a billion values a line; and Python refuses numbers of thousands of digits.
    if not value.isdecimal() or len(value) > 9 or int(value) == 0:
        lines.refuse(f"{tag} must be a positive whole number below a billion, not {_short(value)}")
    return int(value)


def _split(lines: _Lines, line: str, header: _Header) -> list[str]:
    """Return the fields of a line; time stamps may have colons."""
    if not header.times:
        return line.split(":")
    values, _, label = line.rpartition(":") if header.is_labelled else (line, "", "")
    values = values.strip()
    if not values.endswith(")"):
        lines.refuse(f"expected channels of (time,value), found {_short(line)}")
    channels = re.split(r"\)\s*:\s*\(", values[:-1].removeprefix("("))
    return [*channels, label] if header.is_labelled else channels


def _read_timed(lines: _Lines, channels: list[str], first: pd.DataFrame | None) -> pd.DataFrame:
    """Turn the texts of the channels into a table with the times of all as index."""
    series = {}
    for i, channel in enumerate(channels):
        pairs = [pair.rpartition(",") for pair in re.split(r"\)\s*,\s*\(", channel)]
        values = _read_series(lines, [",".join(value for *_, value in pairs)])[0]
        times = [time.strip() for time, *_ in pairs]
        index: Any
        try:
            if not all(map(is_plain, times)):
                raise ValueError("a digit is not ASCII")
            try:
                numbers = np.array(times, dtype=np.float64)
                index = pd.Index(np.where(np.isfinite(numbers), numbers, np.nan))
            except ValueError:
                index = pd.Index(ordered_times(times, "times that are not all numbers"))
        except ValueError as error:
            lines.refuse(f"channel {i + 1}: {str(error).partition(';')[0]}")
        if index.hasnans or index.has_duplicates:
            lines.refuse(f"channel {i + 1}: a time is missing, infinite, or there twice")
        series[i] = pd.Series(values, index=index)
    tables: list[Any] = [*series.values(), *([] if first is None else [first])]
    if len(clocks := sorted({_clock(each.index) for each in tables})) > 1:
        lines.refuse(f"some times are {clocks[0]} and others {clocks[1]}")
    return pd.DataFrame(series).sort_index()


def _clock(index: pd.Index) -> str:
    """Return the kind of the times."""
    if not isinstance(index, pd.DatetimeIndex):
        return "numbers"
    return "dates" if index.tz is None else "dates with an offset from UTC"


def _take_label(lines: _Lines, fields: list[str], labels: frozenset[str] | None) -> str | float:
    """Take the label, or without `labels` the target, from the fields of a line."""
    text = fields.pop().strip()
    if labels is None:
        target = number_in(text)
        if target is None:
            lines.refuse(f"the line ends in {_short(text)}, no finite number (@targetLabel)")
        return target
    if text not in labels:
        known = ", ".join(sorted(labels)[:20]) + (", ..." if len(labels) > 20 else "")
        lines.refuse(
            f"the line ends in {_short(text)}, which is not a label of @classLabel ({known})"
        )
    return text


def _read_series(lines: _Lines, channels: list[str]) -> npt.NDArray[np.float64]:
    """Turn the texts of the channels into an array (channels, length)."""
    if not channels:
        lines.refuse("a single field: expected channels and a label, separated by ':'")
    lengths = [text.count(",") + 1 for text in channels]
    for i, length in enumerate(lengths):
        if length != lengths[0]:
            lines.refuse(
                f"channel {i + 1} has {length} values, channel 1 has {lengths[0]}; "
                "the channels of a series must have equal length"
            )
    # All channels at once, for speed; the offending value is located only if this fails.
    values = ",".join(channels).split(",")
    if any("?" in text for text in channels):
        values = ["nan" if value.strip() == "?" else value for value in values]
    if all(map(is_plain, channels)):
        with suppress(ValueError):
            return np.array(values, dtype=np.float64).reshape(len(channels), -1)
    for place, value in enumerate(values):
        try:
            float(value if is_plain(value) else "no number")
        except ValueError:
            i, j = divmod(place, lengths[0])
            lines.refuse(f"channel {i + 1}, value {j + 1}: {_short(value.strip())} is not a number")
    raise AssertionError("numpy rejected a line, and Python parses its values")


def _short(text: str) -> str:
    return shortened(text, most=32)
