"""Several models of one shape trained as one: what `execute` does, for all of them at a time."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from tsformer.data.batching import shuffled
from tsformer.data.panel import send
from tsformer.data.stored_panel import AnyPanel
from tsformer.objectives import Pretext
from tsformer.training.augment import augmented, mixed
from tsformer.training.callbacks import History
from tsformer.training.distributed import Ranks
from tsformer.training.ensemble.vmap_rules import VmapRules
from tsformer.training.memory import catch_oom, exceeds_device_memory
from tsformer.training.optimizer import decay_groups, set_learning_rate
from tsformer.training.plan import TrainingPlan
from tsformer.training.run import Snapshots, TrainingRun, supervised
from tsformer.training.seeds import seeded
from tsformer.training.step import Inputs

__all__ = ["ModelStack", "train_vectorized", "why_not_vectorizable"]

#: Series in the call that tries whether models can be vectorized.
_N_TRIED = 2
#: Some members, and the series of each in one step, one after another: on the CPU, on the device.
Share = tuple[list[int], Tensor, Tensor]


def train_vectorized(
    runs: Sequence[TrainingRun], panel: AnyPanel, targets: Tensor, weights: Tensor | None
) -> list[History]:
    """Train models of one shape as one, in place; `why_not_vectorizable` says whether they can be.

    Each member has the batches that it would have alone, and its own gradient clipping, dropout,
    batch-norm averages and early stopping. A member that has stopped is still computed until all
    have.

    Parameters
    ----------
    runs : sequence of TrainingRun
        One per model; their plans differ in nothing but the seed.
    panel, targets, weights
        As for `tsformer.training.train`.

    Returns
    -------
    list of History
        One per model.
    """
    plan = runs[0].state.plan
    for run in runs:
        run.state.model.to(plan.device)
    data = _Data(
        panel.to(plan.device),
        targets.to(plan.device),
        None if weights is None else weights.to(plan.device),
    )
    with (
        supervised(runs, data.panel, plan.seed),
        ModelStack([run.state.model for run in runs]) as stack,
    ):
        _VectorizedLoop(runs, data, stack).execute()
    return [run.state.history for run in runs]


class _Data:
    """The training data, on the device."""

    def __init__(self, panel: AnyPanel, targets: Tensor, weights: Tensor | None):
        self.panel = panel
        self.targets = targets
        self.weights = weights

    def shares(
        self, batch_size: int, generators: Sequence[torch.Generator]
    ) -> Iterator[list[Share]]:
        """Yield for each step of an epoch the members and their series.

        A step is one share, or two if the batches of some members are larger by one.
        """
        device = self.panel.device
        epoch = [list(shuffled(len(self.panel), batch_size, g)) for g in generators]
        steps: list[list[tuple[list[int], Tensor]]] = []
        for batches in zip(*epoch, strict=True):
            sizes = sorted({len(batch) for batch in batches})
            members = [[i for i, b in enumerate(batches) if len(b) == size] for size in sizes]
            steps.append([(some, torch.cat([batches[i] for i in some])) for some in members])
        # One copy per epoch: one per step would wait for the device each time.
        flat = [index for step in steps for _, index in step]
        rows = iter(torch.split(send(torch.cat(flat), device), [len(index) for index in flat]))
        for step in steps:
            yield [(some, index, next(rows)) for some, index in step]


class _VectorizedLoop:
    """The epochs of models trained as one."""

    def __init__(self, runs: Sequence[TrainingRun], data: _Data, stack: ModelStack):
        self.runs = runs
        self.data = data
        self.stack = stack
        self.plan = runs[0].state.plan
        assert not isinstance(runs[0].loss, Pretext)  # `why_not_vectorizable` says so
        self.loss = runs[0].loss
        self.optimizer = stack.make_optimizer(self.plan)
        self.epochs_before = runs[0].state.epochs_before
        self.snapshots = Snapshots(self.epochs_before, stack.snapshot())
        self.most_at_once = len(runs)
        # Weights at the end of the epoch in which a callback stopped a member, since its
        # parameters go on changing with the others'.
        self.stopped: dict[int, dict[str, Tensor]] = {}

    def execute(self) -> None:
        plan = self.plan
        generators = [torch.Generator().manual_seed(run.state.plan.seed) for run in self.runs]
        n_steps = plan.n_epochs * math.ceil(len(self.data.panel) / plan.batch_size)
        step = 0
        epoch = self.epochs_before
        try:
            while epoch < self.epochs_before + plan.n_epochs and self._learning():
                start = perf_counter()
                for run in self.runs:
                    run.state.model.train()
                totals = torch.zeros(len(self.runs), device=plan.device)
                for shares in self.data.shares(plan.batch_size, generators):
                    set_learning_rate(self.optimizer, plan.rate(step, n_steps))
                    with self.runs[0].random.drawing():
                        self.step(shares, totals, step)
                    step += 1
                epoch += 1
                losses = (totals / len(self.data.panel)).tolist()
                self._end_epoch(epoch, losses, plan.rate(step - 1, n_steps), start)
        finally:
            for member, run in enumerate(self.runs):
                final = run.stopping.best_weights or self.stopped.get(member)
                if final is not None:
                    run.state.model.load_state_dict(self.stack.state_of(member, final))

    def _learning(self) -> list[int]:
        return [i for i, run in enumerate(self.runs) if not run.state.stop]

    def step(self, shares: Sequence[Share], totals: Tensor, number: int = 0) -> None:
        """Take one optimizer step for all members; add the sums of their losses to `totals`.

        Raises
        ------
        MemoryError
            If not even the batch of one member at a time fits.
        """
        while True:
            shares = self._fitting(shares)
            with catch_oom() as ran_out:
                sums = self._gradients(shares, number)
            if not ran_out:
                break
            self._halve(shares, ran_out.reason)
        for (members, _, _), own in zip(shares, sums, strict=True):
            if len(members) == len(totals):
                totals += own
            else:  # one by one: an index would have to be sent to the device
                for i, member in enumerate(members):
                    totals[member] += own[i]
        self.stack.clip(self.plan.max_grad_norm)
        self.optimizer.step()

    def _gradients(self, shares: Sequence[Share], number: int) -> list[Tensor]:
        """Leave the gradient of each member's mean loss; return the sums of losses by share."""
        self.optimizer.zero_grad(set_to_none=True)
        sums = []
        for members, index, rows in shares:
            shape = (len(members), -1)
            batch = augmented(
                self.data.panel.take(index, rows=rows),
                self.plan.augmentation,
                step=number,
                seeds=[self.runs[member].state.plan.seed for member in members],
                symbolic=self.data.panel.symbolic,
                n_flags=self.data.panel.n_flags,
            )
            inputs: Any = tuple(
                None if x is None else x.unflatten(0, shape)
                for x in (batch.values, batch.mask, batch.times)
            )
            with torch.autocast(self.plan.device.type, torch.bfloat16, enabled=self.plan.bfloat16):
                outputs = self.stack(inputs, members)
            outputs = outputs.float().flatten(0, 1)
            losses = mixed(partial(self._losses, outputs), rows, batch).unflatten(0, shape)
            losses.mean(dim=1).sum().backward()
            sums.append(losses.detach().sum(dim=1))
        return sums

    def _fitting(self, shares: Sequence[Share]) -> list[Share]:
        """Divide shares of more members than fit into memory at a time."""
        most = self.most_at_once
        parts: list[Share] = []
        for members, index, rows in shares:
            size = len(index) // len(members)
            for start in range(0, len(members), most):
                some = members[start : start + most]
                own = slice(start * size, (start + len(some)) * size)
                parts.append((some, index[own], rows[own]))
        return parts

    def _halve(self, shares: Sequence[Share], reason: str) -> None:
        now = max(len(members) for members, _, _ in shares)
        if now == 1:
            raise MemoryError(
                f"a batch of {len(shares[0][1])} series of one member does not fit into the memory "
                f"of {self.plan.device}; choose a smaller batch_size, a smaller model or a stem "
                f"with a larger stride{reason}"
            )
        if self.most_at_once == len(self.runs):
            warnings.warn(
                f"a step of {now} members at a time did not fit into the memory of "
                f"{self.plan.device}: from now on they take it in groups, which takes longer but "
                "gives the same steps",
                stacklevel=2,
            )
        self.most_at_once = (now + 1) // 2

    def _losses(self, outputs: Tensor, rows: Tensor) -> Tensor:
        losses = self.loss(outputs, self.data.targets[rows])
        return losses if self.data.weights is None else losses * self.data.weights[rows]

    def _end_epoch(self, epoch: int, losses: list[float], lr: float, start: float) -> None:
        """End the epoch for each member that is still learning."""
        learning = self._learning()
        for member in learning:
            if not math.isfinite(losses[member]):
                kept = [(at, self.stack.state_of(member, w)) for at, w in self.snapshots.kept]
                self.runs[member].raise_non_finite(losses[member], kept, self.data.panel, member)
        self.snapshots.add(epoch, self.stack.snapshot())
        weights = self.snapshots.newest
        for member in learning:
            run = self.runs[member]
            run.end_epoch(losses[member], lr, start, weights, sharing=len(learning))
            if run.state.stop:
                self.stopped[member] = weights


