"""Members trained as one model: what `train` does, for several models of one shape at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from tsformer.data.batching import shuffled
from tsformer.data.panel import Panel, send
from tsformer.training.batch_norm import update_bn
from tsformer.training.callbacks import Callback, History, TrainingState, running
from tsformer.training.ensemble.stack import ModelStack
from tsformer.training.loop import NonFiniteLossError, Validation, return_to_last_good, validate
from tsformer.training.plan import TrainingPlan
from tsformer.training.seeds import seeded
from tsformer.training.step import Loss

__all__ = ["train_vectorized"]

#: Some members, and the series of each in one step, one after another: on the CPU, on the device.
Share = tuple[list[int], Tensor, Tensor]


def train_vectorized(
    models: Sequence[nn.Module],
    panel: Panel,
    targets: Tensor,
    loss: Loss,
    plans: Sequence[TrainingPlan],
    *,
    weights: Tensor | None = None,
    validation: Validation | None = None,
    callbacks: Sequence[Sequence[Callback]] = (),
    histories: Sequence[History],
) -> list[History]:
    """Train models of one shape as one, in place; see `train_ensemble`, which checks that they are.

    Each member has the batches that it would have alone, its own clipping, dropout, averages of
    batch norms and early stopping. A member that stopped is still computed until all have.
    """
    device = plans[0].device
    for model in models:
        model.to(device)
    data = _Data(
        panel.to(device),
        targets.to(device),
        None if weights is None else weights.to(device),
    )
    states = [TrainingState(*of) for of in zip(models, plans, histories, strict=True)]
    with ExitStack() as stack:
        stack.enter_context(seeded(plans[0].seed, device))
        for state, own in zip(states, callbacks or [()] * len(states), strict=True):
            stack.enter_context(running(own, state))
        training = _Training(states, data, loss, validation, callbacks)
        try:
            try:
                training.run()
            except KeyboardInterrupt:
                for state in states:
                    state.history.interrupted = True
                warnings.warn(
                    f"training was interrupted after {states[0].epoch} of {states[0].n_epochs} "
                    f"epochs of {len(states)} members; what was trained so far is kept",
                    stacklevel=2,
                )
            for state in states:
                if state.history.best_epoch is None:
                    update_bn(state.model, data.panel, state.plan)
        finally:
            training.stack.release()
            for model in models:
                model.eval()
    return [state.history for state in states]


class _Data:
    """What is learned from, on the device."""

    def __init__(self, panel: Panel, targets: Tensor, weights: Tensor | None):
        self.panel = panel
        self.targets = targets
        self.weights = weights

    def shares(
        self, batch_size: int, generators: Sequence[torch.Generator]
    ) -> Iterator[list[Share]]:
        """Yield for each step of an epoch the members and their series.

        A step is one share, or two where the batches of some members are larger by one.
        """
        device = self.panel.values.device
        epoch = [list(shuffled(self.panel.lengths, batch_size, g)) for g in generators]
        steps: list[list[tuple[list[int], Tensor]]] = []
        for batches in zip(*epoch, strict=True):
            sizes = sorted({len(batch) for batch in batches})
            members = [[i for i, b in enumerate(batches) if len(b) == size] for size in sizes]
            steps.append([(some, torch.cat([batches[i] for i in some])) for some in members])
        # One copy an epoch: one a step would each wait for the device.
        flat = [index for step in steps for _, index in step]
        rows = iter(send(torch.cat(flat), device).split([len(index) for index in flat]))
        for step in steps:
            yield [(some, index, next(rows)) for some, index in step]


class _Training:
    """The epochs of members trained as one."""

    def __init__(
        self,
        states: Sequence[TrainingState],
        data: _Data,
        loss: Loss,
        validation: Validation | None,
        callbacks: Sequence[Sequence[Callback]],
    ):
        self.states = states
        self.data = data
        self.loss = loss
        self.validation = validation
        self.callbacks = callbacks or [()] * len(states)
        self.plan = states[0].plan
        self.stack = ModelStack([state.model for state in states])
        self.optimizer = self.stack.make_optimizer(self.plan)
        self.epochs_before = states[0].epochs_before
        self.best_loss = [math.inf] * len(states)
        # Weights of the start, of the epoch before the last, and of the last; and those that a
        # member is to have in the end where they are not the last.
        self.snapshots = [(self.epochs_before, self.stack.snapshot())]
        self.chosen: dict[int, dict[str, Tensor]] = {}

    def run(self) -> None:
        plan, n_members = self.plan, len(self.states)
        for state in self.states:
            state.history.interrupted, state.history.best_epoch = False, None
        generators = [torch.Generator().manual_seed(state.plan.seed) for state in self.states]
        n_steps = plan.n_epochs * math.ceil(len(self.data.panel) / plan.batch_size)
        step = 0
        epoch = self.epochs_before
        try:
            while epoch < self.epochs_before + plan.n_epochs and self._learning():
                start = perf_counter()
                for state in self.states:
                    state.model.train()
                totals = torch.zeros(n_members, device=plan.device)
                for shares in self.data.shares(plan.batch_size, generators):
                    for group in self.optimizer.param_groups:
                        group["lr"] = plan.rate(step, n_steps)
                    self._step(shares, totals)
                    step += 1
                epoch += 1
                rate = plan.rate(step - 1, n_steps)
                self._end_epoch(epoch, (totals / len(self.data.panel)).tolist(), rate, start)
        finally:
            for member, snapshot in self.chosen.items():
                self.states[member].model.load_state_dict(self.stack.state_of(member, snapshot))

    def _learning(self) -> list[int]:
        return [i for i, state in enumerate(self.states) if not state.stop]

    def _step(self, shares: Sequence[Share], totals: Tensor) -> None:
        """Take one optimizer step for all members; add the sums of their losses to `totals`."""
        self.optimizer.zero_grad(set_to_none=True)
        for members, index, rows in shares:
            shape = (len(members), -1)
            inputs: Any = tuple(
                None if x is None else x.unflatten(0, shape)
                for x in self.data.panel.take(index, rows=rows)
            )
            with torch.autocast(self.plan.device.type, torch.bfloat16, enabled=self.plan.bfloat16):
                outputs = self.stack(inputs, members)
            losses = self.loss(outputs.float().flatten(0, 1), self.data.targets[rows])
            if self.data.weights is not None:
                losses = losses * self.data.weights[rows]
            losses = losses.unflatten(0, shape)
            losses.mean(dim=1).sum().backward()
            sums = losses.detach().sum(dim=1)
            if len(members) == len(totals):
                totals += sums
            else:  # one by one: an index would have to travel to the device
                for i, member in enumerate(members):
                    totals[member] += sums[i]
        self.stack.clip(self.plan.max_grad_norm)
        self.optimizer.step()

    def _end_epoch(self, epoch: int, losses: list[float], rate: float, start: float) -> None:
        """Write a row for each member that still learns, and decide whether it goes on."""
        learning = self._learning()
        self._check_finite(epoch, losses)
        self.snapshots = [self.snapshots[0], self.snapshots[-1], (epoch, self.stack.snapshot())]
        for member in learning:
            state = self.states[member]
            row = {"epoch": epoch, "loss": losses[member], "lr": rate, "seconds": 0.0}
            if self.validation is not None:
                row |= validate(state.model, self.validation, self.loss, state.plan)
            row["seconds"] = (perf_counter() - start) / len(learning)  # its share
            state.history.append(row)
            if self.validation is not None and self.plan.n_iter_no_change is not None:
                self._judge(member, row["val_loss"])
            for callback in self.callbacks[member]:
                callback.on_epoch_end(state)
            if state.stop and state.history.best_epoch is None:
                self.chosen[member] = self.snapshots[-1][1]

    def _judge(self, member: int, val_loss: float) -> None:
        """Choose this epoch's weights if they are the best, or stop after too many that are not."""
        state = self.states[member]
        patience = self.plan.n_iter_no_change or math.inf
        if val_loss < self.best_loss[member]:
            self.best_loss[member], state.history.best_epoch = val_loss, state.epoch
            self.chosen[member] = self.snapshots[-1][1]
        elif state.epoch - (state.history.best_epoch or self.epochs_before) >= patience:
            state.stop = True

    def _check_finite(self, epoch: int, losses: list[float]) -> None:
        for member in self._learning():
            if math.isfinite(losses[member]):
                continue
            state, stack = self.states[member], self.stack
            own = [(at, stack.state_of(member, weights)) for at, weights in self.snapshots]
            kept = return_to_last_good(state.model, own, self.data.panel, state.plan)
            raise NonFiniteLossError(
                f"the training loss of member {member} became {losses[member]} in epoch {epoch} "
                f"of {state.n_epochs}; its weights of epoch {kept} are kept, and those of the "
                "others as they are. A lower learning_rate "
                f"(it was {self.plan.learning_rate:g}) usually helps"
            )
