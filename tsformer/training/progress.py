"""ProgressBar: the callback that shows progress."""

import sys
from contextlib import suppress
from datetime import timedelta
from math import inf
from time import monotonic

from tsformer.training.training_run import Callback, TrainingState

SECONDS_BETWEEN_LINES = 5.0  # at least, of progress
SECONDS_WITHOUT_WORD = 30.0  # of a fit without `verbose`, until a terminal hints at it


def note(text: str) -> None:
    """Print a line on standard error; a fit outlives a closed pipe."""
    with suppress(BrokenPipeError, ValueError):
        print(text, file=sys.stderr, flush=True)


class ProgressBar(Callback):
    """Progress on standard error: epochs done, latest loss and score, time left.

    Shows the first and the last line, and at most one every few seconds, after the run's `name`.
    """

    def __init__(self, name: str = "") -> None:
        self._name, self._line = name, ""

    def on_train_begin(self, state: TrainingState) -> None:
        self._printed, self._begun, self._before = -inf, monotonic(), state.epoch
        self._show(state, [self._name])

    def on_epoch_end(self, state: TrainingState) -> None:
        row, seconds = state.history[-1], monotonic() - self._begun
        losses = [f"{k} {row[k]:.4f}" for k in ("loss", "val_loss", "val_score") if k in row]
        left = seconds / (state.epoch - self._before) * (state.n_epochs - state.epoch)
        self._show(state, [self._name, *losses, f"{timedelta(seconds=round(left))} left"])

    def on_train_end(self, state: TrainingState) -> None:
        if self._line:
            note(self._line)
        self._line = ""

    def _show(self, state: TrainingState, words: list[str]) -> None:
        """Print a line if the last is old enough, or keep it for the end."""
        self._line = "  ".join(filter(None, [f"epoch {state.epoch}/{state.n_epochs}", *words]))
        if monotonic() - self._printed >= SECONDS_BETWEEN_LINES:
            self.on_train_end(state)
            self._printed = monotonic()


class ProgressHint(Callback):
    """Hint on a terminal that `verbose` shows progress: once, in a long fit."""

    shown = False

    def on_train_begin(self, state: TrainingState) -> None:
        self._begun = monotonic()

    def on_epoch_end(self, state: TrainingState) -> None:
        late = monotonic() - self._begun > SECONDS_WITHOUT_WORD and state.epoch < state.n_epochs
        if late and not ProgressHint.shown and sys.stderr.isatty():
            ProgressHint.shown = True
            note("fit continues; verbose=1 shows progress")
