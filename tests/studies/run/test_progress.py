"""How much time is left, by a clock that is set by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tsformer.studies import Progress
from tsformer.studies.design.study import Trial
from tsformer.studies.run import progress


@pytest.fixture
def clock(monkeypatch):
    time = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "perf_counter", lambda: time.now)
    return time


def test_later_fits_are_estimated_from_those_that_have_ended(clock):
    events: list[Progress] = []
    trials = [Trial(name, "none", seed) for name in ("a", "b") for seed in range(2)]
    reporter = progress.ProgressReporter(events.append, trials, set())
    for trial, seconds in zip(trials[:3], (6.0, 8.0, 1.0), strict=True):
        reporter.fit_start(trial)
        clock.now += seconds
        reporter.fit_end(trial, seconds=seconds)
    ended = [event.seconds_left for event in events if event.event == "fit-end"]
    assert ended == [18.0, 14.0, 1.0]  # another problem takes the mean until one of it has ended
