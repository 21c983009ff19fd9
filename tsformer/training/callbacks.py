"""Callback: hooks into training, and the callbacks of the package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from torch import nn

from tsformer._optional import require
from tsformer.training.plan import TrainingPlan

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Callback", "History", "ProgressBar", "TrainingState"]


class History(list[dict[str, float]]):
    """One row per epoch, as a list of dicts.

    Keys are `epoch` (from 1), `loss`, `lr` (at the epoch's end), `seconds`, and with validation
    data `val_loss` and `val_score`.

    Attributes
    ----------
    interrupted : bool
        Whether Ctrl-C ended training.
    best_epoch : int or None
        The epoch whose weights were kept, if validation selected one.
    """

    interrupted: bool = False
    best_epoch: int | None = None

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a DataFrame, indexed by epoch."""
        import pandas as pd

        columns = ["epoch", "loss", "lr", "seconds"]
        columns += [c for c in ("val_loss", "val_score") if any(c in row for row in self)]
        return pd.DataFrame(self, columns=columns).set_index("epoch")


@dataclass
class TrainingState:
    """What a callback sees.

    Attributes
    ----------
    model : nn.Module
        The model being trained.
    plan : TrainingPlan
        Its plan.
    history : History
        The epochs so far; the newest is ``history[-1]``.
    stop : bool
        Set it to end training after this epoch.
    """

    model: nn.Module
    plan: TrainingPlan
    history: History = field(default_factory=History)
    stop: bool = False
    epochs_before: int = field(init=False)

    def __post_init__(self) -> None:
        self.epochs_before = len(self.history)

    @property
    def n_epochs(self) -> int:
        """The number of epochs planned, including those of the run that this one continues."""
        return self.epochs_before + self.plan.n_epochs

    @property
    def epoch(self) -> int:
        """The number of epochs done."""
        return len(self.history)


class Callback:
    """Base of all callbacks: override what you need.

    On a GPU steps are recorded in CUDA graphs: what a callback changes in the model, other than
    values of its tensors in place, has an effect with ``compile=False`` only.

    Attributes
    ----------
    stateless : bool
        Whether a copy in another process does all that the callback is for; False unless a class
        says so.
    """

    stateless: ClassVar[bool] = False

    def on_train_begin(self, state: TrainingState) -> None:
        """Before the first epoch."""

    def on_epoch_end(self, state: TrainingState) -> None:
        """After each epoch; its row is ``state.history[-1]``."""

    def on_train_end(self, state: TrainingState) -> None:
        """After the last epoch, also if training was stopped or interrupted, or failed."""


class ProgressBar(Callback):
    """A progress bar on standard error: epochs done, time left, latest loss and score."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._task: Any = None

    def on_train_begin(self, state: TrainingState) -> None:
        self._open(state.n_epochs)

    def on_epoch_end(self, state: TrainingState) -> None:
        self._show(state.epoch, state.history[-1])

    def on_train_end(self, state: TrainingState) -> None:
        self._close()

    def _open(self, total: int | None) -> None:
        progress = require("rich.progress", extra="cli", purpose="the progress bar of verbose=1")
        console = require("rich.console", extra="cli", purpose="the progress bar of verbose=1")
        self._progress = progress.Progress(
            progress.TextColumn("epoch"),
            progress.MofNCompleteColumn(),
            progress.BarColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.description}"),
            console=console.Console(stderr=True),
        )
        self._task = self._progress.add_task("", total=total)
        self._progress.start()

    def _show(self, epoch: int, row: dict[str, float], prefix: str = "") -> None:
        text = f"{prefix}loss {row['loss']:.4f}"
        if "val_score" in row:
            text += f"  val_loss {row['val_loss']:.4f}  val_score {row['val_score']:.4f}"
        self._progress.update(self._task, completed=epoch, description=text)

    def _close(self) -> None:
        self._progress.stop()
        self._progress = self._task = None  # a live display is neither copied nor pickled


@contextmanager
def running(callbacks: Sequence[Callback], state: TrainingState) -> Iterator[None]:
    """Call every `on_train_begin` before the block; after it `on_train_end` of those begun."""
    with ExitStack() as stack:
        for callback in callbacks:
            callback.on_train_begin(state)
            stack.callback(callback.on_train_end, state)
        yield
