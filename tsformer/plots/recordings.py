"""Figure of a recording with its true and predicted events."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from tsformer._checks import check_known
from tsformer._optional import require
from tsformer.data.windows import Windows
from tsformer.plots.figures import Panels, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Steps of a longer recording are drawn as the least and the greatest value of equal parts.
_MOST_STEPS = 4000


def plot_recording(
    windows: Windows,
    steps: pd.DataFrame,
    recording: Hashable = None,
    *,
    least_duration: Any = 1,
    axes: Sequence[Axes] | None = None,
) -> Figure:
    """Draw a recording above its events: true in grey, predicted coloured by confidence.

    Parameters
    ----------
    windows : Windows
        From `tsformer.data.windows`.
    steps : DataFrame
        The predictions, from ``windows.steps``.
    recording : hashable, optional
        The name of the recording; by default the first.
    least_duration : int or duration, default=1
        As in ``windows.events``.
    axes : sequence of two Axes, optional
        Where to draw the values and the events. By default, a new figure.

    Examples
    --------
    >>> import numpy as np
    >>> from tsformer.data import windows
    >>> cut = windows(np.arange(9.0)[None], ["rest"] * 5 + ["walk"] * 4, 1, 1)
    >>> figure = plot_recording(cut, cut.steps(cut.y))
    >>> [label.get_text() for label in figure.axes[1].get_yticklabels()]
    ['rest', 'walk']
    """
    recording = next(iter(windows.recordings)) if recording is None else recording
    check_known("recording", recording, windows.recordings)
    drawn = windows.recordings[recording]
    steps = steps[steps["recording"] == recording]
    panels = Panels(
        axes, 2, "of values, events", n_columns=1, panel=(9.0, 2.2), around=(0.8, 0.0), sharex=True
    )
    top, bottom = panels.axes
    part = -(-len(drawn.index) // _MOST_STEPS)
    for k, channel in enumerate(drawn.values):
        for start, stop in pairwise([0, *drawn.ends]):  # no line across a pause
            begin = np.arange(start, stop, part)
            ends = [f.reduceat(channel[start:stop], begin - start) for f in (np.fmin, np.fmax)]
            times, values = np.repeat(_positions(drawn.index[begin]), 2), np.ravel(ends, order="F")
            name = None if start else shortened(drawn.channels[k], 20)
            top.plot(times, values, color=f"C{k % 10}", linewidth=0.8, label=name)
    if len(drawn.channels) > 1:
        top.legend(fontsize=8, framealpha=0.8, edgecolor="none", loc="upper right", ncols=4)
    top.set(title=f"recording {shortened(recording)}", ylabel="values")
    true = windows.events(steps, of="true")
    found = windows.events(steps, least_duration)
    labels = sorted({*true["label"], *found["label"]})
    cm = require("matplotlib.cm", extra="plots", purpose="drawing a figure")
    colors = require("matplotlib.colors", extra="plots", purpose="drawing a figure")
    shade = cm.ScalarMappable(colors.Normalize(min([0.5, *found["confidence"]]), 1), "viridis_r")
    for events, above, height in ((true, 0.08, 0.2), (found, -0.38, 0.42)):
        for event in events.itertuples(index=False):
            left, right = _positions(pd.Index([event.start, event.end]))
            color = "0.45" if events is true else shade.to_rgba(event.confidence)
            row = labels.index(event.label) + above
            bottom.broken_barh([(left, right - left)], (row, height), color=color, linewidth=0)
    bottom.set_yticks(range(len(labels)), [shortened(label, 32) for label in labels])
    bottom.set(axisbelow=True, ylim=(-0.6, max(len(labels), 1) - 0.4))
    bottom.set_xlabel("step" if isinstance(drawn.index, pd.RangeIndex) else "time")
    bottom.set_ylabel("true (grey, thin)\nand predicted", fontsize=8)
    if isinstance(drawn.index, pd.DatetimeIndex):
        bottom.xaxis_date(drawn.index.tz)
    bottom.grid(axis="y", alpha=0.2)
    panels.colorbar(shade, "confidence")
    return panels.figure


def _positions(index: pd.Index) -> Any:
    """Return times as matplotlib's numbers, durations in seconds."""
    if isinstance(index, pd.DatetimeIndex):
        dates = require("matplotlib.dates", extra="plots", purpose="drawing a figure")
        return dates.date2num(index.values)  # in UTC
    return index.total_seconds() if isinstance(index, pd.TimedeltaIndex) else index
