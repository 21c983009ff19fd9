"""The picture of a recording shows its values, pauses, and true and predicted events."""

import numpy as np
import pandas as pd
import pytest
from picture_checks import assert_legible, assert_readable, panels, y_labels

from tsformer.data import windows
from tsformer.plots import plot_recording

pytest.importorskip("matplotlib.figure", reason='needs the extra "plots"')

SECONDS = pd.to_timedelta([*range(30), *range(60, 90)], unit="s")
INDICES = {
    "dates": (pd.Timestamp("2024-10-27 00:59:30", tz="UTC") + SECONDS).tz_convert("Europe/Berlin"),
    "durations": SECONDS,
    "steps": None,
}


@pytest.mark.parametrize("kind", INDICES)
def test_bars_are_the_events(kind):
    values = np.arange(120.0).reshape(2, 60)
    index = INDICES[kind]
    x = values if index is None else pd.DataFrame(values.T, index, ["left", "right"])
    labels = np.array(["rest"] * 15 + ["walk"] * 45, dtype=object)
    cut = windows({"anna": x}, {"anna": labels}, 1, 1)
    predicted = np.where(np.arange(60) < 20, "rest", "run")
    figure = plot_recording(cut, cut.steps(predicted), "anna")
    assert_readable(figure)
    assert_legible(figure)
    top, bottom = panels(figure)
    assert y_labels(bottom) == ["rest", "run", "walk"]
    found = [bar.get_paths()[0].get_extents() for bar in bottom.collections]
    unit = (found[0].x1 - found[0].x0) / 15
    pauses = [] if index is None else [(30, 60)]
    true = [(0, 15), (15, 60)] if not pauses else [(0, 15), (15, 30), (60, 90)]
    answers = [(0, 20), (20, 60)] if not pauses else [(0, 20), (20, 30), (60, 90)]
    bars = [tuple((np.array([b.x0, b.x1]) - found[0].x0) / unit) for b in found]
    np.testing.assert_allclose(bars, [*true, *answers], atol=1e-3)
    drawn = [line.get_ydata() for line in top.lines]
    np.testing.assert_array_equal(np.concatenate(drawn)[::2], values.ravel())
    assert len(drawn) == 2 * (1 + len(pauses))


def test_peaks_of_a_long_recording_are_drawn():
    values = np.zeros((1, 100_000))
    values[0, 54_321] = 7
    cut = windows(values, None, 100, 100)
    figure = plot_recording(cut, cut.steps(np.repeat("a", len(cut))))
    (line,) = panels(figure)[0].lines
    assert line.get_ydata().max() == 7
    assert len(line.get_ydata()) <= 8000
