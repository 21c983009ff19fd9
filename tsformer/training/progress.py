"""ProgressBar: the callback that shows progress."""

import sys
from contextlib import suppress
from datetime import timedelta
from math import inf
from time import monotonic
from typing import Any

from tsformer._optional import require
from tsformer.training.training_run import Callback, TrainingState

#: Least seconds between progress lines without a terminal.
SECONDS_BETWEEN_LINES = 5.0
#: Seconds of a fit without `verbose`, after which a terminal says that there is one.
SECONDS_WITHOUT_WORD = 30.0


def note(text: str) -> None:
    """Print a line on standard error, unless it is closed."""
    with suppress(BrokenPipeError, ValueError):
        print(text, file=sys.stderr, flush=True)


class ProgressBar(Callback):
    """Progress on standard error: epochs done, time left, latest loss and score.

    Shows a bar in a terminal if rich is installed, otherwise a line every few seconds.

    Parameters
    ----------
    name : str, default=""
        Name of the training run, before the loss.
    """

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._display: _Bar | _Lines | None = None

    def on_train_begin(self, state: TrainingState) -> None:
        console = _terminal()
        self._display = _Lines(state.epoch) if console is None else _Bar(console)
        self._display.update(state.epoch, state.n_epochs, self._name)

    def on_epoch_end(self, state: TrainingState) -> None:
        row = state.history[-1]
        losses = [f"{k} {row[k]:.4f}" for k in ("loss", "val_loss", "val_score") if k in row]
        assert self._display is not None
        text = "  ".join([self._name, *losses] if self._name else losses)
        self._display.update(state.epoch, state.n_epochs, text)

    def on_train_end(self, state: TrainingState) -> None:
        if self._display is not None:
            self._display.close()
        self._display = None  # a live display cannot be copied or pickled


class ProgressHint(Callback):
    """Say on a terminal that `verbose` shows progress, once, of a fit that takes long."""

    said = False

    def on_train_begin(self, state: TrainingState) -> None:
        self._begun = monotonic()

    def on_epoch_end(self, state: TrainingState) -> None:
        late = monotonic() - self._begun > SECONDS_WITHOUT_WORD and state.epoch < state.n_epochs
        if late and not ProgressHint.said and _terminal() is not None:
            ProgressHint.said = True
            note("fit goes on; verbose=1 shows progress")


def _rich(module: str) -> Any:
    return require(f"rich.{module}", extra="cli", purpose="a progress bar")


def _terminal() -> Any:
    """Return a console for a bar on standard error, or None."""
    try:
        console = _rich("console").Console(stderr=True)
    except ImportError:
        return None
    return console if console.is_terminal or console.is_jupyter else None


class _Bar:
    """A progress bar, by rich."""

    def __init__(self, console: Any) -> None:
        progress = _rich("progress")
        last = progress.TextColumn("{task.description}")
        columns = (progress.BarColumn(), progress.TimeRemainingColumn(), last)
        counts = ("epoch", progress.MofNCompleteColumn())
        self._progress = progress.Progress(*counts, *columns, console=console)
        self._task = self._progress.add_task("", total=None)
        self._progress.start()

    def update(self, done: int, total: int, text: str) -> None:
        self._progress.update(self._task, completed=done, total=total, description=text)

    def close(self) -> None:
        self._progress.stop()


class _Lines:
    """Progress lines: the first, the last, and at most one every few seconds."""

    def __init__(self, done: int) -> None:
        self._line = ""  # not printed yet
        self._printed, self._start, self._before = -inf, monotonic(), done

    def update(self, done: int, total: int, text: str) -> None:
        now, left = monotonic(), ""
        if done > self._before:
            seconds = (now - self._start) / (done - self._before) * (total - done)
            left = f"{timedelta(seconds=round(seconds))} left"
        self._line = "  ".join(filter(None, [f"epoch {done}/{total}", text, left]))
        if now - self._printed >= SECONDS_BETWEEN_LINES:
            self.close()
            self._printed = now

    def close(self) -> None:
        """Print the newest line, unless it was printed."""
        if self._line:
            note(self._line)
        self._line = ""