class ModelStack:
    """Models whose parameters and buffers are views of stacked tensors ``[members, ...]``.

    A call runs all of them, each on inputs of its own, as one model through `torch.vmap`. Each
    model remains usable by itself: it sees what the stack learns. `release`, or leaving the stack's
    ``with`` block, gives each model tensors of its own again.

    Parameters
    ----------
    models : sequence of nn.Module
        Of one shape, all in the same mode, on one device.
    """

    def __init__(self, models: Sequence[nn.Module]):
        self.models = list(models)
        self.parameters, self.buffers = stack_module_state(self.models)
        # torch.func leaves the models with tensors of their own, which then know nothing of
        # training; as views of the stack they serve callbacks, validation and state_dict as usual.
        for i, model in enumerate(self.models):
            for name, parameter in model.named_parameters():
                parameter.data = self.parameters[name].detach()[i]
            for name, buffer in model.named_buffers():
                buffer.data = self.buffers[name][i]

    def __enter__(self) -> ModelStack:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Give each model tensors of its own again."""
        for model in self.models:
            for tensor in (*model.parameters(), *model.buffers()):
                tensor.data = tensor.data.clone()

    def __call__(self, inputs: Inputs, members: Sequence[int]) -> Tensor:
        """Return outputs ``[members, B, K]`` of some members.

        Parameters
        ----------
        inputs : tuple of Tensor or None
            What a model is called with, each tensor with a leading member axis.
        members : sequence of int
            Which members the inputs are for, in order.
        """
        parameters: dict[str, Tensor] = self.parameters
        buffers: dict[str, Tensor] = self.buffers
        some = len(members) < len(self.models)
        if some:  # by views: an index would have to travel to the device
            parameters = {k: torch.stack([v[i] for i in members]) for k, v in parameters.items()}
            buffers = {k: torch.stack([v[i] for i in members]) for k, v in buffers.items()}
        outputs = self._run(parameters, buffers, inputs)
        if some:
            for name, value in buffers.items():
                for i, member in enumerate(members):
                    self.buffers[name][member].copy_(value[i])
        return outputs

    def try_out(self, inputs: Inputs) -> str | None:
        """Return why `torch.vmap` cannot run these models, or None if it can; change nothing."""
        buffers = {name: buffer.clone() for name, buffer in self.buffers.items()}
        try:
            with torch.no_grad():
                self._run(self.parameters, buffers, inputs)
        except (RuntimeError, ValueError, TypeError) as error:
            return str(error).splitlines()[0]
        return None

    def _run(
        self, parameters: dict[str, Tensor], buffers: dict[str, Tensor], inputs: Inputs
    ) -> Tensor:
        def call(parameters: Any, buffers: Any, *inputs: Any) -> Any:
            return functional_call(self.models[0], (parameters, buffers), inputs)

        in_dims = (0, 0, *(None if x is None else 0 for x in inputs))
        with VmapRules():
            run = torch.vmap(call, in_dims=in_dims, randomness="different")
            outputs: Tensor = run(parameters, buffers, *inputs)
        return outputs

    def make_optimizer(self, plan: TrainingPlan) -> torch.optim.AdamW:
        """Return one optimizer for all models: AdamW works element by element."""
        groups = decay_groups(self.models[0], plan.pretrained)
        names = {id(p): name for name, p in self.models[0].named_parameters()}
        for group in groups:
            group["params"] = [self.parameters[names[id(p)]] for p in group["params"]]
        return torch.optim.AdamW(
            groups, lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True
        )

    def clip(self, max_norm: float) -> None:
        """Clip each member's gradients to this norm, as `clip_grad_norm_` does for one model."""
        grads = [p.grad for p in self.parameters.values() if p.grad is not None]
        # One row per member, also for parameters that are single numbers.
        norms = torch.linalg.vector_norm(
            torch.cat([g.reshape(len(g), -1) for g in grads], 1), dim=1
        )
        part = (max_norm / (norms + 1e-6)).clamp(max=1.0)
        for grad in grads:
            grad.mul_(part.view(-1, *[1] * (grad.ndim - 1)))

    def snapshot(self) -> dict[str, Tensor]:
        """Return a copy of all weights, stacked."""
        return {k: v.detach().clone() for k, v in {**self.parameters, **self.buffers}.items()}

    def state_of(self, member: int, snapshot: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the part of a snapshot that a member's `load_state_dict` takes."""
        model = self.models[member]
        return {name: snapshot[name][member] for name in model.state_dict() if name in snapshot}


def why_not_vectorizable(runs: Sequence[TrainingRun], panel: AnyPanel) -> str | None:
    """Return why these models cannot be trained as one, or None if they can.

    Parameters
    ----------
    runs : sequence of TrainingRun
        One per model.
    panel : Panel or StoredPanel
        The training series.
    """
    states = [run.state for run in runs]
    plan = states[0].plan
    if any(replace(state.plan, seed=plan.seed) != plan for state in states):
        return "their plans differ in more than the seed"
    if plan.frozen(0):
        return "a part of each is frozen"
    if any(isinstance(run.loss, Pretext) for run in runs):
        return "an objective poses a task for one model at a time"
    if len({len(state.history) for state in states}) > 1:
        return "some have been trained for longer before"
    if len({_shape(state.model) for state in states}) > 1:
        return "their shapes differ"
    callbacks = [id(callback) for run in runs for callback in run.callbacks]
    if len(set(callbacks)) < len(callbacks):
        return "a callback follows one training run at a time, and some are shared"
    if plan.checkpoint_dir is not None:
        return "a checkpoint holds one training run"
    if plan.compile not in (False, "auto"):
        return f"compile={plan.compile!r} applies to one model"
    if Ranks.current().size > 1:
        return "several processes share each of them"
    if exceeds_device_memory(panel.n_bytes, plan.device):
        return f"the data do not fit on {plan.device} and are sent batch by batch"
    return _why_no_vmap([state.model for state in states], panel, plan)


def _shape(model: nn.Module) -> str:
    """Return a description of all that models must share to run as one."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    shapes = {name: (tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}
    return f"{type(model)} {getattr(model, 'config', None)} {shapes}"


def _why_no_vmap(models: Sequence[nn.Module], panel: AnyPanel, plan: TrainingPlan) -> str | None:
    """Try a few series: a user's own encoding may do what vmap cannot."""
    for model in models:
        model.to(plan.device).train()
    index = torch.arange(min(_N_TRIED, len(panel)))
    inputs: Any = tuple(
        None if x is None else x.to(plan.device).expand(len(models), *x.shape)
        for x in panel.take(index)
    )
    with seeded(plan.seed, plan.device), ModelStack(models) as stack:
        failure = stack.try_out(inputs)
    return None if failure is None else f"torch.vmap cannot run the model: {failure}"
