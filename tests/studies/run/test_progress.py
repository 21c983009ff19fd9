"""Progress of a comparison as lines, where a terminal shows it."""

import sys

import pytest

from tsformer.studies import Progress
from tsformer.studies.design.study import Trial
from tsformer.studies.run.events import ProgressLines, listener_of


def test_a_line_for_each_fit_with_the_time_left(capsys, monkeypatch):
    clock = iter([0.0, 60.0, 120.0, 200.0, 210.0])
    monkeypatch.setattr("tsformer.studies.run.events.monotonic", lambda: next(clock))
    show, trial = ProgressLines(), Trial("GunPoint", "lspe", 4)
    show(Progress("start", 5, 1, 1, 0))
    show(Progress("fit-end", 5, 2, 1, 0, trial=trial, accuracy=0.5))
    show(Progress("fit-end", 5, 3, 1, 1, trial=trial, error="no\n luck"))
    show(Progress("start", 2, 0, 0, 0))  # the next round within a budget
    show(Progress("fit-end", 2, 1, 0, 0, trial=trial, accuracy=0.5))
    assert capsys.readouterr().err.splitlines() == [
        "2/5  GunPoint  lspe  4  accuracy 0.500  0:03:00 left",
        "3/5  GunPoint  lspe  4  no luck  0:02:00 left",
        "1/2  GunPoint  lspe  4  accuracy 0.500  0:00:10 left",
    ]


@pytest.mark.parametrize(
    ("verbose", "terminal", "shown"),
    [(None, True, True), (None, False, False), (0, True, False), (1, False, True)],
)
def test_progress_is_shown_on_a_terminal_or_on_demand(verbose, terminal, shown, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    assert isinstance(listener_of(verbose, None), ProgressLines) == shown
    assert listener_of(None, print) is print
    with pytest.raises(ValueError):
        listener_of(1, print)
