"""Progress: the events that a running comparison reports."""

import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from time import monotonic
from typing import Any, Literal

from tsformer.studies.design.study import Trial
from tsformer.training.training_run import Callback, TrainingState


@dataclass(frozen=True)
class Progress:
    """One event of a comparison.

    Attributes
    ----------
    event : {"start", "fit-start", "epoch", "fit-end", "end"}
        What happened. Fits in other processes report no epochs, and with several of them no start.
    total, done, skipped, failed, running : int
        Numbers of fits: in the study, ended, of earlier calls, that raised, and under way.
    trial : Trial or None
        The fit; None at "start" and "end".
    epoch, n_epochs : int
        Completed and planned epochs of this fit.
    loss, accuracy, error : float, float, str
        The latest training loss; at "fit-end", the test accuracy or the message of an error.
    """

    event: Literal["start", "fit-start", "epoch", "fit-end", "end"]
    total: int
    done: int
    skipped: int
    failed: int
    running: int = 0
    trial: Trial | None = None
    epoch: int = 0
    n_epochs: int = 0
    loss: float | None = None
    accuracy: float | None = None
    error: str = ""

    @property
    def fraction(self) -> float:
        """Completed fraction of the study from 0 to 1, including epochs of the current fit."""
        current = self.epoch / self.n_epochs if self.event == "epoch" else 0.0
        return (self.done + current) / self.total


class ProgressLines:
    """A listener that prints each fit on standard error, with the time left."""

    def __call__(self, progress: Progress) -> None:
        if progress.event == "start":  # also of each round within a budget
            self._begun = monotonic(), progress.done
        if progress.event != "fit-end":
            return
        start, before = self._begun
        left = (monotonic() - start) / (progress.done - before) * (progress.total - progress.done)
        result = " ".join(progress.error.split()) or f"accuracy {progress.accuracy:.3f}"
        line = f"{progress.done}/{progress.total}  {progress.trial}  {result}"
        with suppress(BrokenPipeError, ValueError):  # the pipe or the file is closed
            print(f"{line}  {timedelta(seconds=round(left))} left", file=sys.stderr, flush=True)


def listener_of(
    verbose: int | bool | None, on_progress: Callable[[Progress], None] | None
) -> Callable[[Progress], None] | None:
    """Return who hears of progress: by default, lines on a terminal."""
    if verbose is None:
        verbose = on_progress is None and sys.stderr.isatty()
    if verbose and on_progress is not None:
        raise ValueError("verbose prints progress and on_progress receives it; give only one")
    return ProgressLines() if verbose else on_progress


@dataclass(eq=False)
class ProgressReporter(Callback):
    """Counts fits and notifies a listener; as a callback it also reports epochs."""

    listener: Callable[[Progress], None] | None
    trials: Collection[Trial]
    skipped: Collection[Trial]
    workers: Callable[[], int] = lambda: 1
    failed: int = field(default=0, init=False)
    current: Trial | None = field(default=None, init=False)  # the one running in this process

    def __post_init__(self) -> None:
        self.waiting = set(self.trials) - set(self.skipped)
        self.send("start")

    def send(self, event: Any, trial: Trial | None = None, **fields: Any) -> None:
        """Report the start or end of a fit, in this process or another, or of all fits."""
        if event == "fit-start":
            self.current = trial
        if event == "fit-end" and trial is not None:
            self.waiting.discard(trial)
            self.failed += bool(fields["error"])
        if self.listener is not None:
            total, left = len(self.trials), len(self.waiting)
            counts = (total, total - left, len(self.skipped), self.failed)
            running = min(self.workers(), left)
            self.listener(Progress(event, *counts, running=running, trial=trial, **fields))

    def on_epoch_end(self, state: TrainingState) -> None:
        counts = {"epoch": state.epoch, "n_epochs": state.n_epochs}
        self.send("epoch", self.current, **counts, loss=state.history[-1]["loss"])
