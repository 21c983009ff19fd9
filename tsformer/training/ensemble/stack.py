"""Several models of one shape as one: their parameters with a leading member axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from tsformer.training.ensemble.vmap_rules import VmapRules
from tsformer.training.optimizer import decay_groups
from tsformer.training.plan import TrainingPlan

__all__ = ["ModelStack"]

#: What a model is called with: values, mask, times.
Inputs = tuple[Tensor, Tensor | None, Tensor | None]


class ModelStack:
    """Models whose parameters and buffers are views of stacked tensors ``[members, ...]``.

    A call runs all of them, each on inputs of its own, as one model through `torch.vmap`. The
    models stay usable one by one: they see what the stack learns.

    Parameters
    ----------
    models : sequence of nn.Module
        Of one shape, on one device.
    """

    def __init__(self, models: Sequence[nn.Module]):
        self.models = list(models)
        first = self.models[0]
        self.parameters = {
            name: torch.stack([m.get_parameter(name).detach() for m in models]).requires_grad_(
                value.requires_grad
            )
            for name, value in first.named_parameters()
        }
        self.buffers = {
            name: torch.stack([m.get_buffer(name) for m in models])
            for name, _ in first.named_buffers()
        }
        for i, model in enumerate(self.models):
            for name, parameter in model.named_parameters():
                parameter.data = self.parameters[name].detach()[i]
            for name, buffer in model.named_buffers():
                buffer.data = self.buffers[name][i]

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
            Which members these are, in order.
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
        """Return why `torch.vmap` cannot run these models, or None; changes nothing."""
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
        """Return the optimizer of one model, over all of them: AdamW goes element by element."""
        groups = decay_groups(self.models[0])
        names = {id(p): name for name, p in self.models[0].named_parameters()}
        for group in groups:
            group["params"] = [self.parameters[names[id(p)]] for p in group["params"]]
        return torch.optim.AdamW(
            groups, lr=plan.learning_rate, weight_decay=plan.weight_decay, fused=True
        )

    def clip(self, max_norm: float) -> None:
        """Clip each member's gradients to this norm, as `clip_grad_norm_` does for one model."""
        grads = [p.grad for p in self.parameters.values() if p.grad is not None]
        # A member's weights in a row, also those that are single numbers.
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
        """Return of a snapshot what a member's `load_state_dict` takes."""
        model = self.models[member]
        return {name: snapshot[name][member] for name in model.state_dict() if name in snapshot}
