"""Recordings: values, times, pauses, and a label for every step."""

import datetime
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known, check_number, is_one_of, shortened, unknown
from tsformer.data.native import native_item
from tsformer.data.times import ordered_times

#: A gap of more median steps is a pause.
_PAUSE = 5
#: First step, last step plus one, and label.
Run = tuple[int, int, Any]


@dataclass(frozen=True, eq=False)
class Recording:
    """One recording: values `[C, steps]`, its times or step numbers, and a label per step."""

    name: Hashable
    values: npt.NDArray[Any]
    index: pd.Index
    channels: list[Any]
    group: Any
    #: None where a step has no label.
    labels: npt.NDArray[np.object_] | None
    #: The first step after each pause, and the number of steps.
    ends: list[int]
    #: Median of the times between steps.
    step: Any

    def n_steps(self, duration: Any, name: str, step: Any = None) -> int:
        """Return a number of steps, given as such or as a time."""
        if not is_time(duration):
            check_number(name, duration, 1, whole=True)
            return int(duration)
        n = round(self.time(duration, name) / (self.step if step is None else step))
        if n < 1:
            raise ValueError(f"{name}={duration!r} is less than one step of {self.step}")
        return n

    def time(self, duration: Any, name: str) -> pd.Timedelta:
        """Convert a duration to a Timedelta."""
        if self.index.dtype.kind not in "mM":
            raise ValueError(
                f"{name}={duration!r} is a time, but recording {self.name!r} has no dates as "
                "index; pass a number of steps"
            )
        if not is_time(duration):
            raise ValueError(f"{name}={duration!r} is no time; pass one such as '10s'")
        try:
            return pd.Timedelta(duration).as_unit("ns")
        except ValueError as error:
            raise ValueError(f"{name}={duration!r} is no time; pass one such as '10s'") from error

    def starts(self, length: int, stride: int) -> npt.NDArray[np.int64]:
        """Return the first steps of the windows between pauses."""
        return np.concatenate(
            [np.arange(a, b - length + 1, stride) for a, b in pairwise([0, *self.ends])]
        )

    def views(self, starts: npt.NDArray[np.int64], length: int) -> npt.NDArray[Any]:
        """Return windows `[n, C, length]`, a view if they are evenly spaced."""
        view = np.lib.stride_tricks.sliding_window_view(self.values, length, axis=1, subok=True)
        view = view.transpose(1, 0, 2)
        apart = int(np.diff(starts[:2]).sum()) or 1
        if (np.diff(starts) == apart).all():
            return view[starts[0] : starts[-1] + 1 : apart]
        return view[starts]

    def majority(
        self, starts: npt.NDArray[np.int64], length: int, classes: list[Any], least_share: float
    ) -> npt.NDArray[np.int64]:
        """Return the class of each window, -1 without a majority, -2 if unlabelled."""
        codes = pd.Index(classes, dtype=object).get_indexer(self.labels)
        counts = np.zeros((len(classes), len(starts)), int)
        for k, row in enumerate(counts):
            before = np.concatenate([[0], np.cumsum(codes == k)])
            row[:] = before[starts + length] - before[starts]
        top, least = counts.max(axis=0, initial=0), least_share * length
        clear = (top >= least) & ((counts == top).sum(axis=0) == 1)
        best = np.vstack([counts, top]).argmax(axis=0)  # also of no class
        return np.where(clear, best, np.where(counts.sum(axis=0) >= least, -1, -2))

    def end(self, stop: int) -> Any:
        """Return the time at which step `stop - 1` ends."""
        return self.index[stop - 1] + self.step if stop in self.ends else self.index[stop]

    def runs(self, labels: npt.NDArray[Any], least: int = 1) -> list[Run]:
        """Return runs of one label; short runs join the longest run that touches them."""
        codes = pd.factorize(labels)[0]
        cuts = sorted({0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), *self.ends})
        runs = [(a, b, labels[a]) for a, b in pairwise(cuts) if codes[a] >= 0]
        while runs and min(b - a for a, b, _ in runs) < least:
            i = min(range(len(runs)), key=lambda j: runs[j][1] - runs[j][0])
            a, b, _ = runs.pop(i)
            beside = [r for r in runs if self._touch(r[1], a) or self._touch(b, r[0])]
            if beside:
                longest = max(beside, key=lambda r: r[1] - r[0])
                runs.insert(i, (a, b, longest[2]))
            joined: list[Run] = []
            for a, b, label in runs:
                if joined and self._touch(joined[-1][1], a) and joined[-1][2] == label:
                    a = joined.pop()[0]
                joined.append((a, b, label))
            runs = joined
        return runs

    def _touch(self, stop: int, start: int) -> bool:
        return stop == start and stop not in self.ends


def is_time(value: Any) -> bool:
    """Whether a duration is a time, not a number."""
    return isinstance(value, (str, datetime.timedelta, np.timedelta64))


