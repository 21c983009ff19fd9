"""Progress: what a running comparison tells whoever shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import mean
from time import perf_counter
from typing import Literal

from tsformer.studies.study import Cell
from tsformer.training.callbacks import Callback, TrainingState

__all__ = ["Progress", "ProgressReporter"]


@dataclass(frozen=True)
class Progress:
    """One event of a comparison.

    Attributes
    ----------
    event : {"start", "fit-start", "epoch", "fit-end", "end"}
        What happened. Fits in other processes have a "fit-end" alone.
    total, done, skipped, failed : int
        Fits of the study; of these ended so far, however; found finished from before; raised.
    running : int
        Fits under way, as many as there are workers or fits left for them.
    cell : Cell or None
        The fit; None at "start" and "end".
    epoch, n_epochs : int
        Epochs of this fit, done and planned; 0 before the first.
    loss, accuracy : float or None
        The newest training loss; the test accuracy, at "fit-end".
    error : str
        At "fit-end" of a fit that raised: its message.
    seconds_left : float or None
        Estimate of what remains, None before there is anything to go by.
    """

    event: Literal["start", "fit-start", "epoch", "fit-end", "end"]
    total: int
    done: int
    skipped: int
    failed: int
    running: int = 0
    cell: Cell | None = None
    epoch: int = 0
    n_epochs: int = 0
    loss: float | None = None
    accuracy: float | None = None
    error: str = ""
    seconds_left: float | None = None

    @property
    def fraction(self) -> float:
        """Part of the study that is done, the current fit's epochs included, from 0 to 1."""
        current = self.epoch / self.n_epochs if self.event == "epoch" else 0.0
        return (self.done + current) / self.total


class ProgressReporter(Callback):
    """Counts and clocks fits and tells a listener; as a callback it reports the epochs too.

    Parameters
    ----------
    listener : callable or None
        Called with each Progress.
    cells : list of Cell
        All fits, in order.
    skipped : set of Cell
        Those found finished.
    workers : callable
        Says how many fits can be under way at once.
    """

    def __init__(
        self,
        listener: Callable[[Progress], None] | None,
        cells: list[Cell],
        skipped: set[Cell],
        workers: Callable[[], int] = lambda: 1,
    ):
        self.listener = listener
        self.total = len(cells)
        self.skipped = len(skipped)
        self.workers = workers
        self.failed = 0
        self._waiting = dict.fromkeys(cell for cell in cells if cell not in skipped)
        self._cell: Cell | None = None  # the one under way in this process
        self._begun = 0.0
        self._seconds: dict[str, list[float]] = {}
        self._send("start")

    def fit_start(self, cell: Cell) -> None:
        """Say that a fit begins in this process."""
        self._cell = cell
        self._begun = perf_counter()
        self._send("fit-start", cell)

    def on_epoch_end(self, state: TrainingState) -> None:
        self._send(
            "epoch",
            self._cell,
            part=state.epoch / state.n_epochs,
            epoch=state.epoch,
            n_epochs=state.n_epochs,
            loss=state.history[-1]["loss"],
        )

    def fit_end(
        self, cell: Cell, *, seconds: float, accuracy: float | None = None, error: str = ""
    ) -> None:
        """Say that a fit ended, in this process or another."""
        del self._waiting[cell]
        if error:
            self.failed += 1
        else:  # a fit that raised says nothing about how long fits take
            self._seconds.setdefault(cell.dataset, []).append(seconds)
        self._cell = None
        self._send("fit-end", cell, accuracy=accuracy, error=error)

    def end(self) -> None:
        """Say that the comparison is over."""
        self._send("end")

    def _send(
        self, event: str, cell: Cell | None = None, *, part: float = 0.0, **fields: object
    ) -> None:
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
                cell=cell,
                seconds_left=self._seconds_left(part, max(workers, 1)),
                **fields,  # type: ignore[arg-type]
            )
        )

    def _seconds_left(self, part: float, workers: int) -> float | None:
        """Expect of a fit what fits on its data set took, else what the average fit took."""
        if not self._waiting:
            return 0.0
        all_seconds = [s for seconds in self._seconds.values() for s in seconds]
        elapsed = perf_counter() - self._begun
        if not all_seconds:
            return elapsed / part * len(self._waiting) - elapsed if part else None
        left = sum(mean(self._seconds.get(c.dataset, all_seconds)) for c in self._waiting)
        running = elapsed if self._cell in self._waiting else 0.0
        return max(left - running, 0.0) / min(workers, len(self._waiting))
