"""Read and write `.ts` files, the text format of the UCR and UEA archives.

A header of ``@tag value`` lines, then a series per line: channels separated by colons, values by
commas, and the label, or with ``@targetLabel true`` a number, last::

    @classLabel true walk run
    @data
    1.0,2.0,?:4.0,5.0,6.0:walk

With ``@timeStamps true`` a value is ``(time,value)``. Labels keep their case.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import shortened
from tsformer._files import replacing
from tsformer._warnings import warn_caller
from tsformer.data.containers import to_arrays, to_items
from tsformer.data.formats import is_plain, number_in, open_text
from tsformer.data.layout import check_ids
from tsformer.data.times import instants, ordered_times


class DatasetError(ValueError):
    """A data set is unknown, unavailable, or inconsistent with its header or the catalogue."""


def read_ts(path: str | os.PathLike[str]) -> tuple[list[Any], npt.NDArray[Any] | None]:
    """Read the series and the labels of a `.ts` file.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    X : list of ndarray (channels, length) of float64, or of DataFrame (length, channels)
        NaN where a value is missing. Series with time stamps are frames, with the times as index.
    y : ndarray (n,) of str or of float64, or None
        The labels, spelled as in the file, or the numbers of ``@targetLabel true``.
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
        except (ValueError, TypeError) as error:  # TypeError of dates beside numbers
            where = f"{os.fspath(path)}, line {number}: {error}"
            hint = "" if raw.endswith("\n") else "; the file stops within this line: is it cut off?"
            raise DatasetError(f"{where}{hint}" if number else f"{path} is empty") from error