def read_recordings(
    recordings: Any, labels: Any, groups: Any, pause: Any, unlabelled: Any
) -> list[Recording]:
    """Read recordings with their labels and groups."""
    if isinstance(recordings, Mapping):
        items: dict[Any, Any] = dict(recordings)
    elif isinstance(recordings, (list, tuple)) and any(map(np.ndim, recordings)):
        items = dict(enumerate(recordings))
    else:
        items = {0: recordings}
    if isinstance(recordings, (Mapping, list, tuple)) and not recordings:
        raise ValueError("recordings is empty; pass at least one recording")
    single = items.get(0) is recordings
    of_labels = _by_recording(labels, list(items), single, "labels")
    of_groups = _by_recording(groups, list(items), single, "groups")
    read = []
    for name, given in items.items():
        what = f"recording {name!r}"
        plain = type(given) in (np.ndarray, np.memmap) and given.dtype.kind in "fiub"
        x = given if plain else native_item(given, what)
        x = x.to_frame() if isinstance(x, pd.Series) else x
        label, group = of_labels[name], of_groups[name]
        if isinstance(labels, str):
            x, label = _without_column(x, labels, f"labels: {what}")
        if isinstance(groups, str):
            x, values = _without_column(x, groups, f"groups: {what}")
            if len(distinct := pd.unique(values)) != 1:
                raise ValueError(
                    f"column {groups!r} of {what} has {len(distinct)} groups; pass a recording per "
                    f"group, dict(list(frame.groupby({groups!r})))"
                )
            group = distinct[0]
        recording = _read(name, x, label, name if groups is None else group, pause)
        if labels is not None and recording.labels is None:  # a recording without any label
            recording = replace(recording, labels=np.full(len(recording.index), None))
        if recording.labels is not None and not is_one_of(unlabelled, ("drop",)):
            none = pd.isna(recording.labels)
            recording = replace(recording, labels=np.where(none, unlabelled, recording.labels))
        read.append(recording)
    for each in read:
        if each.channels != read[0].channels:
            raise ValueError(
                f"recording {each.name!r} has the channels {shortened(each.channels)}, but "
                f"recording {read[0].name!r} has {shortened(read[0].channels)}; pass the same"
            )
    return read


def _by_recording(given: Any, names: list[Any], single: bool, what: str) -> dict[Any, Any]:
    """Assign labels or groups to recordings."""
    if given is None or isinstance(given, str):
        return dict.fromkeys(names, given)
    if isinstance(given, pd.DataFrame) and "recording" in given:
        for name in given["recording"].unique():
            check_known("recording", name, names, where=f"{what}: ")
        return {name: given[given["recording"] == name] for name in names}
    if isinstance(given, Mapping):
        if missing := [name for name in names if name not in given]:
            raise ValueError(f"{what} have no entry for recording {missing[0]!r}; add one")
        return {name: given[name] for name in names}
    if single and not (isinstance(given, (list, tuple)) and len(given) == 1):
        return {names[0]: given}
    if isinstance(given, pd.DataFrame) or len(given) != len(names):
        raise ValueError(
            f"{what} must have one entry for each of {len(names)} recordings; got {len(given)}: "
            "pass a list, a dict by name, or intervals with a column 'recording'"
        )
    return dict(zip(names, given, strict=True))


def _without_column(x: Any, name: str, what: str) -> tuple[pd.DataFrame, pd.Series]:
    """Take a column out of a frame."""
    if not isinstance(x, pd.DataFrame):
        raise TypeError(f"{what} is an array without the column {name!r}; pass a frame")
    check_known("column", name, list(x.columns), where=f"{what}: ")
    return x.drop(columns=name), x[name]


