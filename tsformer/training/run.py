"""A training run: its state, its callbacks, and the end of each epoch and of the run."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn

from tsformer._random import RandomStream
from tsformer._warnings import warn_caller
from tsformer.data.panel import AnyPanel
from tsformer.objectives import Pretext
from tsformer.training.inference import forward, norm_weights, pretext_losses, update_bn
from tsformer.training.plan import TrainingPlan
from tsformer.training.step import Loss, OneProcess

if TYPE_CHECKING:
    import pandas as pd

#: An epoch and the weights at its end.
Snapshot = tuple[int, dict[str, Tensor]]


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
    """State of a training run, as passed to callbacks.

    The newest epoch is ``history[-1]``. Setting `stop` ends training after this epoch.
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
        """The number of planned epochs, including epochs before a warm start."""
        return self.epochs_before + self.plan.n_epochs

    @property
    def epoch(self) -> int:
        """The number of epochs done."""
        return len(self.history)


class Callback:
    """Base class of callbacks: override any of the methods.

    On a GPU, steps are recorded in CUDA graphs. A callback may then change the model's tensors in
    place; any other change of the model needs ``compile=False``.

    Attributes
    ----------
    stateless : bool, default=False
        Whether the callback also works as a copy in another process.
    """

    stateless: ClassVar[bool] = False

    def on_train_begin(self, state: TrainingState) -> None:
        """Before the first epoch."""

    def on_epoch_end(self, state: TrainingState) -> None:
        """After each epoch; its row is ``state.history[-1]``."""

    def on_train_end(self, state: TrainingState) -> None:
        """After the last epoch, also if training was stopped or interrupted, or failed."""


class NonFiniteLossError(RuntimeError):
    """The training loss is not finite; the model keeps the last good weights."""


@dataclass
class EarlyStopping:
    """Track the epoch of the lowest validation loss; stop after `patience` further epochs."""

    patience: int | None
    start: int = 0
    best_loss: float = math.inf
    best_epoch: int | None = None
    best_weights: dict[str, Tensor] | None = None

    def update(self, epoch: int, loss: float, weights: dict[str, Tensor]) -> None:
        """Record the validation loss and the weights of an epoch; ignore NaN."""
        if self.patience is not None and loss < self.best_loss:
            self.best_loss, self.best_epoch, self.best_weights = loss, epoch, weights

    def should_stop(self, epoch: int) -> bool:
        """Whether `patience` epochs have passed since the best epoch or the start."""
        if self.patience is None or epoch == self.best_epoch:
            return False
        since = self.start if self.best_epoch is None else self.best_epoch
        return epoch - since >= self.patience


@dataclass(frozen=True)
class Validation:
    """Validation data, scored after each epoch; the model is never trained on them.

    Parameters
    ----------
    panel : Panel or StoredPanel
        The series, on the plan's device.
    targets : Tensor [n, ...]
        Targets of the series, on the same device.
    score : callable
        From outputs and targets to a float; higher is better. For an objective, from the losses of
        the series and targets.
    weights : Tensor [n], optional
        Weight of each series in the validation loss, on the same device; their mean should be 1.
    """

    panel: AnyPanel
    targets: Tensor
    score: Callable[[Tensor, Tensor], float]
    weights: Tensor | None = None

    def evaluate(
        self, model: nn.Module, loss: Loss | Pretext, plan: TrainingPlan
    ) -> dict[str, float]:
        """Return the model's `val_loss` and `val_score`."""
        if isinstance(loss, Pretext):
            losses = outputs = pretext_losses(
                model,
                self.panel,
                loss,
                batch_size=plan.batch_size,
                seed=plan.seed,
                bfloat16=plan.bfloat16,
            )
        else:
            outputs = forward(model, self.panel, bfloat16=plan.bfloat16, device=plan.device)
            outputs = outputs.to(plan.device)
            losses = loss(outputs, self.targets)
        if self.weights is not None:
            losses = losses * self.weights
        return {
            "val_loss": losses.mean().item(),
            "val_score": self.score(outputs, self.targets),
        }


