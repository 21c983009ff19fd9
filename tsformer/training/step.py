"""One optimizer step: forward, loss, backward and update."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tsformer._random import drawing
from tsformer._warnings import warn_caller
from tsformer.augmentation import Augmentation, Batch
from tsformer.data.panel import AnyPanel, same_device
from tsformer.objectives import Pretext
from tsformer.training.inference import catch_oom, norm_weights, posed
from tsformer.training.plan import TrainingPlan

#: From outputs and targets to the loss of each series.
Loss = Callable[[Tensor, Tensor], Tensor]
#: Arguments of a model: values, mask, times.
Inputs = tuple[Tensor, Tensor | None, Tensor | None]


class OneProcess:
    """The only process of a training run; `distributed.Ranks` shares a run among several."""

    rank = 0
    size = 1

    @property
    def leads(self) -> bool:
        """Whether this process writes and reports."""
        return self.rank == 0

    def part(self, batch: Tensor) -> Tensor:
        """Return this process's part of a batch."""
        return batch

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """Wrap the model for training by all processes."""
        return model

    def add_up(self, total: Tensor) -> Tensor:
        """Return the sum over the processes."""
        return total

    def any(self, flag: bool, device: torch.device) -> bool:
        """Whether the flag is set in any process."""
        return flag

    def sharing(
        self, model: nn.Module, plan: TrainingPlan, loss: object, n_series: int
    ) -> AbstractContextManager[None]:
        """Share the training run among the processes inside the block."""
        return nullcontext()


