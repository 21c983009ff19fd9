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
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

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
    DatasetError, FileNotFoundError
        If the file is not there, is empty, ends early, or has a line that contradicts the header.
    """
    number, raw = 0, "\n"

    def content(file: Iterable[str]) -> Iterator[str]:
        nonlocal number, raw
        for raw in file:
            number += 1
            if (line := raw.strip()) and line[0] not in "#%":  # both start a comment
                yield line

    # A few headers in the archives use other encodings for names; data and tags are ASCII.
    with open_text(path, errors="replace") as file:
        try:
            return _read(content(file))
        except ValueError as error:
            where = f"{os.fspath(path)}, line {number}: {error}"
            hint = "" if raw.endswith("\n") else "; the file stops within this line: is it cut off?"
            raise DatasetError(f"{where}{hint}" if number else f"{path} is empty") from error


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
    ValueError, OSError
        If there are not as many labels as series, a label is missing or contains a blank, NUL or
        ``:`` (`writable_labels` replaces them), a series is empty, series differ in channels, or
        times are neither numbers nor dates, decrease or repeat.

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
                    f"{shortened(label)} cannot be a label of a .ts file: it is empty, or has "
                    "blanks, NUL or ':'; rename it"
                )
    lengths = {x.shape[1] for x in series}
    equal = [f"@seriesLength {min(lengths)}"] if len(lengths) == 1 else []
    classes = "false" if labels is None else " ".join(["true", *sorted(set(labels))])
    header = [f"# {line}" for line in (comment or "").splitlines()]
    header += [
        f"@problemName {re.sub('_(TRAIN|TEST)$', '', path.stem)}",
        f"@timeStamps {str(times is not None).lower()}",
        f"@missing {str(any(bool(np.isnan(x).any()) for x in series)).lower()}",
        f"@univariate {str(len(series[0]) == 1).lower()}",
        f"@dimensions {len(series[0])}",
        f"@equalLength {str(len(lengths) == 1).lower()}",
        *equal,
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
            raise ValueError(f"some series have times, and series {i} is a {type(x).__name__}")
        index = ordered_times(x.index, f"times of series {i}")
        dates = isinstance(index, pd.DatetimeIndex)
        if not dates and (index.dtype.kind not in "iuf" or np.isinf(index).any()):
            raise ValueError(
                f"times of series {i} are {index.dtype} or infinite; a .ts file has numbers or "
                "dates: convert them with .total_seconds() or .to_timestamp()"
            )
        if index.hasnans or not (index.is_monotonic_increasing and index.is_unique):
            raise ValueError(
                f"times of series {i} are missing, decrease or repeat; sort the series by time, "
                "with each time once"
            )
        clocks.add(_clock(index))
        if isinstance(index, pd.DatetimeIndex) and index.tz is not None:
            index = index.tz_convert("UTC")
        times.append([time.isoformat() if dates else time for time in index.tolist()])
    _check_one_clock(clocks)
    return times


def writable_labels(y: Any) -> npt.NDArray[np.str_]:
    """Return labels with ``_`` for blanks, NUL and ``:``, and warn of changes."""
    new_of = {label: _NOT_IN_LABELS.sub("_", label) for label in map(str, y)}
    written: dict[str, str] = {}
    for label, new in new_of.items():
        if written.setdefault(new, label) != label:
            raise ValueError(
                f"the labels {written[new]!r} and {label!r} would both be {new!r} in a .ts file; "
                "rename one of them"
            )
    if changed := [label for label, new in new_of.items() if new != label]:
        others = f", and {len(changed) - 1} others likewise" if len(changed) > 1 else ""
        warn_caller(
            f"labels in .ts files have no blanks, NUL characters and ':': {changed[0]!r} is "
            f"written as {new_of[changed[0]]!r}{others}"
        )
    return np.array([new_of[str(label)] for label in y])


_NOT_IN_LABELS = re.compile(r"[\s:\0]+")
_FLAGS = {"@timestamps", "@targetlabel", "@univariate", "@equallength", "@classlabel"}
_NO_FINITE = {"nan", "inf", "infinity", "-nan", "-inf", "-infinity", "+nan", "+inf"}
_COUNTS = {"@dimensions", "@dimension", "@serieslength"}


def _read(lines: Iterator[str]) -> tuple[list[Any], npt.NDArray[Any] | None]:
    """Return the series and the labels of the lines of a file."""
    header = _read_header(lines)
    labels, timed = header.get("labels"), header.get("@timestamps")
    labelled = labels is not None or header.get("@targetlabel")
    # If the header does not say, all series must match the first; some state the longest.
    n_channels = header.get("@dimensions", 1 if header.get("@univariate") else None)
    length = None if header.get("@equallength") is False else header.get("@serieslength")
    X: list[Any] = []
    y: list[Any] = []
    for line in lines:
        values, colon, label = line.rpartition(":") if labelled else (line, "", "")
        if labelled:
            y.append(_label(label.strip(), labels))
            if not colon and not timed:
                raise ValueError("a single field: expected channels and a label, separated by ':'")
        series: Any = _read_timed(values, X[:1]) if timed else _read_series(values.split(":"))
        steps, channels = series.shape if timed else series.shape[::-1]
        if n_channels not in (None, channels):
            raise ValueError(f"{channels} channels, expected {n_channels}")
        if not timed and length not in (None, steps):
            raise ValueError(f"{steps} values per channel, expected {length}")
        n_channels = channels
        length = steps if header.get("@equallength") else length
        X.append(series)
    if not X:
        raise ValueError("no series after @data")
    return X, np.array(y) if labelled else None


def _read_header(lines: Iterator[str]) -> dict[str, Any]:
    """Return flags, counts and `labels` up to ``@data``; other tags tell nothing to check."""
    header: dict[str, Any] = {}
    for line in lines:
        if not line.startswith("@"):
            raise ValueError(f"expected a header line such as '@data'; got {shortened(line, 32)}")
        word, value, *_ = (*line.split(), "")
        tag = word.lower()
        if tag == "@data":
            break
        if tag in _FLAGS:
            if value.lower() not in ("true", "false"):
                raise ValueError(f"{word} must be true or false, not {shortened(value, 32)}")
            header[tag] = value.lower() == "true"
        elif tag in _COUNTS:
            # Python refuses numbers of thousands of digits.
            if not value.isdecimal() or len(value) > 9 or int(value) == 0:
                number = shortened(value, 32)
                raise ValueError(f"{word} must be a positive whole number, not {number}")
            header["@dimensions" if tag == "@dimension" else tag] = int(value)
        if tag == "@classlabel" and header[tag]:
            header["labels"] = dict.fromkeys(line.split()[2:])
            if not header["labels"]:
                raise ValueError("@classLabel true needs the labels after it")
            if "\0" in line or "\ufffd" in line:  # U+FFFD replaces other bytes
                raise ValueError("a label has NUL or is not UTF-8 text; save the file in UTF-8")
    else:
        raise ValueError("the file ends without @data")
    if not header.keys() & {"@classlabel", "@targetlabel"}:
        raise ValueError("the header has no @classLabel before @data")
    return header


def _read_timed(text: str, earlier: list[pd.DataFrame]) -> pd.DataFrame:
    """Turn channels of (time,value) into a table with the times of all as index."""
    text = text.strip()
    if not (text.startswith("(") and text.endswith(")")):
        raise ValueError(f"expected channels of (time,value); got {shortened(text, 32)}")
    series: list[Any] = []
    for i, channel in enumerate(re.split(r"\)\s*:\s*\(", text[1:-1]), 1):
        pairs = [pair.rpartition(",") for pair in re.split(r"\)\s*,\s*\(", channel)]
        times: Any = [time.strip() for time, *_ in pairs]
        if all(number_in(time) is not None for time in times):
            times = np.array(times, dtype=np.float64)
        index = ordered_times(times, f"channel {i}: times")
        if index.has_duplicates:
            raise ValueError(f"channel {i}: a time is there twice")
        series.append(pd.Series(_read_series([",".join(v for *_, v in pairs)])[0], index))
    _check_one_clock({_clock(each.index) for each in (*series, *earlier)})
    return pd.DataFrame(dict(enumerate(series))).sort_index()


def _clock(index: pd.Index) -> str:
    """Return the kind of the times."""
    if not isinstance(index, pd.DatetimeIndex):
        return "numbers"
    return "dates" if index.tz is None else "dates with an offset from UTC"


def _check_one_clock(clocks: set[str]) -> None:
    if len(clocks) > 1:
        raise ValueError(f"some times are {' and others '.join(sorted(clocks))}; convert them")


def _label(text: str, labels: dict[str, None] | None) -> str | float:
    """Check the label at the end of a line, or without `labels` the target."""
    if labels is None and (target := number_in(text)) is not None:
        return target
    if labels is None or text not in labels:
        what = "a finite number" if labels is None else f"a label: {', '.join([*labels][:20])}"
        raise ValueError(f"the line ends in {shortened(text, 32)}, which is not {what}")
    return text


def _read_series(channels: list[str]) -> npt.NDArray[np.float64]:
    """Turn the texts of the channels into an array (channels, length)."""
    lengths = [text.count(",") + 1 for text in channels]
    for i, length in enumerate(lengths, 1):
        if length != lengths[0]:
            raise ValueError(f"channel {i} has {length} values, channel 1 has {lengths[0]}")
    # All channels at once, for speed; the offending value is located only if this fails.
    values = ",".join(channels).split(",")
    if any("?" in text for text in channels):
        values = ["nan" if value.strip() == "?" else value for value in values]
    try:
        if not all(map(is_plain, channels)):
            raise ValueError("a digit is not ASCII")
        return np.array(values, dtype=np.float64).reshape(len(channels), -1)
    except ValueError:
        for place, value in enumerate(map(str.strip, values)):
            if number_in(value) is None and value.lower() not in _NO_FINITE:
                i, j = divmod(place, lengths[0])
                raise ValueError(
                    f"channel {i + 1}, value {j + 1}: {value!r:.34} is not a number"
                ) from None
        raise
