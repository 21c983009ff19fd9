"""Cheaper studies for tests that look at rows and runs only."""

from __future__ import annotations

import pytest

from tsformer.studies.run.executors import Workers
from tsformer.studies.run.worker import run_task
from tsformer.tracking import TrackedRun


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Log no figures, which take longer than a small fit; test_compare.py looks at them."""
    monkeypatch.setattr(TrackedRun, "figure", lambda *args, **options: None)
    monkeypatch.setattr("tsformer.studies.run.finalize.copy_picture", lambda *args: None)


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch, no_figures: None) -> None:
    """Write no report either."""
    monkeypatch.setattr("tsformer.studies.run.finalize._report", lambda *args: None)


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit methods of other libraries in this process: a worker imports for ten seconds."""
    monkeypatch.setattr(Workers, "run", lambda self, tasks: map(run_task, tasks))
