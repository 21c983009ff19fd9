"""Recordings: values, times, pauses, and a label for every step."""

import datetime
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known, check_number, shortened
from tsformer.data.containers import as_channels
from tsformer.data.native import native_item
from tsformer.data.times import instants

TIME = (str, datetime.timedelta, np.timedelta64)
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

    def n_steps(self, duration: Any, name: str, step: int | None = None) -> int:
        """Return a number of steps, given as such or as a time."""
        if not isinstance(duration, TIME):
            check_number(name, duration, 1, whole=True)
            return int(duration)
        n = round(self.time(duration, name).value / (step or self.step.value))
        if n < 1:
            raise ValueError(f"{name}={duration!r} is less than one step of {self.step}")
        return n

    def time(self, duration: Any, name: str) -> pd.Timedelta:
        """Convert a duration to a Timedelta."""
        dated = self.index.dtype.kind in "mM" and isinstance(duration, TIME)
        try:
            return pd.Timedelta(duration if dated else "no time").as_unit("ns")
        except ValueError as error:
            kinds = f"a time such as '10s' if recording {self.name!r} has dates, else a number"
            raise ValueError(f"{name}={duration!r} must be {kinds}") from error

    def starts(self, length: int, stride: int) -> npt.NDArray[np.int64]:
        """Return the first steps of the windows between pauses."""
        segments = pairwise([0, *self.ends])
        return np.concatenate([np.arange(a, b - length + 1, stride) for a, b in segments])

    def views(self, starts: npt.NDArray[np.int64], length: int) -> npt.NDArray[Any]:
        """Return windows `[n, C, length]`, a view if they are evenly spaced."""
        view = np.lib.stride_tricks.sliding_window_view(self.values, length, axis=1, subok=True)
        apart = int(np.diff(starts[:2]).sum()) or 1
        even = (np.diff(starts) == apart).all()
        return view.transpose(1, 0, 2)[slice(starts[0], starts[-1] + 1, apart) if even else starts]

    def majority(
        self, starts: Any, length: int, classes: list[Any], least_share: float, mixed: Any
    ) -> npt.NDArray[np.int64]:
        """Return the class of each window, -1 to leave it out."""
        codes = pd.Index(classes, dtype=object).get_indexer(self.labels)
        counts = np.zeros((len(classes), len(starts)), int)
        for k, row in enumerate(counts):
            before = np.append(0, np.cumsum(codes == k))
            row[:] = before[starts + length] - before[starts]
        top, least = counts.max(axis=0, initial=0), least_share * length
        clear = (top >= least) & ((counts == top).sum(axis=0) == 1)
        best = np.vstack([counts, top]).argmax(axis=0)  # also of no class
        several = -1 if mixed == "drop" else classes.index(mixed)
        return np.where(clear, best, np.where(counts.sum(axis=0) >= least, several, -1))

    def end(self, stop: int) -> Any:
        """Return the time at which step `stop - 1` ends."""
        return self.index[stop - 1] + self.step if stop in self.ends else self.index[stop]

    def runs(self, labels: Any, least: int = 1) -> list[Run]:
        """Return runs of one label; short runs join the longest run that touches them."""
        codes, names = pd.factorize(np.asarray(labels, dtype=object))
        while True:
            cuts = sorted({0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), *self.ends})
            runs = [(b - a, a, b) for a, b in pairwise(cuts) if codes[a] >= 0]
            length, start, stop = min(runs, default=(least, 0, 0))
            if length >= least:
                return [(a, b, names[codes[a]]) for _, a, b in runs]
            free = {start, stop}.difference(self.ends)
            beside = [run for run in runs if run[2] == start in free or run[1] == stop in free]
            codes[start:stop] = codes[max(beside, key=itemgetter(0))[1]] if beside else -1


def read_recordings(
    recordings: Any, labels: Any, groups: Any, pause: Any, unlabelled: Any
) -> list[Recording]:
    """Read recordings with their labels and groups."""
    if recordings is None or not len(recordings):
        raise ValueError("recordings is empty; pass at least one recording")
    items = {0: recordings}
    if isinstance(recordings, Mapping):
        items = dict(recordings)
    elif isinstance(recordings, (list, tuple)) and any(map(np.ndim, recordings)):
        items = dict(enumerate(recordings))
    label_of = _by_recording(labels, items, recordings, "labels")
    names = {name: name for name in items} if groups is None else groups
    group_of = _by_recording(names, items, recordings, "groups")
    read: list[Recording] = []
    for name, item in items.items():
        title = f"recording {name!r}"
        x: Any = item if isinstance(item, np.memmap) else native_item(item, title)
        x = x.to_frame() if isinstance(x, pd.Series) else x
        roles = {"labels": label_of[name], "groups": group_of[name]}
        for role, column in (("labels", labels), ("groups", groups)):
            if isinstance(column, str):
                if not isinstance(x, pd.DataFrame):
                    raise TypeError(f"{role}: {title} is an array without columns; pass a frame")
                check_known("column", column, list(x.columns), where=f"{role}: {title}: ")
                roles[role], x = x[column], x.drop(columns=column)
        if isinstance(groups, str):
            roles["groups"], *more_groups = roles["groups"].unique()
            if more_groups:
                raise ValueError(f"{title} has several groups; pass a recording per group")
        recording = _read(name, x, roles["groups"], pause)
        if labels is not None:
            steps: Any = _step_labels(roles["labels"], recording.index, x, title)
            steps[pd.isna(steps)] = None if unlabelled == "drop" else unlabelled
            recording = replace(recording, labels=steps)
        read.append(recording)
        if recording.channels != read[0].channels:
            kinds = shortened([recording.channels, read[0].channels])
            raise ValueError(f"{title} and the first differ in channels: {kinds}; pass the same")
    return read


