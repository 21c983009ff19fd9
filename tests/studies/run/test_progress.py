"""How much time is left, by a clock that is set by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tsformer.studies import Progress
from tsformer.studies.design.study import Trial
from tsformer.studies.run import progress

EPOCHS = 5


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    time = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "perf_counter", lambda: time.now)
    return time


def test_the_first_epoch_of_a_study_is_no_basis_for_an_estimate(clock: SimpleNamespace) -> None:
    """It takes seconds more than the others, in which libraries are loaded."""
    events: list[Progress] = []
    trials = [Trial("a", "none", seed) for seed in range(4)]
    reporter = progress.ProgressReporter(events.append, trials, set())
    reporter.fit_start(trials[0])
    history = []
    for seconds in (30.0, 1.0, 1.0, 1.0, 1.0):
        clock.now += seconds
        history.append({"loss": 1.0})
        state = SimpleNamespace(epoch=len(history), n_epochs=EPOCHS, history=history)
        reporter.on_epoch_end(state)  # type: ignore[arg-type]
    said = [event.seconds_left for event in events if event.event == "epoch"]
    assert said[0] is None
    assert said[1:] == pytest.approx([18.0, 17.0, 16.0, 15.0])  # a second an epoch


def test_later_fits_are_estimated_from_those_that_have_ended(clock: SimpleNamespace) -> None:
    events: list[Progress] = []
    trials = [Trial(name, "none", seed) for name in ("a", "b") for seed in range(2)]
    reporter = progress.ProgressReporter(events.append, trials, set())
    for trial, seconds in zip(trials[:3], (6.0, 8.0, 1.0), strict=True):
        reporter.fit_start(trial)
        clock.now += seconds
        reporter.fit_end(trial, seconds=seconds)
    ended = [event.seconds_left for event in events if event.event == "fit-end"]
    assert ended == [18.0, 14.0, 1.0]  # another problem takes the mean until one of it has ended