@dataclass
class TrainingRun:
    """The training run of one model."""

    state: TrainingState
    loss: Loss | Pretext
    validation: Validation | None = None
    callbacks: Sequence[Callback] = ()
    stopping: EarlyStopping = field(init=False)
    random: RandomStream = field(init=False)

    def __post_init__(self) -> None:
        patience = None if self.validation is None else self.state.plan.n_iter_no_change
        self.stopping = EarlyStopping(patience, start=self.state.epochs_before)

    def end_epoch(self, loss: float, lr: float, start: float, weights: dict[str, Tensor]) -> None:
        """Record the epoch, decide whether to stop, and call the callbacks."""
        state = self.state
        row = {"epoch": state.epoch + 1, "loss": loss, "lr": lr, "seconds": 0.0}
        if self.validation is not None:
            with self.random.drawing():
                row |= self.validation.evaluate(state.model, self.loss, state.plan)
        row["seconds"] = perf_counter() - start
        state.history.append(row)
        if self.validation is not None:
            self.stopping.update(state.epoch, row["val_loss"], weights)
            state.history.best_epoch = self.stopping.best_epoch
            state.stop = state.stop or self.stopping.should_stop(state.epoch)
        for callback in self.callbacks:
            callback.on_epoch_end(state)

    def raise_non_finite(self, loss: float, kept: Sequence[Snapshot], panel: AnyPanel) -> NoReturn:
        """Restore the latest good weights and raise NonFiniteLossError."""
        state, plan = self.state, self.state.plan
        model: Any = state.model
        # Outputs of an objective may differ in shape among series; embeddings do not.
        options: dict[str, Any] = {
            "bfloat16": plan.bfloat16,
            "function": model.embed if isinstance(self.loss, Pretext) else None,
            "device": plan.device,
        }
        with self.random.drawing():
            # The last step of an epoch can spoil the weights after a finite loss.
            for epoch, weights in reversed(kept):
                model.load_state_dict(weights)
                kept_epoch = epoch
                if forward(model, panel, **options).isfinite().all():
                    break
        raise NonFiniteLossError(
            f"the training loss became {loss} in epoch {state.epoch + 1} of {state.n_epochs}; "
            f"the weights of epoch {kept_epoch} are kept. A lower learning_rate "
            f"(it was {state.plan.learning_rate:g}) usually helps"
        )


class LoopState:
    """Position in the training loop, saved in checkpoints."""

    def __init__(self, run: TrainingRun, generator: torch.Generator):
        self.step = 0
        self.batch = 0
        self.total = torch.zeros((), device=run.state.plan.device)
        #: Weights of the start and of the last two epochs.
        self.kept: list[Snapshot] = [(run.state.epoch, self._weights(run))]
        self._run = run
        self._generator = generator
        self._shuffling = generator.get_state()

    def begin_epoch(self) -> None:
        """Start the next epoch, or continue the epoch of a checkpoint."""
        if self.batch:
            return
        self._shuffling = self._generator.get_state()
        self.total = torch.zeros_like(self.total)

    @staticmethod
    def _weights(run: TrainingRun) -> dict[str, Tensor]:
        # A deep copy takes five times as long, a tenth of training on 36 series.
        return {name: x.clone() for name, x in run.state.model.state_dict().items()}

    def end_epoch(self) -> None:
        """Take a snapshot of the weights at the end of an epoch."""
        newest = self._run.state.epoch + 1, self._weights(self._run)
        self.kept = [self.kept[0], self.kept[-1], newest]
        self.batch = 0
        self._shuffling = self._generator.get_state()

    def state_dict(self) -> dict[str, Any]:
        """Return the state as tensors and plain values."""
        stopping = self._run.stopping
        return {
            "step": self.step,
            "batch": self.batch,
            "total": self.total,
            "snapshots": self.kept,
            "best": stopping.best_weights or self.kept[0][1],
            "best_loss": stopping.best_loss,
            "shuffling": self._shuffling,
        }

    def load_state_dict(self, state: dict[str, Any], best_epoch: int | None) -> None:
        """Restore a `state_dict`; `best_epoch` is saved separately."""
        self.step, self.batch = state["step"], state["batch"]
        self.total = state["total"].to(self.total.device)
        self.kept = [(epoch, weights) for epoch, weights in state["snapshots"]]
        stopping = self._run.stopping
        stopping.best_loss, stopping.best_epoch = state["best_loss"], best_epoch
        stopping.best_weights = None if best_epoch is None else state["best"]
        self._shuffling = state["shuffling"]
        self._generator.set_state(self._shuffling)


@contextmanager
def training_session(
    run: TrainingRun, panel: AnyPanel, weights: Tensor | None, ranks: OneProcess
) -> Iterator[None]:
    """Run the epochs of a model inside the block; then recompute averages of batch norms."""
    state = run.state
    run.random = RandomStream(state.plan.seed + ranks.rank, state.plan.device)
    with ExitStack() as stack:
        for callback in run.callbacks:
            callback.on_train_begin(state)
            stack.callback(callback.on_train_end, state)
        try:
            state.history.interrupted, state.history.best_epoch = False, None
            try:
                yield
            except KeyboardInterrupt:
                if state.epoch == 0:  # nothing is learned yet
                    raise
                progress = f"{state.epoch} of {state.n_epochs} epochs"
                mark_interrupted(state.history, progress)
            if state.history.best_epoch is None:
                with run.random.drawing():
                    counted = norm_weights(state.model, weights, run.loss)
                    update_bn(state.model, panel, state.plan, counted, part=ranks.part)
        finally:
            state.model.eval()


@contextmanager
def suppress_interruption_warning() -> Iterator[None]:
    """Silence the warning of an interrupted training run."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="training was interrupted")
        yield


def mark_interrupted(history: History, progress: str) -> None:
    """Mark the history as interrupted and warn with the progress."""
    history.interrupted = True
    warn_caller(f"training was interrupted after {progress}; the weights so far are kept")
