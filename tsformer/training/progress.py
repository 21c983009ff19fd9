"""ProgressBar: the callback that shows progress."""

import sys
from contextlib import suppress
from datetime import timedelta
from math import inf
from time import monotonic
from typing import Any

from tsformer._optional import require
from tsformer.training.run import Callback, TrainingState

#: Least seconds between progress lines without a terminal.
SECONDS_BETWEEN_LINES = 5.0


class ProgressBar(Callback):
    """Progress on standard error: epochs done, time left, latest loss and score.

    Shows a bar in a terminal if rich is installed, otherwise a line every few seconds.
    """

    def __init__(self) -> None:
        self._display: _Bar | _Lines | None = None

    def on_train_begin(self, state: TrainingState) -> None:
        self._open(state.n_epochs, state.epoch)

    def on_epoch_end(self, state: TrainingState) -> None:
        self._show(state.epoch, state.history[-1])

    def on_train_end(self, state: TrainingState) -> None:
        self._close()

    def _open(self, total: int | None, done: int = 0, text: str = "") -> None:
        console = _terminal()
        self._display = _Lines() if console is None else _Bar(console)
        self._update(done, total, text)

    def _update(self, done: int, total: int | None, text: str) -> None:
        assert self._display is not None
        self._display.update(done, total, text)

    def _show(self, epoch: int, row: dict[str, float], prefix: str = "") -> None:
        text = f"{prefix}loss {row['loss']:.4f}"
        if "val_score" in row:
            text += f"  val_loss {row['val_loss']:.4f}  val_score {row['val_score']:.4f}"
        assert self._display is not None
        self._update(epoch, self._display.total, text)

    def _close(self) -> None:
        if self._display is not None:
            self._display.close()
        self._display = None  # a live display cannot be copied or pickled


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
        self.total: int | None = None
        self._progress = progress.Progress(
            progress.TextColumn("epoch"),
            progress.MofNCompleteColumn(),
            progress.BarColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.description}"),
            console=console,
        )
        self._task = self._progress.add_task("", total=None)
        self._progress.start()

    def update(self, done: int, total: int | None, text: str) -> None:
        self.total = total
        self._progress.update(self._task, completed=done, total=total, description=text)

    def close(self) -> None:
        self._progress.stop()


class _Lines:
    """Progress lines: the first, the last, and at most one every few seconds."""

    def __init__(self) -> None:
        self.total: int | None = None
        self._line = ""  # not printed yet
        self._printed = -inf
        self._begun: tuple[float, int] | None = None

    def update(self, done: int, total: int | None, text: str) -> None:
        now = monotonic()
        if self._begun is None or (total is not None and self.total is None):
            self._begun = now, done  # excludes the time before the first epoch
        self.total = total
        words = [] if total is None else [f"epoch {done}/{total}"]
        words += [text] if text else []
        start, before = self._begun
        if total is not None and done > before:
            left = (now - start) / (done - before) * (total - done)
            words.append(f"{timedelta(seconds=round(left))} left")
        self._line = "  ".join(words)
        if now - self._printed >= SECONDS_BETWEEN_LINES:
            self.close()
            self._printed = now

    def close(self) -> None:
        """Print the newest line, unless it was printed."""
        with suppress(BrokenPipeError, ValueError):  # the pipe or the file is closed
            print(self._line, end="\n" if self._line else "", file=sys.stderr, flush=True)
        self._line = ""
