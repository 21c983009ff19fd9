"""Running averages of batch norms for the final weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from tsformer.data.batching import shuffled
from tsformer.data.stored_panel import AnyPanel
from tsformer.model.norms import FEWEST, MaskedBatchNorm, PooledBatchNorm, effective_size
from tsformer.objectives import Pretext
from tsformer.training.distributed import Ranks
from tsformer.training.memory import in_halves
from tsformer.training.plan import TrainingPlan

__all__ = ["norm_weights", "update_bn"]


def norm_weights(model: nn.Module, weights: Tensor | None, loss: object) -> Tensor | None:
    """Return the series weights for the head's batch norm, or None."""
    # An objective may pass several views of each series through the norm.
    weighted = isinstance(getattr(model, "head_norm", None), PooledBatchNorm)
    return weights if weighted and not isinstance(loss, Pretext) else None


def update_bn(
    model: nn.Module, panel: AnyPanel, plan: TrainingPlan, weights: Tensor | None = None
) -> None:
    """Recompute the running averages of batch norms in one pass without training.

    Averages kept during training lag behind the weights: after a short run they are still close to
    their initial values, and on small data they depend on the last few batches.

    Unlike `torch.optim.swa_utils.update_bn` this runs only the stem if all batch norms are in it,
    shuffles batches as training does, and disables dropout.

    Parameters
    ----------
    model : nn.Module
        Only its running averages change.
    panel : Panel or StoredPanel
        The training series.
    plan : TrainingPlan
        Has the batch size of the training. Norms that are frozen to its end keep their averages.
    weights : Tensor [n], optional
        Weights of the series in the norm of the head.
    """
    frozen = plan.frozen(plan.n_epochs - 1)
    norms = [
        module
        for name, module in model.named_modules()
        if isinstance(module, _BatchNorm) and f"{name}.weight" not in frozen
    ]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    model.eval()
    for norm in norms:
        norm.train()
    run = _pass_of(model, norms)
    head: Any = getattr(model, "head_norm", None)
    on_host = None if weights is None or head not in norms else weights.cpu().double()
    seen = 0.0
    generator = torch.Generator().manual_seed(plan.seed)
    # Norms that sum over all processes need each series in one process only.
    shared = all(isinstance(norm, MaskedBatchNorm) and norm.shared for norm in norms)
    ranks = Ranks.current() if shared else Ranks()
    batches = list(shuffled(len(panel), plan.batch_size, generator))
    try:
        with (
            torch.no_grad(),
            torch.autocast(plan.device.type, torch.bfloat16, enabled=plan.bfloat16),
            panel.ahead([ranks.part(batch) for batch in batches]) as coming,
        ):
            for count, (batch, index) in enumerate(zip(batches, coming, strict=True), start=1):
                for norm in norms:
                    norm.momentum = 1 / count  # makes the average the plain mean
                inputs = panel.take(index, device=plan.device)
                if on_host is None:
                    run(*inputs)
                    continue
                total = on_host[batch].sum()
                if effective_size(total, on_host[batch].square().sum()) >= FEWEST:
                    seen += total.item()
                # Makes the average the weighted mean.
                head.momentum = len(batch) / seen if seen else 0.0
                run(*inputs, weights=on_host[index].float().to(plan.device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


def _pass_of(model: Any, norms: Sequence[nn.Module]) -> Callable[..., object]:
    """Return the forward pass up to the last batch norm."""
    if not hasattr(model, "forward_stem"):
        run: Callable[..., object] = model
        return run
    in_stem = set(model.stem.modules())
    at_the_head = set(model.head_norm.modules()) if model.head_norm is not None else set()
    others = set(norms) - in_stem
    if not others:
        forward_stem: Callable[..., object] = model.forward_stem
        return forward_stem
    if others - at_the_head:  # a norm inside the blocks needs the whole batch
        return model.__call__

    def forward(
        x: Tensor, mask: Tensor | None, times: Tensor | None, weights: Tensor | None = None
    ) -> Tensor:
        tokens, mask, t = model.forward_stem(x, mask, times)

        def pooled(part: Tensor) -> Tensor:
            some = None if mask is None else mask[part]
            features = model.forward_features(tokens[part], some, t if len(t) == 1 else t[part])
            pool: Tensor = model.pool(features, some)
            return pool

        parts = in_halves(pooled, torch.arange(len(x), device=x.device), x.device)
        logits: Tensor = model.forward_head(torch.cat([rows for _, rows in parts]), weights)
        return logits

    return forward
