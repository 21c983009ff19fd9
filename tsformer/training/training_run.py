"""A training run: its state, its callbacks, and the end of each epoch and of the run."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tsformer._random import RandomStream, seeded
from tsformer._warnings import warn_caller
from tsformer.data.panel import AnyPanel, shuffled
from tsformer.model.layers import FEWEST, MaskedBatchNorm, PooledBatchNorm, effective_size
from tsformer.objectives import Pretext
from tsformer.training.distributed import Ranks
from tsformer.training.inference import forward, pretext_losses
from tsformer.training.plan import TrainingPlan
from tsformer.training.step import Loss

if TYPE_CHECKING:
    import pandas as pd

Snapshot = tuple[int, dict[str, Tensor]]  # an epoch and the weights at its end
SERIES_FOR_AVERAGES = 4096  # of batch norms, at most, in each validation


class History(list[dict[str, float]]):
    """One row per epoch, as a list of dicts.

    Keys are `epoch` (from 1), `loss`, `lr` (at the epoch's end), `seconds`, and with validation
    data `val_loss` and `val_score`. `interrupted` tells whether Ctrl-C ended training, `best_epoch`
    is the epoch whose weights were kept, if validation selected one.
    """

    interrupted: bool = False
    best_epoch: int | None = None

    @property
    def kept(self) -> dict[str, float]:
        """The row of the epoch whose weights were kept."""
        return next((row for row in self if row["epoch"] == self.best_epoch), self[-1])

    def to_frame(self) -> pd.DataFrame:
        """Return the rows as a DataFrame, indexed by epoch."""
        import pandas as pd

        columns = None if self else ["epoch", "loss", "lr", "seconds"]
        return pd.DataFrame(list(self), columns=columns).set_index("epoch")


@dataclass
class TrainingState:
    """State of a training run, as passed to callbacks.

    The newest epoch is ``history[-1]``. Setting `stop` ends training after this epoch.
    """

    model: nn.Module
    plan: TrainingPlan
    history: History = field(default_factory=History)
    stop: bool = False
    epochs_before: int = 0  # a warm start

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

    A callback may change the model's tensors in place; any other change needs ``compile=False``.
    `stateless` tells whether it also works as a copy in another process.
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


@dataclass(frozen=True)
class Validation:
    """Validation data, scored after each epoch; the model is never trained on them.

    Parameters
    ----------
    panel, targets : Panel or StoredPanel of ``n`` series, Tensor [n, ...]
        The series and their targets, on the plan's device.
    score : callable
        From outputs and targets to a float; higher is better. An objective has losses as outputs.
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
            losses = outputs = pretext_losses(model, self.panel, loss, bfloat16=plan.bfloat16)
        else:
            outputs = forward(model, self.panel, bfloat16=plan.bfloat16, device=plan.device)
            outputs = outputs.to(plan.device)
            losses = loss(outputs, self.targets)
        if self.weights is not None:
            losses = losses * self.weights
        return {"val_loss": losses.mean().item(), "val_score": self.score(outputs, self.targets)}


@dataclass(eq=False)
class TrainingRun:
    """The training run of one model: its data, and its position, which checkpoints save."""

    state: TrainingState
    panel: AnyPanel
    targets: Tensor
    loss: Loss | Pretext
    weights: Tensor | None = None
    validation: Validation | None = None
    callbacks: Sequence[Callback] = ()
    ranks: Ranks = field(default_factory=Ranks)

    def __post_init__(self) -> None:
        plan = self.state.plan
        self.random = RandomStream(plan.seed + self.ranks.rank, plan.device)
        #: Optimizer steps of the run; batches and the sum of losses of the epoch.
        self.step = self.batch = 0
        self.total = torch.zeros((), device=plan.device)
        #: Weights of the start and of the last two epochs, and of the lowest validation loss.
        self.kept = [self.snapshot(self.state.epochs_before)]
        self.best: Snapshot | None = None
        self.best_loss = math.inf
        self.generator = torch.Generator().manual_seed(plan.seed)
        #: State of the generator at the start of the epoch.
        self.shuffling = self.generator.get_state()

    def snapshot(self, epoch: int) -> Snapshot:
        """Return the epoch and a copy of the weights."""
        # A deep copy takes five times as long, a tenth of training on 36 series.
        return epoch, {name: x.clone() for name, x in self.state.model.state_dict().items()}

    def update_averages(self) -> None:
        """Recompute the averages of batch norms, as at the end of training, in one pass.

        With validation data it reads a few thousand random series; norms of frozen weights stay.
        """
        plan, panel, ranks = self.state.plan, self.panel, self.ranks
        model: Any = self.state.model
        norms = {
            module: module.momentum
            for name, module in model.named_modules()
            if isinstance(module, _BatchNorm) and f"{name}.weight" not in plan.frozen
        }
        if not norms:
            return
        head: Any = getattr(model, "head_norm", None)
        run = model
        if hasattr(model, "forward_stem") and norms.keys() <= set(model.stem.modules()):
            run = model.forward_stem  # up to the last batch norm
        # An objective may pass several views of each series through the norm.
        weighted = isinstance(head, PooledBatchNorm) and head in norms
        weighted = weighted and not isinstance(self.loss, Pretext)
        weights = self.weights.cpu().double() if self.weights is not None and weighted else None
        seen, generator = 0.0, torch.Generator().manual_seed(plan.seed)
        batches = list(shuffled(len(panel), plan.batch_size, generator))
        if self.validation is not None:
            batches = batches[: max(SERIES_FOR_AVERAGES // plan.batch_size, 1)]
        # Norms that sum over all processes need only this process's part of each batch.
        shared = all(isinstance(norm, MaskedBatchNorm) and norm.shared for norm in norms)
        local = [ranks.part(batch) for batch in batches] if ranks.size > 1 and shared else batches
        model.eval()  # averages kept during training lag behind the weights
        try:
            with (
                seeded(plan.seed, plan.device),
                torch.no_grad(),
                torch.autocast(plan.device.type, torch.bfloat16, enabled=plan.bfloat16),
                panel.ahead(local) as coming,
            ):
                for norm in norms:
                    norm.train()
                for count, (batch, index) in enumerate(zip(batches, coming, strict=True), start=1):
                    for norm in norms:
                        norm.momentum = 1 / count  # makes the average the plain mean
                    options = {}
                    if weights is not None:
                        total = weights[batch].sum()
                        if effective_size(total, weights[batch].square().sum()) >= FEWEST:
                            seen += total.item()
                        head.momentum = len(batch) / seen if seen else 0.0  # the weighted mean
                        options["weights"] = weights[index].float().to(plan.device)
                    run(*panel.take(index, device=plan.device), **options)
        finally:
            for norm, momentum in norms.items():
                norm.momentum = momentum
                norm.eval()

    def end_epoch(self, loss: float, lr: float, start: float) -> None:
        """Record the epoch, decide whether to stop, and call the callbacks."""
        state, plan, validation = self.state, self.state.plan, self.validation
        epoch = len(state.history) + 1
        row = {"epoch": epoch, "loss": loss, "lr": lr, "seconds": 0.0}
        lagging: list[tuple[Tensor, Tensor]] = []
        if validation is not None:
            # Validate the model that is returned if training ends here; restore it afterwards.
            norms = [m for m in state.model.modules() if isinstance(m, _BatchNorm)]
            lagging = [(x, x.clone()) for norm in norms for x in norm.buffers(recurse=False)]
            self.update_averages()
            with seeded(plan.seed, plan.device):
                row |= validation.evaluate(state.model, self.loss, plan)
        self.kept = [self.kept[0], self.kept[-1], self.snapshot(epoch)]
        self.batch = 0
        self.shuffling = self.generator.get_state()
        row["seconds"] = perf_counter() - start
        state.history.append(row)
        if validation is not None and plan.n_iter_no_change is not None:
            if row["val_loss"] < self.best_loss:  # NaN is not
                self.best, self.best_loss = self.kept[-1], row["val_loss"]
                state.history.best_epoch = epoch
            since = state.epochs_before if self.best is None else self.best[0]
            state.stop = state.stop or epoch - since >= max(plan.n_iter_no_change, 1)
        for callback in self.callbacks:
            callback.on_epoch_end(state)
        for buffer, before in lagging:
            buffer.copy_(before)

    def raise_non_finite(self, loss: float) -> NoReturn:
        """Restore the latest good weights and raise NonFiniteLossError."""
        state, plan = self.state, self.state.plan
        model: Any = state.model
        options: Any = {"bfloat16": plan.bfloat16, "device": plan.device}
        if isinstance(self.loss, Pretext):  # outputs may differ in shape among series
            options["function"] = model.embed
        # The last step of an epoch can spoil the weights after a finite loss.
        for snapshot in reversed(self.kept if self.best is None else [self.best]):
            model.load_state_dict(snapshot[1])
            self.update_averages()
            if forward(model, self.panel, **options).isfinite().all():
                break
        raise NonFiniteLossError(
            f"the training loss became {loss} in epoch {state.epoch + 1} of {state.n_epochs}; the "
            f"weights of epoch {snapshot[0]} are kept; lower learning_rate={plan.learning_rate:g}"
        )


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
