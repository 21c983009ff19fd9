"""Windows cut from recordings, and the way back: a label per step, and events."""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from operator import itemgetter
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from tsformer._checks import check_known, check_number
from tsformer.data.recordings import Recording, Run, read_recordings


@dataclass(frozen=True, eq=False, repr=False)
class Windows:
    """Windows of recordings, made by `windows`, and the way back to steps and events.

    Attributes
    ----------
    X, y, groups : ndarray (n, n_channels, length), (n,) and (n,)
        The windows, a list for several sampling rates, their labels or None, and their groups.
    origins : DataFrame
        The ``recording``, first step ``start`` and last step plus one ``stop`` of each window.
    recordings : dict
        The recordings by name, with ``values``, ``index`` and ``labels``.
    """

    X: Any
    y: npt.NDArray[Any] | None
    groups: npt.NDArray[Any]
    origins: pd.DataFrame
    recordings: dict[Hashable, Recording]

    def __len__(self) -> int:
        return len(self.groups)

    def __repr__(self) -> str:
        return f"<{len(self)} windows of {len(self.recordings)} recordings>"

    def __getitem__(self, which: Any) -> "Windows":
        """Return the windows of a slice, a mask or positions."""
        chosen = np.arange(len(self))[which]
        X = [self.X[i] for i in chosen] if isinstance(self.X, list) else self.X[which]
        y = None if self.y is None else self.y[which]
        origins = self.origins.iloc[chosen].reset_index(drop=True)
        recordings = {name: self.recordings[name] for name in origins["recording"].unique()}
        return Windows(X, y, self.groups[which], origins, recordings)

    def train_test(self, test: Sequence[Hashable]) -> tuple["Windows", "Windows"]:
        """Return the windows of all other recordings, and the windows of the recordings `test`."""
        for name in test:
            check_known("recording", name, self.recordings)
        held = self.origins["recording"].isin(list(test)).to_numpy()
        if shared := {*self.groups[held].tolist()} & {*self.groups[~held].tolist()}:
            raise ValueError(f"group {shared.pop()!r} has recordings in train and in test")
        kept = {name: self.recordings[name] for name in test}  # also those without a window
        return self[~held], replace(self[held], recordings=kept)

    def split(self, cv: Any) -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        """Yield the splits of a splitter of scikit-learn, checked by `check_split`."""
        for train, test in cv.split(np.zeros(len(self)), self.y, self.groups):
            self.check_split(train, test)
            yield train, test

    def check_split(self, train: Any, test: Any) -> None:
        """Raise ValueError if windows of `train` and `test`, positions or masks, share a step."""
        seen = {name: np.zeros(len(r.index), bool) for name, r in self.recordings.items()}
        for which, is_test in ((train, False), (test, True)):
            spans = self.origins.iloc[np.arange(len(self))[which]]
            for name, start, stop in spans.itertuples(index=False, name=None):
                if is_test and seen[name][start:stop].any():
                    steps = f"share steps of recording {name!r}, in {start} to {stop - 1}"
                    raise ValueError(f"train and test {steps}; split by group, as in GroupKFold")
                seen[name][start:stop] |= not is_test

    def steps(self, proba: Any, classes: Any = None) -> pd.DataFrame:
        """Return a label and its probability for every step of the recordings.

        Parameters
        ----------
        proba : array-like (n, n_classes) or (n,)
            Probabilities of the windows, or predicted labels.
        classes : array-like (n_classes,), optional
            The label of each column, ``classifier.classes_``. By default, the sorted labels `y`.

        Returns
        -------
        DataFrame
            ``recording``, ``step``, ``time``, ``true``, ``label`` and ``confidence``, the largest
            mean probability over the windows of the step; None and NaN without windows.
        """
        values = np.asarray(proba)
        if values.ndim == 1:
            classes, codes = np.unique(values, return_inverse=True)
            values = np.eye(len(classes))[codes]
        elif classes is None:
            classes = [] if self.y is None else np.unique(self.y)
        if values.shape != (len(self), len(classes)) or not np.isfinite(values).all():
            shape = f"({len(self)} windows, {len(classes)} classes)"
            raise ValueError(f"proba must be finite, {shape}; got {values.shape}; pass classes=")
        labels = np.array([*np.asarray(classes).tolist(), None], dtype=object)
        weighted, K = np.column_stack([values, np.ones(len(values))]), len(classes)
        sums = {name: np.zeros((len(r.index), K + 1)) for name, r in self.recordings.items()}
        spans = self.origins.itertuples(index=False, name=None)
        for row, (name, start, stop) in zip(weighted, spans, strict=True):
            sums[name][start:stop] += row
        frames = []
        for name, recording in self.recordings.items():
            n, mean = sums[name][:, K], sums[name][:, :K] / np.maximum(sums[name][:, K:], 1)
            columns = {
                "recording": [name] * len(n),
                "step": np.arange(len(n)),
                "time": recording.index,
                "true": pd.Series(recording.labels, range(len(n)), dtype=object),
                "label": pd.Series(labels[np.where(n > 0, mean.argmax(axis=1), -1)], dtype=object),
                "confidence": np.where(n > 0, mean.max(axis=1), np.nan),
            }
            frames.append(pd.DataFrame(columns))
        return pd.concat(frames, ignore_index=True)

    def events(
        self, steps: pd.DataFrame, least_duration: Any = 1, of: Literal["label", "true"] = "label"
    ) -> pd.DataFrame:
        """Return the intervals of consecutive steps with one label; `windows` reads them as labels.

        Parameters
        ----------
        steps : DataFrame
            The result of `steps`.
        least_duration : int or duration, default=1
            Shorter events join the longest event that touches them, or are left out if none does.
        of : {"label", "true"}, default="label"
            Predicted or true events.

        Returns
        -------
        DataFrame
            ``recording``, ``start``, ``end`` (the first time after it), ``label``, ``confidence``.
        """
        rows = []
        for name, table in steps.groupby("recording", sort=False):
            recording = self.recordings[name]
            labels, confidence = table[of].to_numpy(), table["confidence"].to_numpy()
            least = recording.n_steps(least_duration, "least_duration")
            for a, b, label in recording.runs(labels, least):
                known = confidence[a:b][labels[a:b] == label].mean() if of == "label" else np.nan
                rows.append((name, recording.index[a], recording.end(b), label, known))
        return pd.DataFrame(rows, columns=["recording", "start", "end", "label", "confidence"])

    def scores(
        self, steps: pd.DataFrame, least_duration: Any = 1, least_iou: float = 0.5
    ) -> dict[str, float]:
        """Score steps and events; only labelled steps count.

        Parameters
        ----------
        steps, least_duration
            As in `events`.
        least_iou : float, default=0.5
            Least intersection over union, in steps, of a predicted and a true event of one label.

        Returns
        -------
        dict
            ``accuracy`` of the steps, where a step that no window reaches is wrong; ``reached``,
            the share of steps with a prediction; ``precision``, ``recall``, ``f1`` of the events.
        """
        check_number("least_iou", least_iou, 0, 1, excluded=True, also=(1,))
        if not (known := steps["true"].notna()).any():
            raise ValueError("steps have no true labels; pass labels to windows")
        steps = steps.assign(label=steps["label"].where(known, None))
        n_hits = n_events = n_true = 0
        for name, table in steps.groupby("recording", sort=False):
            recording, hits = self.recordings[name], dict[Run, Run]()
            least = recording.n_steps(least_duration, "least_duration")
            true, events = recording.runs(table["true"]), recording.runs(table["label"], least)
            shares = []
            for e, t in product(events, true):
                shared = min(e[1], t[1]) - max(e[0], t[0])
                if shared > 0 and e[2] == t[2]:
                    shares.append((shared / (e[1] - e[0] + t[1] - t[0] - shared), e, t))
            for iou, e, t in sorted(shares, key=itemgetter(0), reverse=True):
                if iou >= least_iou and e not in hits and t not in hits.values():
                    hits[e] = t
            n_hits, n_events = n_hits + len(hits), n_events + len(events)
            n_true += len(true)
        return {
            "accuracy": float((steps["true"] == steps["label"])[known].mean()),
            "reached": float(steps["label"][known].notna().mean()),
            "precision": n_hits / max(n_events, 1),
            "recall": n_hits / max(n_true, 1),
            "f1": 2 * n_hits / max(n_events + n_true, 1),
        }


