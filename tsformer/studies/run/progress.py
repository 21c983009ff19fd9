"""Progress: the events that a running comparison reports."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from time import perf_counter
from typing import Literal

from tsformer.studies.design.study import Trial
from tsformer.training.run import Callback, TrainingState


@dataclass(frozen=True)
class Progress:
    """One event of a comparison.

    Attributes
    ----------
    event : {"start", "fit-start", "epoch", "fit-end", "end"}
        What happened. Fits in other processes report no epochs, and with several of them no start.
    total, done, skipped, failed : int
        Number of fits in the study, ended fits, fits of earlier calls, and fits that raised.
    running : int
        Number of fits under way: the smaller of workers and remaining fits.
    trial : Trial or None
        The fit; None at "start" and "end".
    epoch, n_epochs : int
        Completed and planned epochs of this fit; 0 before the first.
    loss, accuracy : float or None
        The latest training loss; the test accuracy, at "fit-end".
    error : str
        The message of a fit that raised, at "fit-end".
    seconds_left : float or None
        Estimated time remaining; None until the first fit has ended.
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
    seconds_left: float | None = None

    @property
    def fraction(self) -> float:
        """Completed fraction of the study from 0 to 1, including epochs of the current fit."""
        current = self.epoch / self.n_epochs if self.event == "epoch" else 0.0
        return (self.done + current) / self.total


class ProgressReporter(Callback):
    """Counts and times fits and notifies a listener; as a callback it also reports epochs."""

    def __init__(
        self,
        listener: Callable[[Progress], None] | None,
        trials: list[Trial],
        skipped: set[Trial],
        workers: Callable[[], int] = lambda: 1,
    ):
        self.listener = listener
        self.total = len(trials)
        self.skipped = len(skipped)
        self.workers = workers
        self.failed = 0
        self._waiting = dict.fromkeys(trial for trial in trials if trial not in skipped)
        self._trial: Trial | None = None  # the one running in this process
        self._begun = 0.0
        self._seconds: dict[str, list[float]] = {}
        self._all_left: float | None = None  # of all that waits, until a fit ends
        self._send("start")

    def fit_start(self, trial: Trial) -> None:
        """Report that a fit begins in this process."""
        self._trial = trial
        self._begun = perf_counter()
        self._send("fit-start", trial)

    def on_epoch_end(self, state: TrainingState) -> None:
        counts = {"epoch": state.epoch, "n_epochs": state.n_epochs}
        self._send("epoch", self._trial, **counts, loss=state.history[-1]["loss"])

    def fit_end(
        self, trial: Trial, *, seconds: float, accuracy: float | None = None, error: str = ""
    ) -> None:
        """Report that a fit ended, in this process or another."""
        del self._waiting[trial]
        if error:
            self.failed += 1
        elif seconds:  # neither a fit that raised nor one read back is a basis for an estimate
            self._seconds.setdefault(trial.dataset, []).append(seconds)
        self._all_left = None
        self._trial = None
        self._send("fit-end", trial, accuracy=accuracy, error=error)

    def end(self) -> None:
        """Report that the comparison is over."""
        self._send("end")

    def _send(self, event: str, trial: Trial | None = None, **fields: object) -> None:
        if self.listener is None:
            return
        workers = self.workers()
        self.listener(
            Progress(
                event,  # type: ignore[arg-type]
                total=self.total,
                done=self.total - len(self._waiting),
                skipped=self.skipped,
                failed=self.failed,
                running=min(workers, len(self._waiting)),
                trial=trial,
                seconds_left=self._seconds_left(max(workers, 1)),
                **fields,  # type: ignore[arg-type]
            )
        )

    def _seconds_left(self, workers: int) -> float | None:
        """Estimate from earlier fits on the same data set, else from the average fit."""
        if not self._waiting:
            return 0.0
        if not self._seconds:
            return None
        if self._all_left is None:  # once a fit: an epoch may be faster than the sum
            usual = fmean(s for seconds in self._seconds.values() for s in seconds)
            means = {dataset: fmean(seconds) for dataset, seconds in self._seconds.items()}
            self._all_left = sum(means.get(trial.dataset, usual) for trial in self._waiting)
        running = perf_counter() - self._begun if self._trial in self._waiting else 0.0
        return max(self._all_left - running, 0.0) / min(workers, len(self._waiting))