class TrainingStep:
    """Takes optimizer steps on batches of a panel.

    If a batch does not fit into memory, its tokens go through the blocks in pieces, and each piece
    is recomputed for its gradient. Batch norms still see the whole batch.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        panel: AnyPanel,
        targets: Tensor,
        weights: Tensor | None,
        loss: Loss | Pretext,
        plan: TrainingPlan,
        ranks: OneProcess | None = None,
    ):
        ranks = OneProcess() if ranks is None else ranks
        compiled: Any = torch.compile(model) if plan.compile is True else model
        self.model = model
        self.forward: Callable[..., Tensor] = ranks.wrap(compiled, plan.device)
        self.optimizer = optimizer
        self.panel = panel
        self.targets = targets
        self.weights = weights
        self.norm_weights = norm_weights(model, weights, loss)
        self.loss = loss
        self.plan = plan
        self.ranks = ranks
        plain = ranks.size == 1 and not isinstance(loss, Pretext)
        self.may_cut = plain and hasattr(model, "forward_stem")
        self.most_at_once: int | None = None
        #: Whether this process reads only its part of a batch.
        self._divided = ranks.size > 1 and plan.augmentation is None

    def read(self, batch: Tensor) -> Tensor:
        """Return the series of a batch ``[B]`` that this process reads."""
        return self.ranks.part(batch) if self._divided else batch

    def __call__(self, index: Tensor, rows: Tensor, *, number: int = 0) -> Tensor:
        """Take a step on a batch; return this process's sum of losses, on the device."""
        while True:
            with catch_oom() as ran_out:
                total = self._gradients(index, rows, number)
            if not ran_out:
                clip_and_update(self.optimizer, self.plan.max_grad_norm)
                return total
            self._halve(len(rows), ran_out[0])

    def _gradients(self, index: Tensor, rows: Tensor, number: int) -> Tensor:
        """Compute the gradient of the batch's mean loss."""
        here = self.panel.device
        on_device = self.read(rows) if same_device(here, self.plan.device) else index
        batch = augmented(
            self.panel.take(index, rows=on_device, device=self.plan.device),
            self.plan.augmentation,
            step=number,
            seed=self.plan.seed,
            symbolic=self.panel.symbolic,
            n_flags=self.panel.n_flags,
        )
        self.optimizer.zero_grad(set_to_none=True)
        if isinstance(self.loss, Pretext):
            task = posed(self.loss, batch, seed=self.plan.seed, step=number)
            outputs = self._outputs(task.batch)
            losses = self._weighted(self.loss.losses(outputs.float(), task), rows)
        else:
            own = replace(batch, share=self._own(batch.share))
            weights = self.norm_weights
            if weights is not None:
                weights = mixed(partial(self._rows_of, weights), rows, own)
            outputs = self._outputs(batch, weights)
            losses = mixed(partial(self._supervised, self.loss, outputs), rows, own)
        # Processes average their gradients, so each loss is scaled by their number.
        (losses.sum() * self.ranks.size / len(rows)).backward()
        return losses.detach().sum()

    def _outputs(self, batch: Batch, weights: Tensor | None = None) -> Tensor:
        """Return the outputs for this process's part of a batch."""
        inputs: Inputs = batch.values, batch.mask, batch.times
        if not self._divided:
            inputs = self.ranks.part(batch.values), self._own(batch.mask), self._own(batch.times)
        if self.most_at_once is not None and self.most_at_once < len(batch.values):
            return self._in_pieces(inputs, weights, self.most_at_once)
        with self._autocast():
            return self.forward(*inputs, **({} if weights is None else {"weights": weights}))

    def _own(self, x: Tensor | None) -> Tensor | None:
        """Return this process's part of a tensor ``[1 | B, ...]``."""
        return x if x is None or len(x) == 1 else self.ranks.part(x)

    def _in_pieces(self, inputs: Inputs, weights: Tensor | None, most: int) -> Tensor:
        model: Any = self.model

        def pooled(tokens: Tensor, mask: Tensor | None, t: Tensor) -> Tensor:
            return model.pool(model.forward_features(tokens, mask, t), mask)

        with self._autocast():
            tokens, mask, t = model.forward_stem(*inputs)
            parts = []
            for start in range(0, len(tokens), most):
                part = slice(start, start + most)
                valid = None if mask is None else mask[part]
                # Frees the activations of a piece, and recomputes them for its gradient.
                parts.append(
                    checkpoint(
                        pooled,
                        tokens[part],
                        valid,
                        t if len(t) == 1 else t[part],
                        use_reentrant=False,
                    )
                )
            outputs: Tensor = model.forward_head(torch.cat(parts), weights)
        return outputs

    def _supervised(self, loss: Loss, outputs: Tensor, rows: Tensor) -> Tensor:
        rows = self.ranks.part(rows)
        return self._weighted(loss(outputs.float(), self.targets[rows]), rows)

    def _rows_of(self, values: Tensor, rows: Tensor) -> Tensor:
        """Return the values of this process's part of a batch."""
        return values[self.ranks.part(rows)]

    def _weighted(self, losses: Tensor, rows: Tensor) -> Tensor:
        return losses if self.weights is None else losses * self.weights[rows]

    def _autocast(self) -> torch.autocast:
        return torch.autocast(self.plan.device.type, torch.bfloat16, enabled=self.plan.bfloat16)

    def _halve(self, size: int, reason: str) -> None:
        now = size if self.most_at_once is None else min(self.most_at_once, size)
        if now == 1 or not self.may_cut:
            raise MemoryError(
                f"a batch of {size} series does not fit into the memory of {self.plan.device}, "
                f"{'nor does one series' if now == 1 else 'and cannot be cut here'}; choose "
                f"a smaller batch_size, a smaller model or a stem with a larger stride{reason}"
            )
        if self.most_at_once is None:
            warn_caller(
                f"a batch of {size} series did not fit into the memory of {self.plan.device}: "
                "from now on each batch goes through the blocks in pieces, which takes longer but "
                "gives the same steps"
            )
        self.most_at_once = (now + 1) // 2


def clip_and_update(optimizer: torch.optim.Optimizer, max_grad_norm: float) -> None:
    """Clip the gradients and take the optimizer's step."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    nn.utils.clip_grad_norm_(parameters, max_grad_norm)
    optimizer.step()


def augmented(
    inputs: tuple[Tensor, Tensor | None, Tensor | None],
    augmentation: Augmentation | None,
    *,
    step: int,
    seed: int,
    symbolic: bool = False,
    n_flags: int = 0,
) -> Batch:
    """Augment the batch of a step; the draws depend on the seed and the step alone."""
    values, mask, times = inputs
    batch = Batch(values, mask, times, symbolic, n_flags)
    if augmentation is None:
        return batch
    with drawing(seed, step, values.device):
        return augmentation(batch)


def mixed(losses: Callable[[Tensor], Tensor], rows: Tensor, batch: Batch) -> Tensor:
    """Average the losses for the targets of a series and its partner, by their shares."""
    own = losses(rows)
    if batch.partner is None or batch.share is None:
        return own
    return batch.share * own + (1 - batch.share) * losses(rows[batch.partner])