def _read(name: Any, x: Any, labels: Any, group: Any, pause: Any) -> Recording:
    """Read values, times, pauses and labels."""
    what = f"recording {name!r}"
    if isinstance(x, pd.DataFrame):
        index, channels = ordered_times(x.index, f"times of {what}"), list(x.columns)
        try:
            values = x.to_numpy(dtype=np.float64, na_value=np.nan).T
        except (TypeError, ValueError) as error:
            text = [each for each in x if getattr(x[each].dtype, "kind", "O") not in "iufb"]
            raise ValueError(
                f"columns {shortened(text)} of {what} are not numbers; drop them, or name one as "
                "labels= or groups="
            ) from error
    else:
        values = np.atleast_2d(x if isinstance(x, np.memmap) else np.asarray(x, np.float64))
        index = pd.RangeIndex(values.shape[-1])
        channels = [*range(len(values))]
    if values.ndim != 2 or not values.size:
        raise ValueError(
            f"{what} must have the shape (channels, steps) and at least one step; got "
            f"{values.shape}. Pass several recordings as a list"
        )
    index = index.to_timestamp() if isinstance(index, pd.PeriodIndex) else index
    ticks = _ticks(index, f"times of {what}")
    apart = np.diff(ticks)
    if (apart < 0).any():
        i = int(np.argmax(apart < 0))
        raise ValueError(
            f"times of {what} run backwards after step {i}, from {index[i]} to {index[i + 1]}; "
            "sort its rows by time, and give local dates their zone with tz_localize"
        )
    if (share := np.mean(apart == 0)) > 0.25:
        raise ValueError(
            f"{share:.0%} of the steps of {what} have the time of the step before; pass several "
            "recordings apart, or step numbers if times are coarse"
        )
    step: Any = np.median(apart[apart > 0]) if (apart > 0).any() else 1
    dates = index.dtype.kind in "mM"
    duration = pd.Timedelta(int(step), "ns") if dates else float(step) if step % 1 else int(step)
    recording = Recording(name, values, index, channels, group, None, [], duration)
    limit = _PAUSE * step
    if is_time(pause) or (dates and pause is not None):
        limit = recording.time(pause, "pause").value
    elif pause is not None:
        check_number("pause", pause, 0, excluded=True)
        limit = pause
    ends = [*(np.flatnonzero(apart > limit) + 1).tolist(), len(index)]
    return replace(recording, ends=ends, labels=_step_labels(labels, index, x, what))


def _ticks(index: pd.Index, what: str) -> npt.NDArray[Any]:
    """Convert times to numbers, dates to nanoseconds in UTC."""
    if isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
        missing, numbers = index.hasnans, index.as_unit("ns").asi8
    elif index.dtype.kind in "iuf":
        numbers = index.to_numpy(np.float64 if index.dtype.kind == "f" else np.int64)
        missing = not np.isfinite(numbers).all()
    else:
        raise ValueError(f"{what} must be numbers or dates; got {index.dtype}")
    if missing:
        raise ValueError(f"{what} have missing values; every step needs a time")
    return numbers


def _step_labels(labels: Any, index: pd.Index, x: Any, what: str) -> Any:
    """Return the label of each step, None for none."""
    if labels is None:
        return None
    if isinstance(labels, pd.DataFrame):
        return _of_intervals(labels, index, what)
    texts = isinstance(labels, (list, tuple))  # NumPy spells None and NaN among text
    given = pd.Series(labels, dtype=object if texts else None)
    if len(given) != len(index):
        raise ValueError(
            f"labels do not cover {what}: it has {len(index)} steps, but {len(given)} labels; pass "
            "one per step, None for unlabelled time, or intervals in a frame"
        )
    named = isinstance(labels, pd.Series) and isinstance(x, pd.DataFrame)
    if named and not isinstance(given.index, pd.RangeIndex) and not given.index.equals(x.index):
        raise ValueError(f"labels of {what} have other times; pass labels.reindex(x.index)")
    values = given.astype(object)
    return values.where(values.notna(), None).to_numpy()


def _of_intervals(frame: pd.DataFrame, index: pd.Index, what: str) -> npt.NDArray[np.object_]:
    """Return the labels of steps from `start` up to, not including, `end`."""
    for column in ("start", "end", "label"):
        if column not in frame:
            raise ValueError("intervals: " + unknown("column", column, list(frame.columns)))
    labels = np.full(len(index), None, dtype=object)
    if frame.empty:
        return labels
    frame = frame.sort_values("start", kind="stable")
    bounds = [
        ordered_times(pd.Index(frame[each]), f"{each} of intervals") for each in ("start", "end")
    ]
    zones = {str(getattr(each, "tz", None) is not None) for each in (index, *bounds)}
    kinds = {
        {"u": "i", "f": "i"}.get(each.dtype.kind, each.dtype.kind) for each in (index, *bounds)
    }
    if len(frame) and (len(zones) > 1 or len(kinds) > 1):
        raise ValueError(
            f"intervals of {what} are from {bounds[0].dtype} to {bounds[1].dtype}, but its times "
            f"are {index.dtype}; convert start and end"
        )
    ticks = _ticks(index, what)
    starts, ends = (_ticks(each, "intervals") for each in bounds)
    for i in range(len(frame)):
        shown = f"[{bounds[0][i]}, {bounds[1][i]})"
        if ends[i] <= starts[i]:
            raise ValueError(f"interval {shown} of {what} ends before it starts")
        if i and starts[i] < ends[i - 1]:
            other = f"[{bounds[0][i - 1]}, {bounds[1][i - 1]})"
            raise ValueError(f"intervals {other} and {shown} of {what} overlap; cut one of them")
        first, stop = np.searchsorted(ticks, [starts[i], ends[i]])
        labels[first:stop] = frame["label"].iloc[i]
    labels[pd.isna(labels)] = None
    if all(label is None for label in labels):
        raise ValueError(
            f"intervals do not cover any step of {what}, which lasts from {index[0]} to "
            f"{index[-1]}; intervals are in its times, or in steps if it has none"
        )
    return labels