def windows(
    recordings: Any,
    labels: Any,
    length: Any,
    stride: Any,
    *,
    least_share: float = 0.5,
    mixed: Any = "drop",
    unlabelled: Any = "drop",
    pause: Any = None,
    groups: Any = None,
) -> Windows:
    """Cut recordings into windows, with labels, groups and origins.

    Parameters
    ----------
    recordings : array (n_channels, n_steps), frame, or list or dict of these
        One or several, of any lengths. A frame has a row per step, indexed by numbers or dates.
    labels : array-like (n_steps,), str, DataFrame, list or dict of these, or None
        A label per step, None or NaN for no label; the name of a column of the frames; or
        intervals with the columns ``start``, ``end`` (the first time after it), ``label`` and, for
        several recordings, ``recording``, in times or else in steps. None makes windows to predict.
    length, stride : int or duration
        Steps of a window and from one to the next, or times such as "10s" over the median step.
    least_share : float, default=0.5
        The label of a window is its most frequent label, of at least this share of its steps.
    mixed : label, default="drop"
        The label of windows with labels on `least_share` of their steps, but none on so many.
    unlabelled : label, default="drop"
        The label of steps without one. By default, windows with too few labels are left out.
    pause : float or duration, optional
        No window spans a longer time between two steps. By default, five times the median.
    groups : str, array-like (n_recordings,) or dict, optional
        The group of each recording, or the column of the frames with it. By default, the recording.

    Returns
    -------
    Windows
        Float64, as a view for a single array with evenly spaced windows; a memmap stays a memmap.

    Examples
    --------
    >>> import numpy as np
    >>> signal = np.arange(12.0)[None]
    >>> cut = windows(signal, ["rest"] * 6 + ["walk"] * 6, length=4, stride=2)
    >>> cut.X.shape, cut.y.tolist()
    ((4, 1, 4), ['rest', 'rest', 'walk', 'walk'])
    >>> cut.events(cut.steps(cut.y))[["start", "end", "label"]].to_numpy().tolist()
    [[0, 6, 'rest'], [6, 12, 'walk']]
    """
    check_number("least_share", least_share, 0, 1, excluded=True, also=(1,))
    read = read_recordings(recordings, labels, groups, pause, unlabelled)
    spans = sorted(getattr(recording.step, "value", recording.step) for recording in read)
    span = spans[len(spans) // 2] if spans[-1] <= 1.1 * spans[0] else None
    of_steps = [recording.labels for recording in read if recording.labels is not None]
    known = np.concatenate([*of_steps, [] if mixed == "drop" else [mixed]], dtype=object)
    classes = pd.Series(pd.unique(known)).dropna().tolist()
    if len({isinstance(label, str) for label in classes}) > 1:
        raise TypeError(f"labels, mixed= and unlabelled= must be all text or none; got {classes}")
    cuts = []
    for recording in read:
        n = recording.n_steps(length, "length", span)
        first = recording.starts(n, recording.n_steps(stride, "stride", span))
        code = np.zeros(len(first), int)
        if labels is not None:
            code = recording.majority(first, n, classes, least_share, mixed)
        cuts.append((first[code >= 0], n, code[code >= 0]))
    starts, lengths, codes = zip(*cuts, strict=True)
    counts = [len(first) for first in starts]
    if not sum(counts):
        longest = max(np.diff([0, *recording.ends]).max() for recording in read)
        raise ValueError(
            f"no window is left of length={length!r}, {min(lengths)} steps, in recordings of "
            f"{longest} steps between pauses, labelled for least_share={least_share}; arrays are "
            "(channels, steps)"
        )
    names, members = (
        pd.Index([getattr(recording, role) for recording in read], tupleize_cols=False)
        for role in ("name", "group")
    )
    origins = pd.DataFrame({"recording": names.repeat(counts), "start": np.concatenate(starts)})
    origins["stop"] = origins["start"] + np.repeat(lengths, counts)
    cut = zip(read, starts, lengths, strict=True)
    pieces = [recording.views(first, n) for recording, first, n in cut if len(first)]
    X: Any = pieces[0]
    if len({piece.shape[2] for piece in pieces}) > 1:
        X = [x for piece in pieces for x in piece]
    elif len(pieces) > 1:
        X = np.concatenate(pieces, dtype=np.float64)
    y = None if labels is None else np.array(classes)[np.concatenate(codes)]
    groups = members.repeat(counts).to_numpy()
    return Windows(X, y, groups, origins, {recording.name: recording for recording in read})