def write_ts(
    path: str | os.PathLike[str], X: Any, y: Any = None, *, comment: str | None = None
) -> None:
    """Write series and their labels to a `.ts` file, from which `read_ts` restores them exactly.

    Parameters
    ----------
    path : str or path-like
        The file. `load_dataset` finds ``data/<name>/<name>_TRAIN.ts`` by its name.
    X : container of n series
        As `fit` accepts. An index other than 0, 1, 2, ... is written as time stamps.
    y : sequence of n labels, optional
        Written as text.
    comment : str, optional
        Lines to begin the file with, such as where the data come from.

    Raises
    ------
    ValueError, OSError
        For labels that are missing or have a blank, NUL or ``:``, and times that do not increase.

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
    timed = any(map(has_times, items))
    check_ids(X, y, "y")
    labels = [""] * len(series) if y is None else list(map(str, y))
    if len(labels) != len(series):
        raise ValueError(f"X has {len(series)} series, but y has {len(labels)} entries")
    for label, value in zip(labels, labels if y is None else y, strict=True):
        if y is not None and (pd.isna(value) or not label or _NOT_IN_LABELS.search(label)):
            label = shortened(value)
            raise ValueError(f"{label} cannot be a label of a .ts file: no blanks, NUL and ':'")
    lengths = {x.shape[1] for x in series}
    header = {
        "problemName": re.sub("_(TRAIN|TEST)$", "", path.stem),
        "timeStamps": timed,
        "missing": any(bool(np.isnan(x).any()) for x in series),
        "univariate": len(series[0]) == 1,
        "dimensions": len(series[0]),
        "equalLength": len(lengths) == 1,
        **({"seriesLength": min(lengths)} if len(lengths) == 1 else {}),
        "classLabel": "false" if y is None else " ".join(["true", *sorted(set(labels))]),
    }
    lines = [f"# {line}" for line in (comment or "").splitlines()]
    lines += [f"@{tag} {str(v).lower() if v in (True, False) else v}" for tag, v in header.items()]
    with replacing(path) as file:
        file.write("".join(f"{line}\n" for line in [*lines, "@data"]).encode())
        for i, (x, item, label) in enumerate(zip(series, items, labels, strict=True)):
            times = _times(item, f"times of series {i}") if timed else []
            channels = []
            for channel in x.tolist():
                values = ["?" if value != value else repr(+value) for value in channel]  # +True: 1
                if timed:
                    values = [f"({t},{value})" for t, value in zip(times, values, strict=True)]
                channels.append(",".join(values))
            line = ":".join(channels if y is None else [*channels, label])
            file.write(f"{line}\n".encode())


def has_times(x: Any) -> bool:
    """Whether the steps of a series have an index other than 0, 1, 2, ..."""
    index = x.index if isinstance(x, (pd.DataFrame, pd.Series)) else pd.RangeIndex(0)
    return not index.equals(pd.RangeIndex(len(index)))


def _times(x: Any, name: str) -> list[Any]:
    """Return the time stamps of each step as they are written."""
    index = instants(getattr(x, "index", range(0)), name)
    rises = index.is_monotonic_increasing and index.is_unique
    if not rises or len(index) != len(x) or isinstance(index, pd.TimedeltaIndex):
        raise ValueError(f"{name} must be numbers or dates that increase; got {index.dtype}")
    if not isinstance(index, pd.DatetimeIndex):
        return index.tolist()
    return [time.isoformat() for time in (index if index.tz is None else index.tz_convert("UTC"))]


def writable_labels(y: Any) -> npt.NDArray[np.str_]:
    """Return labels with ``_`` for blanks, NUL and ``:``, and warn of changes."""
    new_of = {label: _NOT_IN_LABELS.sub("_", label) for label in map(str, y)}
    if len({*new_of.values()}) < len(new_of):
        raise ValueError(f"with '_' for blanks and ':' two labels of {[*new_of][:20]} are equal")
    if changed := {label: new for label, new in new_of.items() if new != label}:
        warn_caller(f"labels in .ts files have no blanks, NUL and ':'; written are {changed}")
    return np.array([new_of[str(label)] for label in y])


_NOT_IN_LABELS = re.compile(r"[\s:\0]+")
_FLAGS = ("@timestamps", "@targetlabel", "@univariate", "@equallength", "@classlabel")
_COUNTS = ("@dimensions", "@dimension", "@serieslength")


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
        values, colon, label = line.rpartition(":") if labelled else (line, ":", "")
        if labelled:
            target = number_in(label) if labels is None else label.strip()
            if not colon or target is None or (labels is not None and target not in labels):
                kind = "a finite number" if labels is None else f"one of {[*labels][:20]}"
                raise ValueError(f"the line ends in {label.strip()!r:.32}; expected :LABEL, {kind}")
            y.append(target)
        series: Any = _read_timed(values) if timed else _read_series(values.split(":"))
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
        tag, *words = line.split()
        tag, value = tag.lower(), (words or [""])[0].lower()
        if tag == "@data":
            break
        flag = tag in _FLAGS and value in ("true", "false")
        count = tag in _COUNTS and re.fullmatch("[1-9][0-9]{0,8}", value)
        if not tag.startswith("@") or (tag in (*_FLAGS, *_COUNTS) and not (flag or count)):
            expected = "a tag such as @data, with true, false or a positive whole number"
            raise ValueError(f"expected {expected}; got {shortened(line, 60)}")
        if flag or count:
            name = "@dimensions" if tag == "@dimension" else tag
            header[name] = int(value) if count else value == "true"
        if tag == "@classlabel" and value == "true":
            header["labels"] = dict.fromkeys(words[1:])
            if not words[1:] or "\0" in line or "\ufffd" in line:  # U+FFFD replaces other bytes
                raise ValueError("@classLabel true needs labels after it, in UTF-8 without NUL")
    else:
        raise ValueError("the file ends without @data")
    if not header.keys() & {"@classlabel", "@targetlabel"}:
        raise ValueError("the header has no @classLabel before @data")
    return header


def _read_timed(text: str) -> pd.DataFrame:
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
            raise ValueError(f"channel {i}: a time occurs twice")
        series.append(pd.Series(_read_series([",".join(v for *_, v in pairs)])[0], index))
    return pd.DataFrame(dict(enumerate(series))).sort_index()


def _read_series(channels: list[str]) -> npt.NDArray[np.float64]:
    """Turn the texts of the channels into an array (channels, length)."""
    lengths = [text.count(",") + 1 for text in channels]
    if len({*lengths}) > 1:
        raise ValueError(f"the channels have {lengths[:10]} values; expected the same number")
    values = ",".join(channels).split(",")
    if any("?" in text for text in channels):
        values = ["nan" if value.strip() == "?" else value for value in values]
    if not all(map(is_plain, channels)):  # Python would accept such digits
        raise ValueError(f"a number has '_' or other digits: {shortened(channels, 60)}")
    return np.array(values, dtype=np.float64).reshape(len(channels), -1)