def _by_recording(values: Any, items: dict[Any, Any], recordings: Any, role: str) -> Any:
    """Assign labels or groups to recordings."""
    if values is None or isinstance(values, str):
        return dict.fromkeys(items, values)
    if isinstance(values, pd.DataFrame) and "recording" in values:
        for name in values["recording"].unique():
            check_known("recording", name, items, where=f"{role}: ")
        return {name: values[values["recording"] == name] for name in items}
    if not isinstance(values, Mapping):
        single = items.get(0) is recordings
        if single and not (isinstance(values, (list, tuple)) and len(values) < 2):
            values = [values]
        if isinstance(values, pd.DataFrame) or len(values) != len(items):
            raise ValueError(f"{role} must have an entry for each of {len(items)} recordings")
        values = dict(zip(items, values, strict=True))
    if missing := [name for name in items if name not in values]:
        raise ValueError(f"{role} have no entry for recording {missing[0]!r}; add one")
    return values


def _read(name: Any, x: Any, group: Any, pause: Any) -> Recording:
    """Read values, times and pauses."""
    title = f"recording {name!r}"
    values: Any = as_channels(x, title)
    values = values if isinstance(x, np.memmap) else values.astype(np.float64, copy=False)
    index, channels = pd.Index(range(values.shape[1])), [*range(len(values))]
    if isinstance(x, pd.DataFrame):
        index, channels = instants(x.index, f"times of {title}"), list(x.columns)
    if not values.size:
        raise ValueError(f"{title} is empty; leave it out")
    apart = np.diff(index.to_numpy(np.float64 if index.dtype.kind == "f" else np.int64))
    if (apart < 0).any() or (apart == 0).sum() > 0.25 * len(apart):
        i = int(np.argmin(apart))
        raise ValueError(
            f"times of {title} must increase; after step {i}, {index[i]} is followed by "
            f"{index[i + 1]}: sort it, pass several apart, and local dates with tz_localize"
        )
    dates = index.dtype.kind in "mM"
    step = np.median(apart[apart > 0]).item() if (apart > 0).any() else 1
    step = int(step) if dates or not step % 1 else step
    duration = pd.Timedelta(step, "ns") if dates else step
    recording = Recording(name, values, index, channels, group, None, [], duration)
    limit = 5 * step if pause is None else pause
    if pause is not None and (dates or isinstance(pause, TIME)):
        limit = recording.time(pause, "pause").value
    check_number("pause", limit, 0, excluded=True)
    return replace(recording, ends=[*(np.flatnonzero(apart > limit) + 1).tolist(), len(index)])


def _step_labels(labels: Any, index: pd.Index, x: Any, title: str) -> npt.NDArray[Any]:
    """Return the label of each step of the recording `x`."""
    if isinstance(labels, pd.DataFrame) and not labels.empty:
        return _of_intervals(labels, index, title)
    if labels is None or isinstance(labels, pd.DataFrame):
        return np.full(len(index), None)
    texts = isinstance(labels, (list, tuple))  # NumPy spells None and NaN among text
    column = pd.Series(labels, dtype=object if texts else None)
    timed = isinstance(labels, pd.Series) and not isinstance(labels.index, pd.RangeIndex)
    moved = timed and isinstance(x, pd.DataFrame) and not labels.index.equals(x.index)
    if len(column) != len(index) or moved:
        raise ValueError(
            f"{title} has {len(index)} steps; pass a label or None for each, at its time, or "
            f"intervals; got {len(column)} labels{' at other times' if moved else ''}"
        )
    return column.to_numpy(object, copy=True)


def _of_intervals(frame: pd.DataFrame, index: pd.Index, title: str) -> npt.NDArray[Any]:
    """Return the labels of steps from `start` up to, not including, `end`."""
    for column in ("start", "end", "label"):
        check_known("column", column, list(frame.columns), where="intervals: ")
    bounds: Any = [instants(pd.Index(frame[c]), f"{c} of intervals") for c in ("start", "end")]
    start, end, steps = (
        times.tz_convert("UTC") if getattr(times, "tz", None) is not None else times
        for times in (*bounds, index)
    )
    try:
        intervals = pd.IntervalIndex.from_arrays(start, end, closed="left")
    except (ValueError, TypeError) as error:
        raise ValueError(f"intervals of {title}, from start to end: {error}") from error
    if intervals.is_overlapping:
        raise ValueError(f"intervals of {title} overlap; cut them")
    labels: Any = np.array([*frame["label"], None], dtype=object)[intervals.get_indexer(steps)]
    if pd.isna(labels).all():
        raise ValueError(f"intervals miss all steps of {title}, {index[0]} to {index[-1]}")
    return labels
